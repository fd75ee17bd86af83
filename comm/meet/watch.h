// The watch: detects lost processes over connections of its own, whatever carries the data.
//
// Every rank holds one connection to rank 0. A connection that closes without the shutdown
// handshake is a lost process; rank 0 reports it to the others, and every rank prints which rank
// was lost and ends. The watch also ends the process when a call into MPI does not return, because
// the main thread inside the call cannot check its limit.
//
// Each second every rank sends a beat over its connection. Rank 0 judges the others by them, and
// each of the others judges rank 0 by itself: so a stopped rank 0 keeps nobody for longer than any
// other rank. comm/meet/pulse.h says what is concluded from beats that do not come, and from those
// whose main thread does not move.
//
//   frame = magic:u32 kind:u32 world_rank:i32 exit_code:i32 length:u32 text:u8[length <= 4096]
//   leaving    rank -> 0     this rank is done
//   released   0 -> all      all ranks are done
//   stopped    both ways     world_rank stopped by itself with exit_code; text is the reason
//   lost       0 -> all      the process of world_rank ended without a frame
//   beat       both ways     world_rank lives; text is a Beat
//   verdict    0 -> all      world_rank is stopped, cut off or hangs; text is the whole line
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/meet/pulse.h"
#include "comm/roster.h"
#include "comm/wire/socket.h"
#include "comm/wire/watchdog.h"
#include "core/check.h"

namespace fm::comm {

struct WatchOptions {
  int world_rank = 0;
  Roster roster;
  int limit_ms = 600'000;  // for the others to reach their shut_down(), and for a call of `calls`
  std::shared_ptr<const CallMark> calls =
      nullptr;  // marks MPI calls of the main thread; may be null
  OnPeerLost on_peer_lost;
  int stop_ms = 10'000;  // how long a rank may be stopped; 0: for ever
  // Asked each second by the thread of the watch; without both a rank never hangs.
  std::function<Whereabouts()> whereabouts = nullptr;
  std::function<int()> still_limit_ms = nullptr;                  // 0: no limit now
  std::function<void(const std::string& line)> notify = nullptr;  // a line for stderr; never blocks
  std::function<PeerState(const Member&)> state_of = nullptr;  // of a silent rank; null: as it is
  const Clock* clock = &kSystemClock;                          // of beats
  int longest_sleep_ms = kTickMs;                              // between two looks at the clock
};

// Invariant: after "released", or after its own "stopped", a closed connection is no loss.
// Thread:    one of its own, with all signals blocked; public functions belong to the main thread.
// Lifetime:  destroying it without shut_down() looks like a lost process to the others.
class Watch {
 public:
  // `sockets`: rank 0 has one per world rank (closed at 0), the others only [0], to rank 0.
  Watch(WatchOptions options, std::vector<Socket> sockets);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Waits until every rank has called it. Throws MachineError: 21 naming the ranks that have not
  // called it before the limit, 20 when a rank was lost and on_peer_lost returned.
  void shut_down();
  // Reports to all ranks why this rank stops; waits for delivery for a second at most.
  void shut_down_with_error(int exit_code, const std::string& message) noexcept;

 private:
  enum class NoticeKind : std::uint32_t {
    kLeaving = 1,
    kReleased = 2,
    kStopped = 3,
    kLost = 4,
    kBeat = 5,
    kVerdict = 6
  };
  struct Notice {
    NoticeKind kind = NoticeKind::kLeaving;
    int world_rank = 0;
    int exit_code = 0;
    std::string text;
  };
  struct Connection {
    int world_rank = 0;
    Socket socket;
    std::string bytes;        // of an incomplete frame
    std::string unsent = {};  // what the socket did not take yet
    bool left = false;        // sent "leaving"
    bool heard = false;       // a beat came
    bool named = false;       // as silent
    int silent_ms = 0;        // since the last frame
  };
  enum class State : std::uint8_t { kWatching, kReleased, kStopped, kLost };

  void run();
  void wait_for_events();
  void handle_requests();
  void receive_from(Connection& connection);
  void end_of(Connection& connection, bool cut);
  void handle(Connection& connection, const Notice& frame);
  void take_beat(Connection& connection, const std::string& text);
  void release_when_all_left();
  void send_to_all(const Notice& frame, int except_rank);
  static void flush(Connection& connection);
  void tick();
  void send_beat(int awake_ms);
  void judge(Connection& connection);
  void name(Connection& connection, PeerState state);
  void judge_hang();
  void cut_off(const Connection& connection);
  void pronounce(int world_rank, core::ExitCode code, const std::string& line);
  PeerState state_of(const Connection& connection) const;
  bool watching() const;
  void lose(const Notice& cause);
  void report_loss(const PeerLoss& loss);
  void check_calls();
  // Reads until the peers have closed, but for silent ones.
  void drain();
  void settle(State state);
  void wake();
  std::string missing_ranks() const;
  const Member& member(int world_rank) const;

  static std::string encode(const Notice& frame);
  static std::optional<Notice> decode(std::string& bytes);

  WatchOptions options_;
  CallLimit calls_;
  std::vector<Connection> connections_;
  bool self_left_ = false;
  Socket wakeup_;  // an eventfd: the main thread has a request
  AwakeTime awake_;
  Stillness still_;
  std::uint64_t pid_space_;
  std::vector<Beat> beats_;  // the last one of each rank; rank 0 has all, the others some

  mutable std::mutex mutex_;
  std::condition_variable settled_;
  State state_ = State::kWatching;
  bool leave_requested_ = false;
  bool quit_requested_ = false;
  std::optional<Notice> stop_requested_;
  std::vector<int> absent_;  // ranks that have not left yet; rank 0 only
  std::string loss_;

  std::thread thread_;
};

}  // namespace fm::comm
