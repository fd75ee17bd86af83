#include "comm/wire/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
// All addresses of both families, or of one where the system has no IPv6.
constexpr const char* kEverywhere[] = {"::", "0.0.0.0"};
using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return AddressList(failed == 0 ? found : nullptr, &freeaddrinfo);
}

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.fd(), level, option, &value, sizeof value);  // a failure only costs speed
}

// Keep-alive (idle) or the user timeout (busy) detects a host that vanished without a FIN.
void prepare(const Socket& socket) {
  fcntl(socket.fd(), F_SETFL, fcntl(socket.fd(), F_GETFL) | O_NONBLOCK);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1 << 20);  // bytes in here cannot be overtaken
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
}

bool poll_for(const Socket& socket, short events, const Deadline& deadline) {
  constexpr int kLookMs = 200;
  pollfd entry{.fd = socket.fd(), .events = events, .revents = 0};
  while (true) {
    const int ready = poll(&entry, 1, deadline.left_ms(kLookMs));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (ready == 0 && deadline.passed()) return false;
  }
}

Socket new_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  FM_MACHINE_CHECK(
      socket.open() || (errno != EMFILE && errno != ENFILE), ExitCode::kRendezvousFailed,
      "every connection needs a file descriptor; raise `ulimit -n` (", std::strerror(errno), ")");
  return socket;
}

// Listens at `at`; returns 0, or errno.
int try_to_listen(const Socket& socket, const addrinfo& address) {
  if (!socket.open()) return errno;
  // One listener for both families, whatever the system's default is.
  if (address.ai_family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const bool listening = bind(socket.fd(), address.ai_addr, address.ai_addrlen) == 0 &&
                         listen(socket.fd(), SOMAXCONN) == 0;
  return listening ? 0 : errno;
}

// True when a socket is connected to itself: when connecting to a free port of this host, the
// kernel may choose that very port for the own end.
bool is_own_echo(const Socket& socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof own;
  socklen_t peer_length = sizeof peer;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&own), &own_length);
  getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &peer_length);
  return own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Socket::close() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

std::string text_of(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.address.find(':') != std::string::npos;
  return ipv6 ? core::concat("[", endpoint.address, "]:", endpoint.port)
              : core::concat(endpoint.address, ":", endpoint.port);
}

Socket listen_on(const std::string& address) {
  int error = EAFNOSUPPORT;
  const std::span<const char* const> everywhere(kEverywhere);
  const char* const there[] = {address.c_str()};
  for (const char* const one : address.empty() ? everywhere : std::span(there)) {
    const AddressList found = resolve(one, 0, AI_NUMERICHOST | AI_PASSIVE);
    FM_CHECK(found != nullptr, "not a numeric address: ", one);
    Socket socket = new_socket(found->ai_family);
    error = try_to_listen(socket, *found);
    if (error == 0) return socket;
    if (error != EAFNOSUPPORT && error != EADDRNOTAVAIL) break;
  }
  throw core::MachineError(
      ExitCode::kRendezvousFailed,
      core::concat("every rank must be able to listen on an address of its host; check the network "
                   "and MASTER_ADDR (address ",
                   address, ": ", std::strerror(error), ")"));
}

Listener listen_at_one_of(const std::vector<Endpoint>& endpoints, const std::string& otherwise) {
  const Endpoint& first = endpoints.at(0);
  std::vector<Endpoint> places = endpoints;
  if (!otherwise.empty()) places.push_back({otherwise, first.port});
  const std::size_t named = places.size();
  for (const char* const any : kEverywhere) places.push_back({any, first.port});
  int error = EADDRNOTAVAIL;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const AddressList found = resolve(places[i].address, first.port, AI_NUMERICHOST | AI_PASSIVE);
    if (found == nullptr) continue;
    Listener listener{.socket = new_socket(found->ai_family),
                      .address = places[i].address,
                      .everywhere = i >= named};
    // Connections of a job that has ended linger on its port for a minute. A port at which another
    // process listens stays taken.
    set(listener.socket, SOL_SOCKET, SO_REUSEADDR, 1);
    error = try_to_listen(listener.socket, *found);
    if (error == 0) return listener;
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) break;
  }
  throw core::MachineError(
      ExitCode::kRendezvousFailed,
      core::concat("rank 0 must be able to listen on MASTER_PORT; end the program that has it, "
                   "which may be another job, or choose another port for all ranks (",
                   text_of(first), ": ", std::strerror(error), ")"));
}

int port_of(const Socket& socket) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &length);
  if (bound.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

std::string own_address_towards(const Endpoint& endpoint) {
  const AddressList found = resolve(endpoint.address, endpoint.port, AI_NUMERICHOST);
  if (found == nullptr) return "";
  // Connecting a datagram socket sends nothing; it only selects the route.
  const Socket probe(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool reached = probe.open() &&
                       ::connect(probe.fd(), found->ai_addr, found->ai_addrlen) == 0 &&
                       getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  return reached ? numeric_text(reinterpret_cast<const sockaddr&>(own)) : "";
}

std::vector<Endpoint> endpoints_of(const std::string& host, int port) {
  std::vector<Endpoint> endpoints;
  const AddressList found = resolve(host, port, 0);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    endpoints.push_back({numeric_text(*address->ai_addr), port});
  }
  return endpoints;
}

std::string numeric_text(const sockaddr& address) {
  const bool ipv6 = address.sa_family == AF_INET6;
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(&address, ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), text.data(), text.size(),
              nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

Socket connect_once(const Endpoint& to, const Deadline& deadline) {
  const AddressList found = resolve(to.address, to.port, AI_NUMERICHOST);
  if (found == nullptr) return {};
  Socket socket = new_socket(found->ai_family);
  if (!socket.open()) return {};
  prepare(socket);
  const bool at_once = ::connect(socket.fd(), found->ai_addr, found->ai_addrlen) == 0;
  if (at_once) return is_own_echo(socket) ? Socket() : std::move(socket);
  if (errno != EINPROGRESS || !poll_for(socket, POLLOUT, deadline)) return {};
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0 || is_own_echo(socket)) return {};
  return socket;
}

Socket accept_one(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.open()) prepare(socket);
  return socket;
}

bool send_fully(const Socket& socket, std::span<const std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EINTR && !(would_block() && poll_for(socket, POLLOUT, deadline))) {
      return false;
    }
  }
  return true;
}

bool receive_fully(const Socket& socket, std::span<std::byte> bytes, const Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket.fd(), bytes.data(), bytes.size(), 0);
    if (got == 0) return false;
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (errno != EINTR && !(would_block() && poll_for(socket, POLLIN, deadline))) {
      return false;
    }
  }
  return true;
}

}  // namespace fm::comm
