#include "tests/comm/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fm::comm {
namespace {

// One socket holds the port for IPv4 and IPv6; a host may have no IPv6.
template <class Address>
int bind_any(const Address& any, Address& bound) {
  const auto* const where = reinterpret_cast<const sockaddr*>(&any);
  const int fd = socket(where->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  const int no = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);  // refused for IPv4
  socklen_t length = sizeof bound;
  if (bind(fd, where, sizeof any) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) == 0) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace

HeldPort::HeldPort() {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  sockaddr_in any{};
  any.sin_family = AF_INET;
  sockaddr_in6 bound6{};
  sockaddr_in bound{};
  fd_ = bind_any(any6, bound6);
  number_ = ntohs(bound6.sin6_port);
  if (fd_ < 0) {
    fd_ = bind_any(any, bound);
    number_ = ntohs(bound.sin_port);
  }
  if (fd_ < 0) throw std::runtime_error("no free port");
}

HeldPort::~HeldPort() { close(fd_); }

int HeldPort::sockets_in(const std::string& state) const {
  int count = 0;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // the names of the columns
    while (std::getline(file, line)) {
      // sl local_address:port remote st ...
      std::istringstream words(line);
      std::string slot, local, remote, st;
      words >> slot >> local >> remote >> st;
      const int port = std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16);
      count += port == number_ && st == state ? 1 : 0;
    }
  }
  return count;
}

}  // namespace fm::comm
