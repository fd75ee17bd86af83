// The side of the ranks above 0 of the rendezvous.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "comm/meet/rendezvous.h"
#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
// Where both started together, the limit of rank 0 shall pass first: it knows which ranks are
// missing.
constexpr int kAfterRank0Ms = 500;
constexpr int kConnectMs = 3'000;

// kIncomplete: the connection ended, or the deadline passed, before the frame was complete.
FrameStatus read_frame(const Socket& socket, std::size_t longest, const Deadline& deadline,
                       Frame& frame) {
  std::string bytes(kFrameHeader, '\0');
  if (!receive_fully(socket, std::as_writable_bytes(std::span(bytes)), deadline)) {
    return FrameStatus::kIncomplete;
  }
  const FrameStatus header = decode(bytes, longest, frame);
  if (header != FrameStatus::kIncomplete) return header;
  bytes.resize(kFrameHeader + announced_length(bytes));
  const auto text = std::as_writable_bytes(std::span(bytes)).subspan(kFrameHeader);
  if (!receive_fully(socket, text, deadline)) return FrameStatus::kIncomplete;
  return decode(bytes, longest, frame);
}

[[noreturn]] void throw_refusal(const Frame& refusal) {
  const bool lost = refusal.exit_code == static_cast<int>(ExitCode::kPeerLost);
  throw core::MachineError(lost ? ExitCode::kPeerLost : ExitCode::kRendezvousFailed,
                           printable(refusal.text, kLongestFrameText));
}

struct Rank0Connection {
  Socket connection;
  PeerInfo rank0 = {};
};

// One attempt. Where the connection returned is closed, `why` says what answered instead.
Rank0Connection try_once(const Endpoint& endpoint, const PeerInfo& own, const Deadline& deadline,
                         std::string& why) {
  Rank0Connection found{
      .connection = connect_once(endpoint, deadline.from_now(deadline.left_ms(kConnectMs)))};
  why = "nothing accepts connections there";
  if (!found.connection.open()) return {};
  why = "what listens there closed the connection without a word of fmengine";
  const std::string hello = encode({FrameKind::kHello, 0, text_of(own)});
  if (!send_fully(found.connection, std::as_bytes(std::span(hello)), deadline)) return {};
  Frame frame;
  const FrameStatus reading = read_frame(found.connection, kLongestFrameText, deadline, frame);
  if (reading == FrameStatus::kIncomplete && deadline.passed())
    why = "what listens there says nothing";
  if (reading == FrameStatus::kInvalid) why = "what listens there is not rank 0 of an fmengine job";
  if (reading != FrameStatus::kComplete) return {};
  if (frame.kind == FrameKind::kRefusal) throw_refusal(frame);
  const auto rank0 = peer_info_of(frame.text);
  const bool welcome = frame.kind == FrameKind::kWelcome && rank0.has_value();
  if (!welcome) return {};
  found.rank0 = *rank0;
  return found;
}

Rank0Connection find_rank0(const PeerInfo& own, const FindEndpoints& find,
                           const Deadline& deadline) {
  std::string why;
  for (int pause_ms = 10;; pause_ms = std::min(2 * pause_ms, 250)) {
    const std::vector<Endpoint> endpoints = find();
    if (endpoints.empty()) why = "the name does not resolve";
    for (const Endpoint& endpoint : endpoints) {
      std::string reason;
      Rank0Connection found = try_once(endpoint, own, deadline, reason);
      if (found.connection.open()) return found;
      // An attempt that the limit cut short has seen less than the one before.
      if (!why.empty() && deadline.passed()) continue;
      why = core::concat(endpoint.address, ":", endpoint.port, ": ", reason);
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

Rendezvous join_rendezvous(const PeerInfo& own, const FindEndpoints& find,
                           const Deadline& deadline) {
  Rank0Connection found = find_rank0(own, find, deadline);
  const Deadline last = deadline.from_now(deadline.left_ms() + kAfterRank0Ms);
  Frame frame;
  const FrameStatus reading =
      read_frame(found.connection, longest_roster(own.world_size), last, frame);
  FM_MACHINE_CHECK(reading != FrameStatus::kIncomplete || !last.passed(),
                   ExitCode::kRendezvousFailed,
                   "all ranks must meet within the limit; look at the output of rank 0, which says "
                   "who is missing (rank ",
                   own.member.world_rank, " waited ", deadline.limit_ms(), " ms with ",
                   name_of(found.rank0.member), ")");
  FM_MACHINE_CHECK(reading != FrameStatus::kIncomplete, ExitCode::kPeerLost,
                   "all ranks must stay until all have met; look at the output of the one that "
                   "ended, and start them again (",
                   name_of(found.rank0.member), " ended while the ranks met)");
  if (reading == FrameStatus::kComplete && frame.kind == FrameKind::kRefusal) throw_refusal(frame);
  const bool is_roster = reading == FrameStatus::kComplete && frame.kind == FrameKind::kRoster;
  auto job_roster = is_roster ? job_roster_of(frame.text, own.world_size) : std::nullopt;
  FM_MACHINE_CHECK(
      job_roster.has_value(), ExitCode::kRendezvousFailed,
      "rank 0 must send the roster of all ranks; start all ranks with the same build (",
      name_of(found.rank0.member), " sent ", frame.text.size(), " other bytes)");
  Rendezvous rendezvous{.job_roster = std::move(*job_roster)};
  rendezvous.connections.push_back(std::move(found.connection));
  return rendezvous;
}

}  // namespace fm::comm
