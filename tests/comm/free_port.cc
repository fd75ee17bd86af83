#include "tests/comm/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>
#include <stdexcept>

namespace fm::comm {
namespace {

bool is_free(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return bound;
}

}  // namespace

int free_port() {
  constexpr int kTries = 1000;
  std::random_device random;
  std::uniform_int_distribution<int> ports(10000, 31999);
  for (int i = 0; i < kTries; ++i) {
    const int port = ports(random);
    if (is_free(port)) return port;
  }
  throw std::runtime_error("no free port");
}

}  // namespace fm::comm
