// Ports for ranks that meet by MASTER_PORT.
#pragma once

#include <string>

namespace fm::comm {

// A TCP port of all addresses of this host that belongs to its holder: bound, but not listened at.
// The kernel gives it to no connection and to no other program. A rank 0 that asks for it by its
// number may listen there, as both set SO_REUSEADDR; where none does, connections are refused.
//
// Invariant: the port is bound as long as the holder lives.
class HeldPort {
 public:
  HeldPort();  // throws std::runtime_error where the system has none
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

  int number() const { return number_; }
  // As the kernel tells: whether a process listens here, and how many connections stand, seen from
  // this side.
  bool listened_at() const { return sockets_in("0A") > 0; }
  int connections() const { return sockets_in("01"); }

 private:
  int sockets_in(const std::string& state) const;

  int fd_ = -1;
  int number_ = 0;
};

}  // namespace fm::comm
