#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "comm/wire/fabrics.h"
#include "core/check.h"

namespace fm::comm {

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
