#include "comm/thread_world.h"

#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "comm/peer_communicator.h"
#include "comm/progress.h"
#include "comm/shm_communicator.h"
#include "comm/thread_fabric.h"
#include "core/check.h"

namespace fm::comm {
namespace {

class FirstFailure {
 public:
  void keep(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(failure);
  }
  void rethrow() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void run_ranks(int size, const std::function<void(Communicator&)>& body, int timeout_ms,
               Between between) {
  const auto hub = std::make_shared<ThreadHub>(size);
  FirstFailure first_failure;
  const auto run_one = [&](int rank) {
    try {
      const auto progress = std::make_shared<Progress>(make_thread_fabric(hub, rank), timeout_ms);
      Group world{.rank = rank};
      for (int member = 0; member < size; ++member) world.world_ranks.push_back(member);
      auto peers = std::make_unique<PeerCommunicator>(progress, std::move(world));
      if (between == Between::kMessages) return body(*peers);
      const auto shared = share_memory(std::move(peers));
      FM_CHECK(shared->common_memory() != nullptr, "threads share memory: ", shared->describe());
      body(*shared);
    } catch (...) {
      first_failure.keep(std::current_exception());
      hub->abort();
    }
  };
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.emplace_back(run_one, rank);
  }
  first_failure.rethrow();
}

}  // namespace fm::comm
