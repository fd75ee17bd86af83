// One communicator of NCCL and its queue.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comm/nccl/nccl_library.h"
#include "core/queue.h"

namespace fm::comm {

// Calls are not blocking: ncclInProgress means that state() must be asked until it says otherwise;
// only then is something queued.
//
// Invariant: nothing is called after abort() or leave().
// Thread:    any; run() and queue() belong to the rank's thread.
// Lifetime:  the queue's device outlives it. Whoever drops it has called abort() or leave().
class NcclLink {
 public:
  NcclLink(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<core::Queue> queue);
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  struct Seat {
    ncclUniqueId id;
    int ranks = 1;
    int rank = 0;
    int most_blocks = 0;  // of the device's multiprocessors, and memory with each; 0: NCCL's choice
  };
  ncclResult_t begin(const Seat& seat);

  // Queues the calls of `verbs` as one.
  using Verbs =
      std::function<ncclResult_t(const NcclLibrary& library, ncclComm_t comm, cudaStream_t stream)>;
  ncclResult_t run(const Verbs& verbs);
  ncclResult_t state() const;
  // "remote process exited or there was a network error: ...": NCCL's words.
  std::string describe(ncclResult_t result) const;

  // Ends what is queued; may hang.
  void abort();
  // After all that was queued is done.
  void leave();

  core::Queue& queue() const { return *queue_; }

 private:
  ncclComm_t take();

  std::shared_ptr<const NcclLibrary> library_;
  std::shared_ptr<core::Queue> queue_;
  cudaStream_t stream_;
  mutable std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace fm::comm
