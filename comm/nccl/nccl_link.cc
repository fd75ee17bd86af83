#include "comm/nccl/nccl_link.h"

#include <utility>

#include "core/check.h"
#include "kernels/cuda/stream.h"

namespace fm::comm {
namespace {

cudaStream_t stream_of(const core::Queue& queue) {
  const auto* const stream = dynamic_cast<const kernels::cuda::Stream*>(&queue);
  FM_CHECK(stream != nullptr, "NCCL needs a queue that is a CUDA stream");
  return static_cast<cudaStream_t>(stream->handle());
}

}  // namespace

NcclLink::NcclLink(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<core::Queue> queue)
    : library_(std::move(library)), queue_(std::move(queue)), stream_(stream_of(*queue_)) {}

ncclResult_t NcclLink::begin(const Seat& seat) {
  const std::lock_guard lock(mutex_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (seat.most_blocks > 0) config.maxCTAs = seat.most_blocks;
  return library_->comm_init_rank_config(&comm_, seat.ranks, seat.id, seat.rank, &config);
}

ncclResult_t NcclLink::run(const Verbs& verbs) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return ncclInvalidUsage;
  const ncclResult_t begun = library_->group_start();
  if (begun != ncclSuccess) return begun;
  const ncclResult_t queued = verbs(*library_, comm_, stream_);
  const ncclResult_t ended = library_->group_end();
  return queued == ncclSuccess || queued == ncclInProgress ? ended : queued;
}

ncclResult_t NcclLink::state() const {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return ncclInvalidUsage;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = library_->comm_get_async_error(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

std::string NcclLink::describe(ncclResult_t result) const {
  const std::lock_guard lock(mutex_);
  const char* const last = comm_ == nullptr ? nullptr : library_->get_last_error(comm_);
  return core::concat(library_->get_error_string(result), last == nullptr ? "" : ": ",
                      last == nullptr ? "" : last);
}

// Calls that may hang hold no lock: who comes later finds that the communicator has gone.
ncclComm_t NcclLink::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(comm_, nullptr);
}

void NcclLink::abort() {
  if (const ncclComm_t comm = take()) library_->comm_abort(comm);
}

void NcclLink::leave() {
  if (const ncclComm_t comm = take()) library_->comm_destroy(comm);
}

}  // namespace fm::comm
