// What the watch concludes from heartbeats: which rank is stopped, cut off, or hangs.
//
// Time is awake time: a tick counts for a second at most, whatever the clock says. So a process
// that was suspended, or a machine that was paused, accuses nobody when it goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/meet/whereabouts.h"
#include "comm/roster.h"
#include "comm/waiting.h"

namespace fm::comm {

inline constexpr int kTickMs = 1'000;

// What a rank sends each tick.
struct Beat {
  std::uint64_t pid_space = 0;  // equal: the other process is in /proc of this one
  int still_ms = 0;             // the main thread has not moved for so long
  int limit_ms = 0;             // and should have within this; 0: no limit now
  bool waits_for_peers = false;
  std::string text = {};  // where the main thread is
};
std::string encode(const Beat& beat);
std::optional<Beat> beat_of(std::string_view bytes);

// The kernel and pid namespace of this process; 0: not known.
std::uint64_t pid_space_here();
// The state of a process in /proc/PID/stat: 'T' is stopped, 't' stopped by a debugger; '?': there
// is none.
char process_state(std::int64_t pid);

// Awake time between two ticks.
class AwakeTime {
 public:
  explicit AwakeTime(const Clock& clock)
      : clock_(&clock), last_(clock.now()), next_(kTickMs, clock) {}
  int left_ms(int cap) const { return next_.left_ms(cap); }
  bool due() const { return next_.passed(); }
  int take_ms();

 private:
  const Clock* clock_;
  Clock::Time last_;
  Deadline next_;
};

// How long the own main thread has not moved.
class Stillness {
 public:
  // The beat, without its limit and pid space.
  Beat observe(const Whereabouts& now, int awake_ms);

 private:
  std::optional<std::uint64_t> moves_;
  int still_ms_ = 0;
};

// How a rank that sends nothing looks from here.
enum class PeerState : std::uint8_t {
  kStopped,      // certainly: its state is T
  kAlive,        // on this host: starved, or under a debugger
  kHostAnswers,  // its host acknowledges what it is sent; the process may be stopped
  kHostSilent,   // its host acknowledges nothing
};
enum class Finding : std::uint8_t { kNothing, kName, kStopped, kCutOff };

inline constexpr int kLookMs = 2 * kTickMs;    // a silent rank of this host is looked at
inline constexpr int kNameMs = 4 * kTickMs;    // one of another host is named
inline constexpr int kCutOffMs = 8 * kTickMs;  // and without an answer of its host it is lost

// `stop_ms`: how long a rank may be stopped; 0: for ever. Twice as long where that is not certain.
Finding judge_silence(int silent_ms, PeerState state, int stop_ms);

// The rank that does not move although others wait, by the beats of all ranks. `fresh`: whether
// the beat of a rank is no older than kLookMs.
std::optional<int> hanging_rank(const std::vector<Beat>& beats, const std::vector<bool>& fresh);

// Complete lines for stderr.
std::string hang_message(const Roster& roster, int world_rank, const std::vector<Beat>& beats);
std::string notice_message(const Member& member, PeerState state, int silent_ms);
std::string stopped_message(const Member& member, PeerState state, int silent_ms,
                            const std::string& text);
std::string cut_off_message(const Roster& lost, int silent_ms);

}  // namespace fm::comm
