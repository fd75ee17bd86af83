#include "comm/progress.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace fm::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::align_val_t kAlignment{64};
constexpr auto kLookEvery = std::chrono::seconds(1);
constexpr int kNapMs = 100;  // longest sleep between two looks at the limit

[[noreturn]] void throw_hang(const Operation& operation, const Fabric& fabric, int timeout_ms) {
  const Message* const missing = operation.missing();
  FM_CHECK(missing != nullptr, "an unfinished operation without messages");
  throw core::MachineError(
      core::ExitCode::kHang,
      core::concat("every wait for a peer must end within its limit; look at what that rank was "
                   "doing, or raise the limit with --timeout_s (waited ",
                   timeout_ms, " ms for ", fabric.peer_name(missing->peer), " in ",
                   name_of(missing->verb), ", operation ", missing->sequence, ", ",
                   missing->bytes.count(), " bytes)"));
}

}  // namespace

void StagingPool::Free::operator()(std::byte* data) const noexcept {
  ::operator delete(data, kAlignment);
}

std::byte* StagingPool::take(core::Bytes bytes) {
  auto free_block = blocks_.end();
  for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
    if (at->lent) continue;
    if (free_block == blocks_.end() || at->bytes > free_block->bytes) free_block = at;
  }
  if (free_block == blocks_.end()) free_block = blocks_.insert(blocks_.end(), Block{});
  if (free_block->bytes < bytes) {
    free_block->data.reset();
    free_block->bytes = core::Bytes(0);
    const auto count = static_cast<std::size_t>(bytes.count());
    free_block->data.reset(static_cast<std::byte*>(::operator new(count, kAlignment)));
    free_block->bytes = bytes;
  }
  free_block->lent = true;
  return free_block->data.get();
}

void StagingPool::give_back(const std::byte* data) noexcept {
  for (Block& block : blocks_) {
    if (block.data.get() == data) block.lent = false;
  }
}

bool Progress::advance_all() {
  bool moved = false;
  // A step may finish operations, never start one, so indices stay valid.
  for (std::size_t i = 0; i < running_.size(); ++i) moved = running_[i]->advance() || moved;
  std::erase_if(running_, [](const Operation* operation) { return operation->finished(); });
  return moved;
}

void Progress::wait(Operation& operation) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms_);
  auto next_look = Clock::now() + kLookEvery;
  while (true) {
    const bool moved = advance_all();
    if (operation.finished()) return;
    if (moved) continue;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw_hang(operation, *fabric_, timeout_ms_);
    fabric_->progress(static_cast<int>(std::min<std::int64_t>(left, kNapMs)));
    if (Clock::now() < next_look) continue;
    next_look = Clock::now() + kLookEvery;
    if (const Message* const missing = operation.missing()) fabric_->look_into(*missing);
  }
}

Operation::~Operation() {
  progress_->forget(this);
  transfers_.clear();  // withdraws before the staging memory goes to somebody else
  if (pool_ != nullptr) pool_->give_back(staging_);
}

void Operation::send(const void* data, const Message& message) {
  transfers_.push_back(progress_->fabric().send(data, message));
}

void Operation::receive(void* data, const Message& message) {
  transfers_.push_back(progress_->fabric().receive(data, message));
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

const Message* Operation::missing() const {
  for (const auto& transfer : transfers_) {
    if (!transfer->done()) return &transfer->message();
  }
  return nullptr;
}

}  // namespace fm::comm
