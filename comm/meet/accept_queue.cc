#include "comm/meet/accept_queue.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr int kHelloMs = 5'000;
constexpr int kPollMs = 200;
constexpr std::size_t kMostConnections = 256;
constexpr int kMostPerPoll = 4'096;  // a flood of connections must not starve the others

}  // namespace

AcceptQueue::AcceptQueue(const Socket& listener, std::size_t longest, OnBytes on_bytes)
    : listener_(listener), longest_(longest), on_bytes_(std::move(on_bytes)) {}

void AcceptQueue::poll_once(std::vector<pollfd>& others, const Deadline& deadline) {
  const std::size_t own = others.size();
  others.push_back({.fd = listener_.fd(), .events = POLLIN, .revents = 0});
  for (const Connection& connection : connections_) {
    others.push_back({.fd = connection.socket.fd(), .events = POLLIN, .revents = 0});
  }
  poll(others.data(), others.size(), deadline.left_ms(kPollMs));
  others.resize(own);
  accept_waiting(deadline);
  std::erase_if(connections_, [this](Connection& connection) { return done_with(connection); });
}

// Each connection is read before the next one is accepted: a rank sends its hello at once, so it is
// never among those that are dropped to make room.
void AcceptQueue::accept_waiting(const Deadline& deadline) {
  for (int i = 0; i < kMostPerPoll; ++i) {
    Connection connection{
        .socket = accept_one(listener_), .deadline = deadline.from_now(kHelloMs), .received = ""};
    if (!connection.socket.open()) {
      const bool full = errno == EMFILE || errno == ENFILE;
      if (!full) return;
      FM_MACHINE_CHECK(drop_oldest(), core::ExitCode::kRendezvousFailed,
                       "every connection needs a file descriptor; raise `ulimit -n` (",
                       std::strerror(EMFILE), ")");
      continue;
    }
    if (done_with(connection)) continue;
    if (connections_.size() == kMostConnections) drop_oldest();
    connections_.push_back(std::move(connection));
  }
}

bool AcceptQueue::drop_oldest() {
  if (connections_.empty()) return false;
  connections_.erase(connections_.begin());
  ++refused_;
  return true;
}

bool AcceptQueue::done_with(Connection& connection) {
  const HelloStatus status = read_from(connection);
  if (status == HelloStatus::kUnknown) ++refused_;
  return status != HelloStatus::kIncomplete;
}

HelloStatus AcceptQueue::read_from(Connection& connection) {
  std::array<char, 512> chunk{};
  while (connection.received.size() < longest_) {
    const std::size_t room = std::min(chunk.size(), longest_ - connection.received.size());
    const ssize_t got = recv(connection.socket.fd(), chunk.data(), room, 0);
    if (got == 0) return HelloStatus::kUnknown;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
      return later && !connection.deadline.passed() ? HelloStatus::kIncomplete
                                                    : HelloStatus::kUnknown;
    }
    connection.received.append(chunk.data(), static_cast<std::size_t>(got));
    const HelloStatus status = on_bytes_(connection.socket, connection.received);
    if (status != HelloStatus::kIncomplete) return status;
  }
  return HelloStatus::kUnknown;
}

}  // namespace fm::comm
