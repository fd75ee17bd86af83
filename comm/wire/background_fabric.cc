#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/wire/fabrics.h"
#include "comm/wire/watchdog.h"

namespace fm::comm {
namespace {

constexpr core::Bytes kLarge(64 * 1024);  // smaller messages leave at once, or are waited for
// The pause between two calls of advance(), which takes some microseconds; sockets buffer
// meanwhile.
constexpr auto kNap = std::chrono::microseconds(300);

// Invariant: only the holder of mutex_ touches the inner fabric and its transfers.
// Thread:    the rank's thread, and one of its own.
// Lifetime:  outlives its transfers.
class BackgroundFabric : public Fabric {
 public:
  explicit BackgroundFabric(std::unique_ptr<Fabric> inner) : inner_(std::move(inner)) {}
  ~BackgroundFabric() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    work_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<Transfer> send(const void* data, const Message& message) override;
  std::unique_ptr<Transfer> receive(void* data, const Message& message) override;

  void progress(int limit_ms) override {
    const Waiting waiting(rank_waits_);
    const std::lock_guard lock(mutex_);
    rethrow();
    inner_->progress(limit_ms);
  }
  void open_group(std::uint64_t group, std::span<const int> world_ranks) override {
    const std::lock_guard lock(mutex_);
    inner_->open_group(group, world_ranks);
  }
  void look_into(const Message& missing) override {
    const std::lock_guard lock(mutex_);
    inner_->look_into(missing);
  }
  std::string name() const override { return inner_->name(); }
  std::string peer_name(int world_rank) const override { return inner_->peer_name(world_rank); }

 private:
  class Guarded;
  class Waiting {  // while it lives, the rank's own thread advances everything
   public:
    explicit Waiting(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
    ~Waiting() { flag_ = false; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::atomic<bool>& flag_;
  };

  std::unique_ptr<Transfer> guard(std::unique_ptr<Transfer> inner);
  void rethrow() {  // the caller holds mutex_
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  void run();
  void take_turn();

  std::unique_ptr<Fabric> inner_;
  std::mutex mutex_;
  std::condition_variable work_;
  int large_ = 0;  // messages under way
  bool ends_ = false;
  std::exception_ptr error_;
  std::atomic<bool> rank_waits_ = false;
  std::thread thread_;
};

class BackgroundFabric::Guarded : public Transfer {
 public:
  // The caller holds the fabric's mutex.
  Guarded(BackgroundFabric& fabric, std::unique_ptr<Transfer> inner)
      : Transfer(inner->message()),
        fabric_(fabric),
        inner_(std::move(inner)),
        large_(message().bytes >= kLarge && !inner_->done()) {
    if (large_) ++fabric_.large_;
  }
  ~Guarded() override {
    const std::lock_guard lock(fabric_.mutex_);
    finish();
    inner_.reset();
  }
  bool done() const override {
    const std::lock_guard lock(fabric_.mutex_);
    if (!inner_->done()) return false;
    finish();
    return true;
  }

 private:
  void finish() const {
    if (std::exchange(large_, false)) --fabric_.large_;
  }

  BackgroundFabric& fabric_;
  std::unique_ptr<Transfer> inner_;
  mutable bool large_;  // and not known to be done
};

std::unique_ptr<Transfer> BackgroundFabric::guard(std::unique_ptr<Transfer> inner) {
  const bool large = inner->message().bytes >= kLarge;
  if (large && !thread_.joinable()) thread_ = start_quiet_thread([this] { run(); });
  auto guarded = std::make_unique<Guarded>(*this, std::move(inner));
  if (large_ == 1) work_.notify_one();
  return guarded;
}

std::unique_ptr<Transfer> BackgroundFabric::send(const void* data, const Message& message) {
  const std::lock_guard lock(mutex_);
  rethrow();
  return guard(inner_->send(data, message));
}

std::unique_ptr<Transfer> BackgroundFabric::receive(void* data, const Message& message) {
  const std::lock_guard lock(mutex_);
  rethrow();
  return guard(inner_->receive(data, message));
}

void BackgroundFabric::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return ends_ || (large_ > 0 && error_ == nullptr); });
    if (ends_) return;
    take_turn();
    lock.unlock();
    std::this_thread::sleep_for(kNap);
    while (rank_waits_) std::this_thread::sleep_for(kNap);
    lock.lock();
  }
}

void BackgroundFabric::take_turn() {
  try {
    inner_->advance();
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace

std::unique_ptr<Fabric> make_background_fabric(std::unique_ptr<Fabric> inner) {
  return std::make_unique<BackgroundFabric>(std::move(inner));
}

}  // namespace fm::comm
