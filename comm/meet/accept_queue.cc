#include "comm/meet/accept_queue.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr int kHelloMs = 5'000;
constexpr int kPollMs = 200;
constexpr std::size_t kMostConnections = 256;
constexpr int kMostPerPoll = 4'096;  // a flood of connections must not starve the others

// What is sent here fits into the buffer of a new connection: none waits for it.
bool send_at_once(const Socket& socket, const std::string& text) {
  return send_fully(socket, std::as_bytes(std::span(text)), Deadline(0));
}

}  // namespace

AcceptQueue::AcceptQueue(const Socket& listener, std::size_t longest, OnBytes on_bytes,
                         const JobSecret* secret)
    : listener_(listener), longest_(longest), on_bytes_(std::move(on_bytes)), secret_(secret) {}

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
// never among those that are dropped to make room. Where it must prove itself first, it has sent
// how a proof begins, and no more are accepted at once than leave it in place.
void AcceptQueue::accept_waiting(const Deadline& deadline) {
  const int most = secret_ == nullptr ? kMostPerPoll : static_cast<int>(kMostConnections / 2);
  for (int i = 0; i < most; ++i) {
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
    if (!challenge(connection)) {
      ++refused_;
      continue;
    }
    if (done_with(connection)) continue;
    if (connections_.size() == kMostConnections) drop_oldest();
    connections_.push_back(std::move(connection));
  }
}

bool AcceptQueue::drop_oldest() {
  if (connections_.empty()) return false;
  const auto silent = std::ranges::find_if(
      connections_, [](const Connection& one) { return !one.proven && one.received.empty(); });
  connections_.erase(silent == connections_.end() ? connections_.begin() : silent);
  ++refused_;
  return true;
}

bool AcceptQueue::challenge(Connection& connection) const {
  if (secret_ == nullptr) return true;
  connection.nonce = random_nonce();
  return send_at_once(connection.socket, challenge_of(connection.nonce));
}

bool AcceptQueue::done_with(Connection& connection) {
  const HelloStatus status = read_from(connection);
  if (status == HelloStatus::kUnknown) ++refused_;
  return status != HelloStatus::kIncomplete;
}

HelloStatus AcceptQueue::read_from(Connection& connection) {
  std::array<char, 512> chunk{};
  while (true) {
    const bool trusted = secret_ == nullptr || connection.proven;
    const std::size_t longest = trusted ? longest_ : kProofBytes;
    const std::size_t room = std::min(chunk.size(), longest - connection.received.size());
    if (room == 0) return HelloStatus::kUnknown;
    const ssize_t got = recv(connection.socket.fd(), chunk.data(), room, 0);
    if (got == 0) return HelloStatus::kUnknown;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
      return later && !connection.deadline.passed() ? HelloStatus::kIncomplete
                                                    : HelloStatus::kUnknown;
    }
    connection.received.append(chunk.data(), static_cast<std::size_t>(got));
    const HelloStatus status =
        trusted ? on_bytes_(connection.socket, connection.received) : take_proof(connection);
    if (status != HelloStatus::kIncomplete) return status;
  }
}

HelloStatus AcceptQueue::take_proof(Connection& connection) {
  std::string answer;
  const ProofStatus status = judge(*secret_, connection.nonce, connection.received, answer);
  if (status == ProofStatus::kIncomplete) return HelloStatus::kIncomplete;
  if (status == ProofStatus::kWrong) ++distrusted_;
  if (status != ProofStatus::kRight || !send_at_once(connection.socket, answer)) {
    return HelloStatus::kUnknown;
  }
  connection.received.clear();
  connection.proven = true;
  return HelloStatus::kIncomplete;  // its hello follows
}

}  // namespace fm::comm
