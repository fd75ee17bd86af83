// The side of the ranks above 0 of the meeting.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "comm/meet/meeting.h"
#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
// Rank 0's limit shall pass first where both started together: it knows who is missing.
constexpr int kAfterRank0Ms = 500;
constexpr int kConnectMs = 3'000;

// kMore: the end, or the deadline, came first.
Reading read_frame(const Socket& socket, std::size_t longest, const Deadline& deadline,
                   Frame& frame) {
  std::string bytes(kFrameHeader, '\0');
  if (!receive_fully(socket, std::as_writable_bytes(std::span(bytes)), deadline)) {
    return Reading::kMore;
  }
  const Reading header = decode(bytes, longest, frame);
  if (header != Reading::kMore) return header;
  bytes.resize(kFrameHeader + announced_length(bytes));
  const auto text = std::as_writable_bytes(std::span(bytes)).subspan(kFrameHeader);
  if (!receive_fully(socket, text, deadline)) return Reading::kMore;
  return decode(bytes, longest, frame);
}

[[noreturn]] void obey(const Frame& refusal) {
  const bool lost = refusal.exit_code == static_cast<int>(ExitCode::kPeerLost);
  throw core::MachineError(lost ? ExitCode::kPeerLost : ExitCode::kRendezvousFailed,
                           printable(refusal.text, kLongestWords));
}

struct Reached {
  Socket line;
  Introduction rank0 = {};
};

// One attempt. Closed line: `why` says what was there instead.
Reached knock(const Endpoint& at, const Introduction& own, const Deadline& deadline,
              std::string& why) {
  Reached reached{.line = connect_once(at, deadline.from_now(deadline.left_ms(kConnectMs)))};
  why = "nothing accepts connections there";
  if (!reached.line.open()) return {};
  why = "what listens there closed the connection without a word of fmengine";
  const std::string hello = encode({FrameKind::kHello, 0, text_of(own)});
  if (!send_fully(reached.line, std::as_bytes(std::span(hello)), deadline)) return {};
  Frame frame;
  const Reading reading = read_frame(reached.line, kLongestWords, deadline, frame);
  if (reading == Reading::kMore && deadline.passed()) why = "what listens there says nothing";
  if (reading == Reading::kWrong) why = "what listens there is not rank 0 of an fmengine job";
  if (reading != Reading::kWhole) return {};
  if (frame.kind == FrameKind::kRefusal) obey(frame);
  const auto rank0 = introduction_of(frame.text);
  const bool welcome = frame.kind == FrameKind::kWelcome && rank0.has_value();
  if (!welcome) return {};
  reached.rank0 = *rank0;
  return reached;
}

Reached reach(const Introduction& own, const Places& places, const Deadline& deadline) {
  std::string why;
  for (int pause_ms = 10;; pause_ms = std::min(2 * pause_ms, 250)) {
    const std::vector<Endpoint> found = places();
    if (found.empty()) why = "the name does not resolve";
    for (const Endpoint& at : found) {
      std::string reason;
      Reached reached = knock(at, own, deadline, reason);
      if (reached.line.open()) return reached;
      // An attempt that the limit cut short has seen less than the one before.
      if (!why.empty() && deadline.passed()) continue;
      why = core::concat(at.address, ":", at.port, ": ", reason);
    }
    FM_MACHINE_CHECK(
        !deadline.passed(), ExitCode::kRendezvousFailed,
        "every rank must reach rank 0 at MASTER_ADDR and MASTER_PORT within the limit; "
        "check that rank 0 runs and the network between the hosts (rank ",
        own.member.world_rank, " of ", own.world_size, " waited ", deadline.limit_ms(), " ms; ",
        why, ")");
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline.left_ms(pause_ms)));
  }
}

}  // namespace

Meeting join_meeting(const Introduction& own, const Places& places, const Deadline& deadline) {
  Reached reached = reach(own, places, deadline);
  const Deadline last = deadline.from_now(deadline.left_ms() + kAfterRank0Ms);
  Frame frame;
  const Reading reading = read_frame(reached.line, longest_roster(own.world_size), last, frame);
  FM_MACHINE_CHECK(reading != Reading::kMore || !last.passed(), ExitCode::kRendezvousFailed,
                   "all ranks must meet within the limit; look at the output of rank 0, which says "
                   "who is missing (rank ",
                   own.member.world_rank, " waited ", deadline.limit_ms(), " ms with ",
                   name_of(reached.rank0.member), ")");
  FM_MACHINE_CHECK(reading != Reading::kMore, ExitCode::kPeerLost,
                   "all ranks must stay until all have met; look at the output of the one that "
                   "ended, and start them again (",
                   name_of(reached.rank0.member), " ended while the ranks met)");
  if (reading == Reading::kWhole && frame.kind == FrameKind::kRefusal) obey(frame);
  const bool roster = reading == Reading::kWhole && frame.kind == FrameKind::kRoster;
  auto attendance = roster ? attendance_of(frame.text, own.world_size) : std::nullopt;
  FM_MACHINE_CHECK(
      attendance.has_value(), ExitCode::kRendezvousFailed,
      "rank 0 must send the roster of all ranks; start all ranks with the same build (",
      name_of(reached.rank0.member), " sent ", frame.text.size(), " other bytes)");
  Meeting meeting{.attendance = std::move(*attendance)};
  meeting.lines.push_back(std::move(reached.line));
  return meeting;
}

}  // namespace fm::comm
