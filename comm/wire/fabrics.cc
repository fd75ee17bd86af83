#include "comm/wire/fabrics.h"

#include <poll.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/wire/tcp_connection.h"
#include "comm/wire/watchdog.h"
#include "core/check.h"

namespace fm::comm {

namespace {

// Sockets.

constexpr int kLooksBeforeSleep = 20;  // a wake-up costs more than a few polls

class TcpFabric : public Fabric {
 public:
  TcpFabric(TcpFabricOptions options, std::vector<Socket> sockets) : options_(std::move(options)) {
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      connections_.push_back(std::make_unique<TcpConnection>(
          std::move(sockets[rank]), static_cast<int>(rank), name_of(options_.roster[rank])));
    }
  }

  std::unique_ptr<Transfer> send(const void* data, const Message& message) override {
    TcpConnection& connection = connection_to(message.peer);
    // Sends only read; one pointer type serves both directions.
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
    auto transfer = std::make_unique<TcpTransfer>(connection, message, bytes);
    connection.post_send(*transfer);
    return transfer;
  }

  std::unique_ptr<Transfer> receive(void* data, const Message& message) override {
    TcpConnection& connection = connection_to(message.peer);
    auto transfer =
        std::make_unique<TcpTransfer>(connection, message, static_cast<std::byte*>(data));
    connection.post_receive(*transfer);
    return transfer;
  }

  void progress(int limit_ms) override {
    for (int look = 0; look < kLooksBeforeSleep; ++look) {
      report_losses();
      if (move(0)) return;
      sched_yield();
    }
    move(limit_ms);
  }
  void advance() override { move(0); }

  void open_group(std::uint64_t, std::span<const int>) override {}
  std::string name() const override { return "tcp"; }
  std::string peer_name(int world_rank) const override {
    return name_of(options_.roster[static_cast<std::size_t>(world_rank)]);
  }

 private:
  TcpConnection& connection_to(int peer) {
    FM_CHECK(peer != options_.world_rank, "rank ", peer, " has no connection to itself");
    return *connections_[static_cast<std::size_t>(peer)];
  }

  bool move(int limit_ms);
  void report_losses() const {
    for (const auto& connection : connections_) {
      if (connection->lost() && connection->needed()) report_loss(*connection);
    }
  }
  [[noreturn]] void report_loss(const TcpConnection& connection) const;

  TcpFabricOptions options_;
  std::vector<std::unique_ptr<TcpConnection>> connections_;
  std::vector<pollfd> entries_;
  std::vector<TcpConnection*> polled_;
};

bool TcpFabric::move(int limit_ms) {
  entries_.clear();
  polled_.clear();
  for (const auto& connection : connections_) {
    if (connection->lost()) continue;
    const auto events = static_cast<short>(connection->sending() ? POLLIN | POLLOUT : POLLIN);
    entries_.push_back({.fd = connection->socket().fd(), .events = events, .revents = 0});
    polled_.push_back(connection.get());
  }
  if (poll(entries_.data(), entries_.size(), limit_ms) <= 0) return false;
  bool moved = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if ((entries_[i].revents & POLLOUT) != 0) moved = polled_[i]->write_some() || moved;
    if ((entries_[i].revents & ~POLLOUT) != 0) moved = polled_[i]->read_some() || moved;
  }
  return moved;
}

void TcpFabric::report_loss(const TcpConnection& connection) const {
  std::this_thread::sleep_for(std::chrono::milliseconds(options_.verdict_ms));
  throw core::MachineError(
      core::ExitCode::kPeerLost,
      core::concat("all ranks must live to the end; look at the output of the lost one and restart "
                   "to resume from the last checkpoint (",
                   connection.peer_name(), " closed its connection)"));
}

// In the background.

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

std::unique_ptr<Fabric> make_tcp_fabric(TcpFabricOptions options, std::vector<Socket> sockets) {
  return std::make_unique<TcpFabric>(std::move(options), std::move(sockets));
}

std::unique_ptr<Fabric> make_background_fabric(std::unique_ptr<Fabric> inner) {
  return std::make_unique<BackgroundFabric>(std::move(inner));
}

// Threads of one process.

class ThreadTransfer : public Transfer {
 public:
  ThreadTransfer(ThreadHub& hub, int world_rank, const Message& message, const void* source)
      : Transfer(message), hub_(hub), world_rank_(world_rank), is_send_(true), source_(source) {}
  ThreadTransfer(ThreadHub& hub, int world_rank, const Message& message, void* target)
      : Transfer(message), hub_(hub), world_rank_(world_rank), is_send_(false), target_(target) {}
  ~ThreadTransfer() override { hub_.withdraw(*this); }

  bool done() const override { return done_.load(std::memory_order_acquire); }
  void finish() { done_.store(true, std::memory_order_release); }
  int world_rank() const { return world_rank_; }
  bool is_send() const { return is_send_; }

  bool meets(const ThreadTransfer& other) const {
    return world_rank_ == other.message().peer && other.world_rank_ == message().peer &&
           is_send() != other.is_send() && same_slot(message(), other.message());
  }
  void copy_with(ThreadTransfer& other) {
    const ThreadTransfer& sender = is_send() ? *this : other;
    const ThreadTransfer& receiver = is_send() ? other : *this;
    const auto bytes = static_cast<std::size_t>(message().bytes.count());
    if (bytes > 0) std::memcpy(receiver.target_, sender.source_, bytes);
  }

 private:
  ThreadHub& hub_;
  int world_rank_;
  bool is_send_;
  const void* source_ = nullptr;
  void* target_ = nullptr;
  std::atomic<bool> done_{false};
};

namespace {

class ThreadFabric : public Fabric {
 public:
  ThreadFabric(std::shared_ptr<ThreadHub> hub, int world_rank)
      : hub_(std::move(hub)), world_rank_(world_rank) {}

  std::unique_ptr<Transfer> send(const void* data, const Message& message) override {
    return post(std::make_unique<ThreadTransfer>(*hub_, world_rank_, message, data));
  }
  std::unique_ptr<Transfer> receive(void* data, const Message& message) override {
    return post(std::make_unique<ThreadTransfer>(*hub_, world_rank_, message, data));
  }
  void progress(int limit_ms) override { hub_->await_event(world_rank_, limit_ms, seen_); }
  void open_group(std::uint64_t, std::span<const int>) override {}
  std::string name() const override { return "thread"; }
  std::string peer_name(int world_rank) const override {
    return core::concat("rank ", world_rank, " (a thread of this process)");
  }

 private:
  std::unique_ptr<Transfer> post(std::unique_ptr<ThreadTransfer> transfer) {
    hub_->post(*transfer);
    return transfer;
  }

  std::shared_ptr<ThreadHub> hub_;
  int world_rank_;
  std::uint64_t seen_ = 0;
};

}  // namespace

ThreadHub::ThreadHub(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) mailboxes_.push_back(std::make_unique<Mailbox>());
}

// After finish() the owner may destroy the transfer, so finish() is the last access.
void ThreadHub::complete(ThreadTransfer& transfer) {
  Mailbox& owner = mailbox(transfer.world_rank());
  std::erase(owner.waiting, &transfer);
  ++owner.events;
  transfer.finish();
  owner.changed.notify_one();
}

void ThreadHub::post(ThreadTransfer& transfer) {
  const std::lock_guard lock(mutex_);
  for (ThreadTransfer* other : mailbox(transfer.message().peer).waiting) {
    if (!transfer.meets(*other)) continue;
    check_agreement(transfer.message(), other->message(),
                    core::concat("rank ", other->world_rank()));
    transfer.copy_with(*other);
    complete(*other);
    complete(transfer);
    return;
  }
  mailbox(transfer.world_rank()).waiting.push_back(&transfer);
}

void ThreadHub::withdraw(ThreadTransfer& transfer) noexcept {
  if (transfer.done()) return;
  const std::lock_guard lock(mutex_);
  std::erase(mailbox(transfer.world_rank()).waiting, &transfer);
}

void ThreadHub::await_event(int rank, int limit_ms, std::uint64_t& seen) {
  std::unique_lock lock(mutex_);
  Mailbox& own = mailbox(rank);
  own.changed.wait_for(lock, std::chrono::milliseconds(limit_ms),
                       [&] { return aborted_ || own.events != seen; });
  FM_MACHINE_CHECK(!aborted_, core::ExitCode::kPeerLost,
                   "all ranks must live to the end; look at the first failure (another rank of "
                   "this process failed)");
  seen = own.events;
}

void ThreadHub::abort() {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (const auto& box : mailboxes_) box->changed.notify_all();
}

std::unique_ptr<Fabric> make_thread_fabric(std::shared_ptr<ThreadHub> hub, int world_rank) {
  return std::make_unique<ThreadFabric>(std::move(hub), world_rank);
}

}  // namespace fm::comm
