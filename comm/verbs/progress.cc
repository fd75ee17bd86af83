#include "comm/verbs/progress.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace fm::comm {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr auto kLookEvery = std::chrono::seconds(1);
// Gives the rank that waits for the late peer directly the time to report first.
constexpr std::chrono::milliseconds kReportDelay(1'000);
constexpr int kNapMs = 100;                    // longest sleep between two checks of the limit
constexpr std::chrono::seconds kSuspended(1);  // a nap this much longer means a suspended process

constexpr int kNapBesideMemoryMs = 1;  // while peers may also arrive by shared memory
constexpr auto kSpin = std::chrono::microseconds(50);  // a peer that is in step arrives sooner

}  // namespace

void StagingPool::Free::operator()(std::byte* data) const noexcept {
  if (source != nullptr) return source->release(data, bytes);
  ::operator delete(data, kAlignment);
}

std::unique_ptr<std::byte, StagingPool::Free> StagingPool::make(core::Bytes bytes) const {
  const auto count = static_cast<std::size_t>(bytes.count());
  void* const data =
      source_ == nullptr ? ::operator new(count, kAlignment) : source_->allocate(bytes);
  FM_MACHINE_CHECK(data != nullptr, core::ExitCode::kOutOfMemory,
                   "messages between ranks of one host must fit in shared memory; free memory or "
                   "pass --shm false (asked ",
                   bytes.count(), " bytes)");
  return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(data), Free{source_, bytes});
}

std::byte* StagingPool::take(core::Bytes bytes) {
  auto free_block = blocks_.end();
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    if (block->lent) continue;
    if (free_block == blocks_.end() || block->bytes() > free_block->bytes()) free_block = block;
  }
  if (free_block == blocks_.end()) free_block = blocks_.insert(blocks_.end(), StagingBlock{});
  if (free_block->bytes() < bytes) {
    free_block->data.reset();
    free_block->data = make(bytes);
  }
  free_block->lent = true;
  return free_block->data.get();
}

void StagingPool::give_back(const std::byte* data) noexcept {
  for (StagingBlock& block : blocks_) {
    if (block.data.get() == data) block.lent = false;
  }
}

Posted::Posted(std::shared_ptr<Progress> progress, By by)
    : progress_(std::move(progress)), by_(by) {
  progress_->start(this);
}

Posted::~Posted() { progress_->forget(this); }

void Posted::wait() { progress_->wait(*this); }

std::string Posted::peer_name(int world_rank) const {
  return progress_->fabric().peer_name(world_rank);
}

bool Progress::advance_all() {
  bool moved = false;
  // Operations that are posted during an advance are appended, so indices stay valid.
  for (std::size_t i = 0; i < running_.size(); ++i) moved = running_[i]->advance() || moved;
  std::erase_if(running_, [](const Posted* operation) { return operation->finished(); });
  return moved;
}

void Progress::throw_hang(const Posted& operation) const {
  const std::optional<Message> missing = operation.missing();
  FM_CHECK(missing.has_value(), "an unfinished operation without messages");
  throw core::MachineError(
      core::ExitCode::kHang,
      core::concat("every wait for a peer must end within its limit; look at what that rank was "
                   "doing, or raise the limit with --timeout_s (waited ",
                   timeout_ms_, " ms for ", fabric_->peer_name(missing->peer), " in ",
                   name_of(missing->verb), ", operation ", missing->sequence, ", ",
                   missing->bytes.count(), " bytes)"));
}

// Sleeps until something may have moved. A rank never sleeps on the fabric alone while a peer could
// ring the bell, nor on the bell alone while a message could arrive.
void Progress::nap(int limit_ms) {
  bool fabric = bell_ == nullptr;
  bool memory = false;
  for (const Posted* operation : running_) {
    fabric = fabric || operation->by() == Posted::By::kFabric;
    memory = memory || operation->by() == Posted::By::kMemory;
  }
  if (fabric) return fabric_->progress(memory ? std::min(limit_ms, kNapBesideMemoryMs) : limit_ms);
  bell_->listen();
  if (!advance_all()) bell_->sleep(limit_ms);  // sees what arrived before listen()
  bell_->stop_listening();
  fabric_->progress(0);  // throws where the world is being torn down
}

void Progress::look_around() const {
  for (const Posted* operation : running_) {
    if (operation->by() != Posted::By::kFabric) continue;
    if (const auto missing = operation->missing()) fabric_->look_into(*missing);
  }
}

void Progress::wait(Posted& operation) {
  // A peer that is in step arrives before the clock could be read twice.
  constexpr int kFirstLooks = 100;
  for (int look = 0; look < kFirstLooks; ++look) {
    const bool moved = advance_all();
    if (operation.finished()) return;
    if (!moved && (bell_ == nullptr || !bell_->may_spin())) break;
  }
  const bool may_spin = bell_ != nullptr && bell_->may_spin();
  const auto begin = clock_.now();
  auto deadline = begin + std::chrono::milliseconds(timeout_ms_);
  auto next_look = begin + kLookEvery;
  std::chrono::steady_clock::time_point spin_until;
  bool spinning = false;
  while (true) {
    const bool moved = advance_all();
    if (operation.finished()) return;
    if (moved) {
      spinning = false;
      continue;
    }
    if (may_spin) {
      const auto now = std::chrono::steady_clock::now();
      if (!std::exchange(spinning, true)) spin_until = now + kSpin;
      if (now < spin_until) continue;
    }
    const auto now = clock_.now();
    const auto limit = deadline + operation.reports_before() * kReportDelay;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - now).count();
    if (left <= 0) throw_hang(operation);
    nap(static_cast<int>(std::min<std::int64_t>(left, kNapMs)));
    // Time in which the job was suspended does not count: its peers did not run either.
    const auto away = clock_.now() - now - std::chrono::milliseconds(kNapMs);
    if (away > kSuspended) deadline += away;
    if (now < next_look) continue;
    next_look = now + kLookEvery;
    look_around();
  }
}

Operation::~Operation() {
  transfers_.clear();  // withdraws before another operation takes the staging memory
  if (pool_ != nullptr) pool_->give_back(staging_);
}

void Operation::send(const void* data, const Message& message) {
  progress().count(message.bytes);
  transfers_.push_back(progress().fabric().send(data, message));
}

void Operation::receive(void* data, const Message& message) {
  transfers_.push_back(progress().fabric().receive(data, message));
}

std::byte* Operation::staging(const std::shared_ptr<StagingPool>& pool, core::Bytes bytes) {
  FM_CHECK(pool_ == nullptr, "one staging block per operation");
  staging_ = pool->take(bytes);
  pool_ = pool;
  return staging_;
}

bool Operation::advance() {
  if (finished()) return false;
  const auto done = [](const std::unique_ptr<Transfer>& transfer) { return transfer->done(); };
  const bool moved = std::erase_if(transfers_, done) > 0;
  if (!transfers_.empty()) return moved;
  if (step_ != nullptr) std::exchange(step_, nullptr)(*this);
  return true;
}

std::optional<Message> Operation::missing() const {
  for (const auto& transfer : transfers_) {
    if (!transfer->done()) return transfer->message();
  }
  return std::nullopt;
}

bool Chain::advance() {
  bool moved = false;
  while (!finished()) {
    if (running_ != nullptr && !running_->finished()) return moved;
    running_.reset();
    moved = true;
    if (next_ < parts_.size()) running_ = parts_[next_++]();
  }
  return moved;
}

}  // namespace fm::comm
