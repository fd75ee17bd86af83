// Rank 0's side of the rendezvous.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "comm/meet/accept_queue.h"
#include "comm/meet/rendezvous.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr int kSendMs = 5'000;
// A SIGTERM that is sent to all ranks of a host reaches this one within this time, and explains
// more.
constexpr auto kSignalWait = std::chrono::milliseconds(200);

struct JoinedRank {
  PeerInfo info;
  Socket connection;  // closed until the rank has joined
};

bool send_frame(const Socket& socket, Frame frame) {
  if (frame.kind == FrameKind::kRefusal)
    frame.text.resize(std::min(frame.text.size(), kLongestFrameText));
  const std::string bytes = encode(frame);
  return send_fully(socket, std::as_bytes(std::span(bytes)), Deadline(kSendMs));
}

std::string printable_name(const PeerInfo& who) {
  return core::concat("rank ", who.member.world_rank, " (host ", printable(who.member.host),
                      ", pid ", who.member.pid, ")");
}

// Invariant: ranks_ has an entry for every rank; those above 0 with an open connection have joined.
// Thread:    main.
// Lifetime:  the rendezvous.
class RendezvousServer {
 public:
  RendezvousServer(const ServerOptions& options, const Socket& listener)
      : options_(options),
        queue_(listener, kFrameHeader + kLongestFrameText,
               [this](Socket& candidate, std::string_view received) {
                 return examine(candidate, received);
               }) {
    ranks_.resize(static_cast<std::size_t>(options.own.world_size));
    ranks_[0].info = options.own;
  }

  Rendezvous wait_for_all(const Deadline& deadline) {
    while (!missing().empty()) {
      if (deadline.passed()) fail_at_limit(deadline);
      poll_once(deadline);
      if (conflict_) fail(ExitCode::kRendezvousFailed, *conflict_);
    }
    return send_roster();
  }

 private:
  HelloStatus examine(Socket& candidate, std::string_view received);
  std::string conflict_with(const PeerInfo& who) const;
  void refuse_other_job(const Socket& candidate, const PeerInfo& who);
  void poll_once(const Deadline& deadline);
  Rendezvous send_roster();
  std::vector<std::string> missing() const;
  [[noreturn]] void fail_at_limit(const Deadline& deadline);
  [[noreturn]] void fail_for_lost(const JoinedRank& gone);
  [[noreturn]] void fail(ExitCode code, const std::string& why);

  const ServerOptions& options_;
  std::vector<JoinedRank> ranks_;
  std::optional<std::string> conflict_;  // why the ranks cannot form a world
  bool warned_of_other_job_ = false;
  AcceptQueue queue_;
};

HelloStatus RendezvousServer::examine(Socket& candidate, std::string_view received) {
  Frame frame;
  const FrameStatus reading = decode(received, kLongestFrameText, frame);
  if (reading == FrameStatus::kIncomplete) return HelloStatus::kIncomplete;
  if (reading == FrameStatus::kInvalid || frame.kind != FrameKind::kHello)
    return HelloStatus::kUnknown;
  std::optional<PeerInfo> who = peer_info_of(frame.text);
  if (!who) return HelloStatus::kUnknown;
  if (who->job != options_.own.job) {
    refuse_other_job(candidate, *who);
    return HelloStatus::kUnknown;
  }
  const std::string conflict = conflict_with(*who);
  if (!conflict.empty()) {
    if (!conflict_) conflict_ = conflict;
    send_frame(candidate,
               {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed), conflict});
    return HelloStatus::kHandled;
  }
  PeerInfo self = options_.own;
  self.job.clear();
  if (!send_frame(candidate, {FrameKind::kWelcome, 0, text_of(self)})) return HelloStatus::kUnknown;
  const auto rank = static_cast<std::size_t>(who->member.world_rank);
  ranks_[rank] = {.info = std::move(*who), .connection = std::move(candidate)};
  return HelloStatus::kHandled;
}

// Why `who` cannot belong to this job, or "".
std::string RendezvousServer::conflict_with(const PeerInfo& who) const {
  const PeerInfo& own = options_.own;
  const int rank = who.member.world_rank;
  if (who.world_size != own.world_size) {
    return core::concat("all ranks must have the same WORLD_SIZE; start them again (",
                        printable_name(own), " has WORLD_SIZE=", own.world_size, ", ",
                        printable_name(who), " has WORLD_SIZE=", who.world_size, ")");
  }
  if (rank >= own.world_size) {
    return core::concat("RANK must be below WORLD_SIZE; start them again (", printable_name(who),
                        " of ", own.world_size, ")");
  }
  const JoinedRank& first = ranks_[static_cast<std::size_t>(rank)];
  if (rank > 0 && !first.connection.open()) return "";
  return core::concat(
      "every rank must have a RANK of its own; start them again, each with another (",
      printable_name(first.info), " and ", printable_name(who), ")");
}

void RendezvousServer::refuse_other_job(const Socket& candidate, const PeerInfo& who) {
  send_frame(candidate,
             {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed),
              core::concat("every job must have a MASTER_PORT of its own, and its ranks "
                           "the same --output_dir or FME_JOB_ID; choose another port, or "
                           "give all ranks the same (at ",
                           options_.address, " ", printable_name(options_.own),
                           " of another job answers, not that of ", printable(who.job), ")")});
  if (std::exchange(warned_of_other_job_, true) || !options_.warn) return;
  options_.warn(core::concat("fmengine: refused ", printable_name(who), " of another job (",
                             printable(who.job), " there, ", printable(options_.own.job),
                             " here); still waiting for rank ", core::join(missing(), ", ")));
}

void RendezvousServer::poll_once(const Deadline& deadline) {
  std::vector<pollfd> connections;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].connection.open()) continue;
    connections.push_back({.fd = ranks_[rank].connection.fd(), .events = POLLIN, .revents = 0});
    ranks.push_back(rank);
  }
  queue_.poll_once(connections, deadline);
  for (std::size_t i = 0; i < connections.size(); ++i) {
    // A rank sends nothing until it has the roster, so any event is its end.
    if (connections[i].revents != 0) fail_for_lost(ranks_[ranks[i]]);
  }
}

Rendezvous RendezvousServer::send_roster() {
  Rendezvous rendezvous{.job_roster = {.token = random_token()}, .refused = queue_.refused()};
  for (const JoinedRank& rank : ranks_) rendezvous.job_roster.ranks.push_back(rank.info);
  const Frame roster{FrameKind::kRoster, 0, text_of(rendezvous.job_roster)};
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!send_frame(ranks_[rank].connection, roster)) fail_for_lost(ranks_[rank]);
  }
  for (JoinedRank& rank : ranks_) rendezvous.connections.push_back(std::move(rank.connection));
  return rendezvous;
}

std::vector<std::string> RendezvousServer::missing() const {
  std::vector<std::string> ranks;
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].connection.open()) ranks.push_back(std::to_string(rank));
  }
  return ranks;
}

void RendezvousServer::fail_at_limit(const Deadline& deadline) {
  fail(ExitCode::kRendezvousFailed,
       core::concat(
           "all ranks must meet within the limit; look at the output of the missing ones, "
           "and start every rank with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT (",
           "rank 0 of ", options_.own.world_size, " waited ", deadline.limit_ms(), " ms at ",
           options_.address, ", no sign of rank ", core::join(missing(), ", "),
           queue_.refused() > 0 ? core::concat(", ", queue_.refused(), " strangers came") : "",
           ")"));
}

void RendezvousServer::fail_for_lost(const JoinedRank& gone) {
  const std::vector<std::string> others = missing();
  fail(
      ExitCode::kPeerLost,
      core::concat("all ranks must stay until all have met; look at the output of the one that "
                   "ended, and start them again (",
                   printable_name(gone.info), " ended while the ranks met",
                   others.empty() ? "" : ", no sign yet of rank " + core::join(others, ", "), ")"));
}

void RendezvousServer::fail(ExitCode code, const std::string& why) {
  for (const JoinedRank& rank : ranks_) {
    if (rank.connection.open())
      send_frame(rank.connection, {FrameKind::kRefusal, static_cast<int>(code), why});
  }
  if (code == ExitCode::kPeerLost) std::this_thread::sleep_for(kSignalWait);
  throw core::MachineError(code, why);
}

}  // namespace

Roster roster_of(const JobRoster& job_roster) {
  Roster roster;
  for (const PeerInfo& rank : job_roster.ranks) roster.push_back(rank.member);
  return roster;
}

Rendezvous serve_rendezvous(const ServerOptions& options, const Socket& listener,
                            const Deadline& deadline) {
  return RendezvousServer(options, listener).wait_for_all(deadline);
}

}  // namespace fm::comm
