#include "comm/meet/door.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr int kVisitMs = 5'000;
constexpr int kLookMs = 200;
constexpr std::size_t kMostVisitors = 256;
constexpr int kMostAtOnce = 4'096;  // a flood must not keep the others from being heard

}  // namespace

Door::Door(const Socket& listener, std::size_t longest, Judge judge)
    : listener_(listener), longest_(longest), judge_(std::move(judge)) {}

void Door::attend(std::vector<pollfd>& others, const Deadline& deadline) {
  const std::size_t own = others.size();
  others.push_back({.fd = listener_.fd(), .events = POLLIN, .revents = 0});
  for (const Visitor& visitor : visitors_) {
    others.push_back({.fd = visitor.socket.fd(), .events = POLLIN, .revents = 0});
  }
  poll(others.data(), others.size(), deadline.left_ms(kLookMs));
  others.resize(own);
  accept_all_that_wait(deadline);
  std::erase_if(visitors_, [this](Visitor& visitor) { return done_with(visitor); });
}

// Whoever comes is heard before the next one: a rank says its name at once, and is never among
// those who must make room.
void Door::accept_all_that_wait(const Deadline& deadline) {
  for (int i = 0; i < kMostAtOnce; ++i) {
    Visitor visitor{
        .socket = accept_one(listener_), .deadline = deadline.from_now(kVisitMs), .said = ""};
    if (!visitor.socket.open()) {
      const bool full = errno == EMFILE || errno == ENFILE;
      if (!full) return;
      FM_MACHINE_CHECK(make_room(), core::ExitCode::kRendezvousFailed,
                       "every connection needs a file descriptor; raise `ulimit -n` (",
                       std::strerror(EMFILE), ")");
      continue;
    }
    if (done_with(visitor)) continue;
    if (visitors_.size() == kMostVisitors) make_room();
    visitors_.push_back(std::move(visitor));
  }
}

bool Door::make_room() {
  if (visitors_.empty()) return false;
  visitors_.erase(visitors_.begin());
  ++refused_;
  return true;
}

bool Door::done_with(Visitor& visitor) {
  const Verdict verdict = hear(visitor);
  if (verdict == Verdict::kStranger) ++refused_;
  return verdict != Verdict::kMore;
}

Verdict Door::hear(Visitor& visitor) {
  std::array<char, 512> chunk{};
  while (visitor.said.size() < longest_) {
    const std::size_t room = std::min(chunk.size(), longest_ - visitor.said.size());
    const ssize_t got = recv(visitor.socket.fd(), chunk.data(), room, 0);
    if (got == 0) return Verdict::kStranger;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
      return later && !visitor.deadline.passed() ? Verdict::kMore : Verdict::kStranger;
    }
    visitor.said.append(chunk.data(), static_cast<std::size_t>(got));
    const Verdict verdict = judge_(visitor.socket, visitor.said);
    if (verdict != Verdict::kMore) return verdict;
  }
  return Verdict::kStranger;
}

}  // namespace fm::comm
