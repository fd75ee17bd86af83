// Rank 0's side of the meeting.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "comm/meet/door.h"
#include "comm/meet/meeting.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr int kSendMs = 5'000;
// A SIGTERM for all ranks of the host is about to reach this one too, and says more.
constexpr auto kVerdict = std::chrono::milliseconds(200);

struct Guest {
  Introduction who;
  Socket line;
};

bool send_frame(const Socket& socket, Frame frame) {
  if (frame.kind == FrameKind::kRefusal)
    frame.text.resize(std::min(frame.text.size(), kLongestWords));
  const std::string bytes = encode(frame);
  return send_fully(socket, std::as_bytes(std::span(bytes)), Deadline(kSendMs));
}

std::string name_of_guest(const Introduction& who) {
  return core::concat("rank ", who.member.world_rank, " (host ", printable(who.member.host),
                      ", pid ", who.member.pid, ")");
}

// Invariant: guests_ has a place for every rank; those above 0 with an open line have come.
// Thread:    main.
// Lifetime:  the meeting.
class Lobby {
 public:
  Lobby(const LobbyOptions& options, const Socket& listener)
      : options_(options),
        door_(listener, kFrameHeader + kLongestWords,
              [this](Socket& visitor, std::string_view said) { return judge(visitor, said); }) {
    guests_.resize(static_cast<std::size_t>(options.own.world_size));
    guests_[0].who = options.own;
  }

  Meeting wait_for_all(const Deadline& deadline) {
    while (!missing().empty()) {
      if (deadline.passed()) end_late(deadline);
      attend(deadline);
      if (clash_) end(ExitCode::kRendezvousFailed, *clash_);
    }
    return hand_out_the_roster();
  }

 private:
  Verdict judge(Socket& visitor, std::string_view said);
  std::string clash_with(const Introduction& who) const;
  void refuse_other_job(const Socket& visitor, const Introduction& who);
  void attend(const Deadline& deadline);
  Meeting hand_out_the_roster();
  std::vector<std::string> missing() const;
  [[noreturn]] void end_late(const Deadline& deadline);
  [[noreturn]] void end_without(const Guest& gone);
  [[noreturn]] void end(ExitCode code, const std::string& why);

  const LobbyOptions& options_;
  std::vector<Guest> guests_;
  std::optional<std::string> clash_;  // why there can be no world
  bool said_other_job_ = false;
  Door door_;
};

Verdict Lobby::judge(Socket& visitor, std::string_view said) {
  Frame frame;
  const Reading reading = decode(said, kLongestWords, frame);
  if (reading == Reading::kMore) return Verdict::kMore;
  if (reading == Reading::kWrong || frame.kind != FrameKind::kHello) return Verdict::kStranger;
  std::optional<Introduction> who = introduction_of(frame.text);
  if (!who) return Verdict::kStranger;
  if (who->job != options_.own.job) {
    refuse_other_job(visitor, *who);
    return Verdict::kStranger;
  }
  const std::string clash = clash_with(*who);
  if (!clash.empty()) {
    if (!clash_) clash_ = clash;
    send_frame(visitor,
               {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed), clash});
    return Verdict::kKnown;
  }
  Introduction self = options_.own;
  self.job.clear();
  if (!send_frame(visitor, {FrameKind::kWelcome, 0, text_of(self)})) return Verdict::kStranger;
  const auto at = static_cast<std::size_t>(who->member.world_rank);
  guests_[at] = {.who = std::move(*who), .line = std::move(visitor)};
  return Verdict::kKnown;
}

// Why `who` can be no part of this job, or "".
std::string Lobby::clash_with(const Introduction& who) const {
  const Introduction& own = options_.own;
  const int rank = who.member.world_rank;
  if (who.world_size != own.world_size) {
    return core::concat("all ranks must have the same WORLD_SIZE; start them again (",
                        name_of_guest(own), " has WORLD_SIZE=", own.world_size, ", ",
                        name_of_guest(who), " has WORLD_SIZE=", who.world_size, ")");
  }
  if (rank >= own.world_size) {
    return core::concat("RANK must be below WORLD_SIZE; start them again (", name_of_guest(who),
                        " of ", own.world_size, ")");
  }
  const Guest& first = guests_[static_cast<std::size_t>(rank)];
  if (rank > 0 && !first.line.open()) return "";
  return core::concat(
      "every rank must have a RANK of its own; start them again, each with another (",
      name_of_guest(first.who), " and ", name_of_guest(who), ")");
}

void Lobby::refuse_other_job(const Socket& visitor, const Introduction& who) {
  send_frame(visitor,
             {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed),
              core::concat("every job must have a MASTER_PORT of its own, and its ranks "
                           "the same --output_dir or FME_JOB_ID; choose another port, or "
                           "give all ranks the same (at ",
                           options_.place, " ", name_of_guest(options_.own),
                           " of another job answers, not that of ", printable(who.job), ")")});
  if (std::exchange(said_other_job_, true) || !options_.say) return;
  options_.say(core::concat("fmengine: refused ", name_of_guest(who), " of another job (",
                            printable(who.job), " there, ", printable(options_.own.job),
                            " here); still waiting for rank ", core::join(missing(), ", ")));
}

void Lobby::attend(const Deadline& deadline) {
  std::vector<pollfd> lines;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
    if (!guests_[rank].line.open()) continue;
    lines.push_back({.fd = guests_[rank].line.fd(), .events = POLLIN, .revents = 0});
    ranks.push_back(rank);
  }
  door_.attend(lines, deadline);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // A guest has nothing to say until he has the roster.
    if (lines[i].revents != 0) end_without(guests_[ranks[i]]);
  }
}

Meeting Lobby::hand_out_the_roster() {
  Meeting meeting{.attendance = {.token = random_token()}, .refused = door_.refused()};
  for (const Guest& guest : guests_) meeting.attendance.ranks.push_back(guest.who);
  const Frame roster{FrameKind::kRoster, 0, text_of(meeting.attendance)};
  for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
    if (!send_frame(guests_[rank].line, roster)) end_without(guests_[rank]);
  }
  for (Guest& guest : guests_) meeting.lines.push_back(std::move(guest.line));
  return meeting;
}

std::vector<std::string> Lobby::missing() const {
  std::vector<std::string> ranks;
  for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
    if (!guests_[rank].line.open()) ranks.push_back(std::to_string(rank));
  }
  return ranks;
}

void Lobby::end_late(const Deadline& deadline) {
  end(ExitCode::kRendezvousFailed,
      core::concat(
          "all ranks must meet within the limit; look at the output of the missing ones, "
          "and start every rank with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT (",
          "rank 0 of ", options_.own.world_size, " waited ", deadline.limit_ms(), " ms at ",
          options_.place, ", no sign of rank ", core::join(missing(), ", "),
          door_.refused() > 0 ? core::concat(", ", door_.refused(), " strangers came") : "", ")"));
}

void Lobby::end_without(const Guest& gone) {
  const std::vector<std::string> others = missing();
  end(ExitCode::kPeerLost,
      core::concat("all ranks must stay until all have met; look at the output of the one that "
                   "ended, and start them again (",
                   name_of_guest(gone.who), " ended while the ranks met",
                   others.empty() ? "" : ", no sign yet of rank " + core::join(others, ", "), ")"));
}

void Lobby::end(ExitCode code, const std::string& why) {
  for (const Guest& guest : guests_) {
    if (guest.line.open())
      send_frame(guest.line, {FrameKind::kRefusal, static_cast<int>(code), why});
  }
  if (code == ExitCode::kPeerLost) std::this_thread::sleep_for(kVerdict);
  throw core::MachineError(code, why);
}

}  // namespace

Roster roster_of(const Attendance& attendance) {
  Roster roster;
  for (const Introduction& rank : attendance.ranks) roster.push_back(rank.member);
  return roster;
}

Meeting host_meeting(const LobbyOptions& options, const Socket& listener,
                     const Deadline& deadline) {
  return Lobby(options, listener).wait_for_all(deadline);
}

}  // namespace fm::comm
