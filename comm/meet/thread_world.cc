#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/levels/levels.h"
#include "comm/meet/world.h"
#include "comm/verbs/peer_communicator.h"
#include "comm/verbs/progress.h"
#include "comm/wire/fabrics.h"
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

using MakeWorld =
    std::function<std::unique_ptr<Communicator>(std::unique_ptr<PeerCommunicator> peers)>;

struct WaitLimit {
  int timeout_ms;
  const Clock& clock;
};

void run_each(int size, const MakeWorld& make_world, const WaitLimit& limit,
              const std::function<void(Communicator&)>& body) {
  const auto hub = std::make_shared<ThreadHub>(size);
  FirstFailure first_failure;
  const auto run_one = [&](int rank) {
    try {
      const auto progress =
          std::make_shared<Progress>(make_thread_fabric(hub, rank), limit.timeout_ms, limit.clock);
      Group world{.rank = rank};
      for (int member = 0; member < size; ++member) world.world_ranks.push_back(member);
      body(*make_world(std::make_unique<PeerCommunicator>(progress, std::move(world))));
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

}  // namespace

void run_ranks(int size, const std::function<void(Communicator&)>& body, int timeout_ms,
               Between between, const Clock& clock) {
  if (between == Between::kSharedMemory) {
    const std::vector<int> one_host(static_cast<std::size_t>(size));
    return run_ranks_on_hosts(one_host, body, timeout_ms, clock);
  }
  run_each(
      size, [](std::unique_ptr<PeerCommunicator> peers) { return peers; }, {timeout_ms, clock},
      body);
}

void run_ranks_on_hosts(const std::vector<int>& host_of,
                        const std::function<void(Communicator&)>& body, int timeout_ms,
                        const Clock& clock) {
  const auto make_world = [&](std::unique_ptr<PeerCommunicator> peers) {
    const auto rank = static_cast<std::size_t>(peers->rank());
    auto world = share_memory(std::move(peers), {.label = std::to_string(host_of[rank])});
    const bool alone = std::set(host_of.begin(), host_of.end()).size() == host_of.size();
    FM_CHECK(&world->memory() != &core::heap() || alone,
             "threads share memory: ", world->describe());
    return world;
  };
  run_each(static_cast<int>(host_of.size()), make_world, {timeout_ms, clock}, body);
}

}  // namespace fm::comm
