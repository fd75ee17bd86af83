// Messages between threads of one process: rendezvous in shared memory. A message is copied once,
// by whichever side comes second, under the one lock of the hub.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/wire/fabric.h"

namespace fm::comm {

class ThreadTransfer;

// Invariant: a transfer is in at most one list, and in none once it is done or withdrawn.
// Thread:    any rank's thread; everything is guarded by mutex_.
// Lifetime:  outlives the fabrics of its ranks.
class ThreadHub {
 public:
  explicit ThreadHub(int ranks);

  void post(ThreadTransfer& transfer);
  void withdraw(ThreadTransfer& transfer) noexcept;
  // Returns at once when something happened to `rank` since `seen`, which is updated.
  // Throws MachineError (20) after abort().
  void await_event(int rank, int limit_ms, std::uint64_t& seen);
  void abort();  // every wait of every rank throws from now on

 private:
  struct Mailbox {
    std::condition_variable changed;
    std::uint64_t events = 0;
    std::vector<ThreadTransfer*> waiting;  // posted by this rank, not met yet
  };
  void complete(ThreadTransfer& transfer);
  Mailbox& mailbox(int rank) { return *mailboxes_[static_cast<std::size_t>(rank)]; }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  bool aborted_ = false;
};

// One rank's end of the hub.
std::unique_ptr<Fabric> make_thread_fabric(std::shared_ptr<ThreadHub> hub, int world_rank);

}  // namespace fm::comm
