// The watch: who is alive, told over connections of its own, whatever carries the data.
//
// Every rank holds one connection to rank 0. A connection that ends without a farewell is a lost
// process; rank 0 tells the others, and every rank says which one it was, and ends. A call into MPI
// that does not return ends the process from here: the main thread cannot look at its limit.
//
//   frame = magic:u32 kind:u32 world_rank:i32 exit_code:i32 length:u32 text:u8[length <= 4096]
//   leaving    rank -> 0     this rank is done
//   released   0 -> all      everybody is done
//   stopped    both ways     world_rank stopped by itself with exit_code, text says why
//   lost       0 -> all      the process of world_rank ended without a word
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/roster.h"
#include "comm/wire/socket.h"
#include "comm/wire/watchdog.h"

namespace fm::comm {

struct WatchOptions {
  int world_rank = 0;
  Roster roster;
  int limit_ms = 600'000;  // for the others to reach their farewell, and for a call of `calls`
  std::shared_ptr<const CallMark> calls = nullptr;  // of the main thread, into MPI; may be null
  OnPeerLost on_peer_lost;
};

// Invariant: after "released", or after its own "stopped", a closed connection means nothing.
// Thread:    one of its own, with all signals blocked; public functions belong to the main thread.
// Lifetime:  destroying it without farewell() looks like a lost process to the others.
class Watch {
 public:
  // `sockets`: rank 0 has one per world rank (closed at 0), the others only [0], to rank 0.
  Watch(WatchOptions options, std::vector<Socket> sockets);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Waits until every rank has come here. Throws MachineError: 21 naming who has not come before
  // the limit, 20 when one was lost and on_peer_lost returned.
  void farewell();
  // Tells everybody why this rank stops; waits for delivery for a second at most.
  void farewell_with_error(int exit_code, const std::string& message) noexcept;

 private:
  enum class Kind : std::uint32_t { kLeaving = 1, kReleased = 2, kStopped = 3, kLost = 4 };
  struct Frame {
    Kind kind = Kind::kLeaving;
    int world_rank = 0;
    int exit_code = 0;
    std::string text;
  };
  struct Line {  // one connection
    int world_rank = 0;
    Socket socket;
    std::string bytes;  // of a frame that is not whole yet
    bool left = false;  // said "leaving"
  };
  enum class State : std::uint8_t { kWatching, kReleased, kStopped, kLost };

  void run();
  void wait_for_news();
  void obey_requests();
  void hear(Line& line);
  void handle(Line& line, const Frame& frame);
  void release_when_all_left();
  void spread(const Frame& frame, int except_rank);
  void lose(const Frame& cause);
  void give_up(const PeerLoss& loss);
  void look_at_calls();
  void drain();
  void settle(State state);
  void ring();
  std::string missing_ranks() const;
  const Member& member(int world_rank) const;

  static std::string encode(const Frame& frame);
  static std::optional<Frame> decode(std::string& bytes);

  WatchOptions options_;
  CallLimit calls_;
  std::vector<Line> lines_;
  bool self_left_ = false;
  Socket bell_;  // an eventfd: the main thread has a request

  mutable std::mutex mutex_;
  std::condition_variable settled_;
  State state_ = State::kWatching;
  bool leave_requested_ = false;
  bool quit_requested_ = false;
  std::optional<Frame> stop_requested_;
  std::vector<int> absent_;  // ranks that have not left yet; rank 0 only
  std::string loss_;

  std::thread thread_;
};

}  // namespace fm::comm
