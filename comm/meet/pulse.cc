#include "comm/meet/pulse.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "core/check.h"
#include "core/process.h"
#include "core/text.h"

namespace fm::comm {
namespace {

struct BeatHeader {
  std::uint64_t pid_space = 0;
  std::int32_t still_ms = 0;
  std::int32_t limit_ms = 0;
  std::uint32_t waits = 0;
  std::uint32_t zero = 0;
};

constexpr std::size_t kLongestBeat = 512;  // of its text: it must fit into any socket
constexpr std::size_t kMostNames = 8;

constexpr const char* kAllStop =
    "every rank stops, restart to resume from the last checkpoint (exit code ";

bool is_late(const Beat& beat) {
  return beat.limit_ms > 0 && !beat.waits_for_peers && beat.still_ms >= beat.limit_ms;
}

std::string seconds(int ms) { return core::concat(ms / 1'000, ".", ms % 1'000 / 100, " s"); }

// "" or "; it was in step 3, ...".
std::string last_seen(const std::string& text) {
  return text.empty() ? "" : core::concat(" (it was in ", text, ")");
}

}  // namespace

std::string encode(const Beat& beat) {
  const BeatHeader header{.pid_space = beat.pid_space,
                          .still_ms = beat.still_ms,
                          .limit_ms = beat.limit_ms,
                          .waits = beat.waits_for_peers ? 1U : 0U};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + beat.text.substr(0, kLongestBeat);
}

std::optional<Beat> beat_of(std::string_view bytes) {
  BeatHeader header;
  if (bytes.size() < sizeof header || bytes.size() > sizeof header + kLongestBeat) {
    return std::nullopt;
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  return Beat{.pid_space = header.pid_space,
              .still_ms = header.still_ms,
              .limit_ms = header.limit_ms,
              .waits_for_peers = header.waits != 0,
              .text = std::string(bytes.substr(sizeof header))};
}

std::uint64_t pid_space_here() {
  const std::string boot = core::boot_id();
  struct stat space {};
  if (boot.empty() || stat("/proc/self/ns/pid", &space) != 0) return 0;
  return std::hash<std::string>()(core::concat(boot, " ", space.st_ino));
}

char process_state(std::int64_t pid) {
  const std::vector<std::string> stat = core::process_stat(pid);
  return stat.empty() ? '?' : stat[0][0];
}

int AwakeTime::take_ms() {
  const auto now = clock_->now();
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_).count();
  last_ = now;
  next_ = next_.from_now(kTickMs);
  return static_cast<int>(std::clamp<std::int64_t>(spent, 0, kTickMs));
}

Beat Stillness::observe(const Whereabouts& now, int awake_ms) {
  still_ms_ = moves_ == now.moves ? still_ms_ + awake_ms : 0;
  moves_ = now.moves;
  return {.still_ms = still_ms_, .waits_for_peers = now.waits_for_peers, .text = now.text};
}

Finding judge_silence(int silent_ms, PeerState state, int stop_ms) {
  const auto stopped = [&](int name_ms, std::int64_t end_ms) {
    if (silent_ms < name_ms) return Finding::kNothing;
    return stop_ms > 0 && silent_ms >= end_ms ? Finding::kStopped : Finding::kName;
  };
  switch (state) {
    case PeerState::kStopped: return stopped(kLookMs, stop_ms);
    case PeerState::kAlive: return Finding::kNothing;
    case PeerState::kHostAnswers: return stopped(kNameMs, std::int64_t{2} * stop_ms);
    case PeerState::kHostSilent: break;
  }
  if (silent_ms < kNameMs) return Finding::kNothing;
  return silent_ms < kCutOffMs ? Finding::kName : Finding::kCutOff;
}

std::optional<int> hanging_rank(const std::vector<Beat>& beats, const std::vector<bool>& fresh) {
  std::optional<std::size_t> slowest;
  bool somebody_waits = false;
  for (std::size_t rank = 0; rank < beats.size(); ++rank) {
    if (beats[rank].still_ms < kLookMs) return std::nullopt;  // the run goes on
    if (beats[rank].waits_for_peers) somebody_waits = true;
    if (!fresh[rank] || !is_late(beats[rank])) continue;
    if (!slowest || beats[rank].still_ms > beats[*slowest].still_ms) slowest = rank;
  }
  if (!slowest || !somebody_waits) return std::nullopt;
  return static_cast<int>(*slowest);
}

std::string hang_message(const Roster& roster, int world_rank, const std::vector<Beat>& beats) {
  const Beat& hangs = beats[static_cast<std::size_t>(world_rank)];
  std::vector<std::string> ranks;
  std::string where;
  for (std::size_t rank = 0; rank < beats.size(); ++rank) {
    if (!beats[rank].waits_for_peers) continue;
    if (ranks.empty()) where = beats[rank].text;
    ranks.push_back(std::to_string(rank));
  }
  const std::size_t waiting = ranks.size();
  if (waiting > kMostNames) ranks.resize(kMostNames);
  return core::concat("fmengine: ", name_of(roster[static_cast<std::size_t>(world_rank)]),
                      " has not moved for ", seconds(hangs.still_ms), ": ", hangs.text,
                      waiting == 1 ? "; rank " : "; ranks ", core::join(ranks, ", "),
                      waiting > kMostNames ? " and others" : "",
                      waiting == 1 ? " waits in " : " wait in ", where, "; look at that process (",
                      "`gdb -p`), or raise --hang_s; ", kAllStop, "21)");
}

std::string notice_message(const Member& member, PeerState state, int silent_ms) {
  const std::string name = core::concat("fmengine: ", name_of(member));
  if (state == PeerState::kStopped) {
    return core::concat(name, " is stopped (SIGSTOP or Ctrl-Z); the others wait for it");
  }
  return core::concat(name, " has been silent for ", seconds(silent_ms),
                      state == PeerState::kHostAnswers
                          ? ", while its host answers: is that process stopped?"
                          : ", and its host does not answer: is the link cut, or the host down?");
}

std::string stopped_message(const Member& member, PeerState state, int silent_ms,
                            const std::string& text) {
  const bool certain = state == PeerState::kStopped;
  return core::concat("fmengine: ", name_of(member),
                      certain ? " has been stopped (SIGSTOP or Ctrl-Z) for "
                              : " is stopped or has no processor: silent, while its host answers, "
                                "for ",
                      seconds(silent_ms), last_seen(text),
                      "; find out who stopped it, or raise --hang_s; ", kAllStop, "21)");
}

std::string cut_off_message(const Roster& lost, int silent_ms) {
  std::vector<std::string> names;
  for (const Member& member : lost) {
    if (names.size() < kMostNames) names.push_back(name_of(member));
  }
  return core::concat(
      "fmengine: ", core::join(names, ", "), lost.size() > kMostNames ? " and others" : "",
      lost.size() == 1 ? " is" : " are", " cut off: silent for ", seconds(silent_ms),
      ", and the host does not answer; look at that host and the network; ", kAllStop, "20)");
}

}  // namespace fm::comm
