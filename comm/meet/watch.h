// The watch: detects lost processes over connections of its own, whatever carries the data.
//
// Every rank holds one connection to rank 0. A connection that closes without the shutdown
// handshake is a lost process; rank 0 reports it to the others, and every rank prints which rank
// was lost and ends. The watch also ends the process when a call into MPI does not return, because
// the main thread inside the call cannot check its limit.
//
//   frame = magic:u32 kind:u32 world_rank:i32 exit_code:i32 length:u32 text:u8[length <= 4096]
//   leaving    rank -> 0     this rank is done
//   released   0 -> all      all ranks are done
//   stopped    both ways     world_rank stopped by itself with exit_code; text is the reason
//   lost       0 -> all      the process of world_rank ended without a frame
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
  int limit_ms = 600'000;  // for the others to reach their shut_down(), and for a call of `calls`
  std::shared_ptr<const CallMark> calls =
      nullptr;  // marks MPI calls of the main thread; may be null
  OnPeerLost on_peer_lost;
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
  enum class NoticeKind : std::uint32_t { kLeaving = 1, kReleased = 2, kStopped = 3, kLost = 4 };
  struct Notice {
    NoticeKind kind = NoticeKind::kLeaving;
    int world_rank = 0;
    int exit_code = 0;
    std::string text;
  };
  struct Connection {
    int world_rank = 0;
    Socket socket;
    std::string bytes;  // of an incomplete frame
    bool left = false;  // sent "leaving"
  };
  enum class State : std::uint8_t { kWatching, kReleased, kStopped, kLost };

  void run();
  void wait_for_events();
  void handle_requests();
  void receive_from(Connection& connection);
  void handle(Connection& connection, const Notice& frame);
  void release_when_all_left();
  void send_to_all(const Notice& frame, int except_rank);
  void lose(const Notice& cause);
  void report_loss(const PeerLoss& loss);
  void check_calls();
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
