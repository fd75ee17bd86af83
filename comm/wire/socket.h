// TCP sockets as values. IPv4 and IPv6; addresses are numeric text.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/waiting.h"

struct sockaddr;

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
std::string text_of(const Endpoint& endpoint);  // "10.0.0.1:29500", "[::1]:29500"

// Listens on a free port of one address of this host; of all of them where it is "". Throws
// MachineError (14).
Socket listen_on(const std::string& address);
// Listens at the first of `endpoints` that is an address of this host; where none is (but that of a
// service in front of it), on the same port of `otherwise`, or on all addresses where that is "".
// Throws MachineError (14) when the port is taken.
struct Listener {
  Socket socket;
  std::string address;      // numeric
  bool everywhere = false;  // on all addresses
};
Listener listen_at_one_of(const std::vector<Endpoint>& endpoints, const std::string& otherwise);
int port_of(const Socket& socket);
// The own address on the route to a numeric one, "" where none leads there. Sends nothing.
std::string own_address_towards(const Endpoint& endpoint);
// The addresses of `host` in the order in which to try them; empty when the name does not resolve
// now. May take as long as the name servers take.
std::vector<Endpoint> endpoints_of(const std::string& host, int port);
// Numeric, an IPv6 address of the link alone with its scope.
std::string numeric_text(const sockaddr& address);
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
