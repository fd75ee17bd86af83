#include "tests/comm/local_mesh.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/peer_communicator.h"
#include "comm/tcp_fabric.h"

namespace fm::comm {
namespace {

class MemoryStore : public MeetingStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> find(const std::string& key, const Deadline& deadline) override {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.contains(key); };
    const auto limit = std::chrono::milliseconds(deadline.left_ms());
    if (!changed_.wait_for(lock, limit, there)) return std::nullopt;
    return values_.at(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::shared_ptr<MeetingStore> make_memory_store() { return std::make_shared<MemoryStore>(); }

void run_with_mesh(int ranks, const std::function<void(int rank, Mesh mesh)>& body) {
  const auto store = make_memory_store();
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  const auto run_one = [&](int rank) {
    try {
      body(rank, build_mesh(*store, {.world_rank = rank,
                                     .world_size = ranks,
                                     .address = "127.0.0.1",
                                     .rendezvous_ms = 10'000}));
    } catch (...) {
      failures[static_cast<std::size_t>(rank)] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_one, rank);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
}

void run_tcp_ranks(int ranks, const std::function<void(Communicator&)>& body, int timeout_ms) {
  run_with_mesh(ranks, [&](int rank, Mesh mesh) {
    Group world;
    world.rank = rank;
    for (int member = 0; member < ranks; ++member) world.world_ranks.push_back(member);
    auto fabric = make_tcp_fabric({.world_rank = rank, .roster = mesh.roster, .verdict_ms = 50},
                                  std::move(mesh.data));
    PeerCommunicator communicator(std::make_shared<Progress>(std::move(fabric), timeout_ms),
                                  std::move(world));
    body(communicator);
  });
}

}  // namespace fm::comm
