// TCP sockets as values. IPv4 and IPv6; addresses are numeric text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/waiting.h"

namespace fm::comm {

// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() noexcept;

 private:
  int fd_ = -1;
};

struct Endpoint {
  std::string address;
  int port = 0;
};

// Listens on a free port of one address of this host. Throws MachineError (14).
Socket listen_on(const std::string& address);
// Listens on `port` of the address of this host that `host` names; on all addresses where `host` is
// no address of this host (e.g. that of a service in front of it). Throws MachineError (14) when
// the port is taken, or when the name does not resolve before the deadline.
struct Listener {
  Socket socket;
  std::string address;      // numeric
  bool everywhere = false;  // on all addresses
};
Listener listen_at(const std::string& host, int port, const Deadline& deadline);
int port_of(const Socket& socket);
// The own address on the route to `host`, which peers of a multi-host job can reach. Throws
// MachineError (14) when the name does not resolve before the deadline.
std::string address_towards(const std::string& host, int port, const Deadline& deadline);
// The addresses of `host` in the order in which to try them; empty when the name does not resolve
// now. May take as long as the name servers take.
std::vector<Endpoint> endpoints_of(const std::string& host, int port);
// Addresses of this host that other hosts may reach (no loopback, no link-local).
std::vector<std::string> own_addresses();
bool is_loopback(const std::string& address);

// One attempt to connect; returns a closed Socket when it failed or the deadline passed. The socket
// is non-blocking, sends at once (TCP_NODELAY), and detects a silent host in about 15 s. Throws
// MachineError (14) when the process may open no more files.
Socket connect_once(const Endpoint& to, const Deadline& deadline);
// The next connection that waits at the listener, with the same options; closed when there is none.
Socket accept_one(const Socket& listener);

// All bytes or nothing: false when the peer closed, or the deadline passed.
bool send_fully(const Socket& socket, std::span<const std::byte> bytes, const Deadline& deadline);
bool receive_fully(const Socket& socket, std::span<std::byte> bytes, const Deadline& deadline);

}  // namespace fm::comm
