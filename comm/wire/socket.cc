#include "comm/wire/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
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
#include <thread>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
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

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* raw = nullptr;
  if (address->sa_family == AF_INET6) {
    raw = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  } else {
    raw = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  }
  inet_ntop(address->sa_family, raw, text.data(), text.size());
  return text.data();
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
  // Connections of a job that has ended linger on its port for a minute. A port at which another
  // process listens stays taken.
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
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

Socket listen_on(const std::string& address) {
  const AddressList found = resolve(address, 0, AI_NUMERICHOST | AI_PASSIVE);
  FM_CHECK(found != nullptr, "not a numeric address: ", address);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool listening = socket.open() &&
                         bind(socket.fd(), found->ai_addr, found->ai_addrlen) == 0 &&
                         listen(socket.fd(), SOMAXCONN) == 0;
  FM_MACHINE_CHECK(listening, ExitCode::kRendezvousFailed,
                   "every rank must be able to listen on an address of its host; check the "
                   "network and MASTER_ADDR (address ",
                   address, ": ", std::strerror(errno), ")");
  return socket;
}

Listener listen_at(const std::string& host, int port, const Deadline& deadline) {
  AddressList found = resolve(host, port, 0);
  while (found == nullptr && !deadline.passed()) {  // names of pods appear late
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    found = resolve(host, port, 0);
  }
  FM_MACHINE_CHECK(found != nullptr, ExitCode::kRendezvousFailed,
                   "MASTER_ADDR must name the host of rank 0; check the name (MASTER_ADDR=", host,
                   ", waited ", deadline.limit_ms(), " ms)");
  const auto refuse = [&](int error) {
    FM_MACHINE_CHECK(error == 0, ExitCode::kRendezvousFailed,
                     "rank 0 must be able to listen on MASTER_PORT; end the program that has it, "
                     "which may be another job, or choose another port for all ranks (",
                     host, ":", port, ": ", std::strerror(error), ")");
  };
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    Listener listener{.socket = new_socket(address->ai_family),
                      .address = text_of(address->ai_addr)};
    const int error = try_to_listen(listener.socket, *address);
    if (error == EADDRNOTAVAIL || error == EAFNOSUPPORT) continue;
    refuse(error);
    return listener;
  }
  const char* const any = found->ai_family == AF_INET6 ? "::" : "0.0.0.0";
  const AddressList everywhere = resolve(any, port, AI_NUMERICHOST | AI_PASSIVE);
  Listener listener{.socket = new_socket(found->ai_family), .address = any, .everywhere = true};
  refuse(try_to_listen(listener.socket, *everywhere));
  return listener;
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

std::string address_towards(const std::string& host, int port, const Deadline& deadline) {
  while (true) {  // names of pods appear late
    const AddressList found = resolve(host, port, 0);
    for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
      // Connecting a datagram socket sends nothing; it only selects the route.
      const Socket probe(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      sockaddr_storage own{};
      socklen_t length = sizeof own;
      if (probe.open() && ::connect(probe.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
          getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&own), &length) == 0) {
        return text_of(reinterpret_cast<const sockaddr*>(&own));
      }
    }
    FM_MACHINE_CHECK(!deadline.passed(), ExitCode::kRendezvousFailed,
                     "MASTER_ADDR must name a host that this one can reach; check the name and "
                     "the network (MASTER_ADDR=",
                     host, ", waited ", deadline.limit_ms(), " ms)");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

std::vector<Endpoint> endpoints_of(const std::string& host, int port) {
  std::vector<Endpoint> endpoints;
  const AddressList found = resolve(host, port, 0);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    endpoints.push_back({text_of(address->ai_addr), port});
  }
  return endpoints;
}

std::vector<std::string> own_addresses() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(raw, &freeifaddrs);
  std::vector<std::string> addresses;
  for (const ifaddrs* device = all.get(); device != nullptr; device = device->ifa_next) {
    if (device->ifa_addr == nullptr) continue;
    const int family = device->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const std::string address = text_of(device->ifa_addr);
    if (!is_loopback(address) && !address.starts_with("fe80:")) addresses.push_back(address);
  }
  return addresses;
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
