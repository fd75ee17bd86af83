#include "offload/disk/disk_loop.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/fault.h"
#include "core/process.h"
#include "core/text.h"
#include "offload/disk/quiet_thread.h"
#include "offload/slice_store.h"

namespace fm::offload {
namespace {

using core::Bytes;

constexpr int kPatienceOfStderr = 1000;  // ms

bool is_aligned(std::span<const std::byte> memory) {
  return reinterpret_cast<std::uintptr_t>(memory.data()) %
             static_cast<std::uintptr_t>(kPage.count()) ==
         0;
}

Bytes size_of(std::span<const std::byte> memory) {
  return Bytes(static_cast<std::int64_t>(memory.size()));
}

}  // namespace

Bytes Striping::bytes_on(int drive, Bytes bytes) const {
  const std::int64_t whole = bytes / stripe;
  const std::int64_t turns = whole / drives + (drive < whole % drives ? 1 : 0);
  return stripe * turns + (drive == whole % drives ? bytes % stripe : Bytes(0));
}

DiskLoop::DiskLoop(std::vector<DriveFile> files, Striping striping,
                   std::unique_ptr<DiskEngine> engine, Bytes bytes, const LoopOptions& options)
    : files_(std::move(files)),
      striping_(striping),
      options_(options),
      engine_(std::move(engine)),
      under_way_(files_.size()),
      drives_(files_.size()) {
  if (options.checks) sums_.emplace(bytes);
  const auto depth = static_cast<std::size_t>(options.depth);
  slots_.resize(depth * drives_.size());
  const auto block = static_cast<std::size_t>(options.block.count());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    drives_[slot / depth].free.push_back(slot);
    // The system gives pages when they are used.
    slots_[slot].copy = {std::aligned_alloc(static_cast<std::size_t>(kPage.count()), block),
                         std::free};
    if (slots_[slot].copy == nullptr) throw std::bad_alloc();
  }
  thread_ = start_quietly([this] { run(); });
}

DiskLoop::~DiskLoop() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  engine_->wake();
  thread_.join();
}

void DiskLoop::ask(const DiskMovePtr& move, const DiskMove* behind) {
  {
    const std::scoped_lock lock(mutex_);
    FM_MACHINE_CHECK(failure_.empty(), core::ExitCode::kStorageFailed, failure_);
    order_.add(move, behind);
  }
  if (!move->held) engine_->wake();
}

double DiskLoop::wait(const DiskMovePtr& move) {
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::int64_t seen = blocks_over_;
  double seen_at = 0.0;
  double said_at = 0.0;
  // Who waits for this rank has the same limit: this rank, which knows why, ends before.
  const double limit = 0.9 * std::chrono::duration<double>(options_.limit).count();
  const double patience = std::chrono::duration<double>(options_.patience).count();
  const auto look = std::min<std::chrono::milliseconds>(
      options_.patience, std::max(options_.limit / 20, std::chrono::milliseconds(1)));
  if (options_.pace != nullptr) options_.pace->begin_wait();
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, look, [&] { return move->done; })) {
    lock.unlock();
    const std::string busy = busy_folders();
    // What waits for who holds its range waits for no drive.
    if (busy.empty() || seen != blocks_over_) seen_at = waited();
    seen = blocks_over_;
    if (waited() - seen_at >= limit) end_of(busy, waited() - seen_at);
    if (waited() - said_at >= patience) {
      said_at = waited();
      core::print_error_line(
          core::concat("fmengine: rank ", options_.world_rank, " has waited ",
                       static_cast<int>(said_at), " s for the drive (", place_of(move->at), ")"),
          kPatienceOfStderr);
    }
    lock.lock();
  }
  const double seconds = waited();
  if (options_.pace != nullptr) options_.pace->end_wait(static_cast<std::int64_t>(1e3 * seconds));
  return seconds;
}

// Memory of moves is the drive's, and destructors would wait for it: nothing is unwound.
void DiskLoop::end_of(const std::string& drives, double seconds) const {
  const core::MachineError error(
      core::ExitCode::kStorageFailed,
      core::concat(
          "a drive must answer; look at the drive and at the kernel's log, then start again "
          "from the newest checkpoint (files in ",
          drives, ", rank ", options_.world_rank, ": nothing for ", static_cast<int>(seconds),
          " s)"));
  if (options_.on_hang) return options_.on_hang(error);
  core::print_error_line(core::concat("fmengine: ", error.what()), kPatienceOfStderr);
  core::end_process_in(0, static_cast<int>(error.code()));
}

std::string DiskLoop::busy_folders() const {
  std::vector<std::string> folders;
  for (std::size_t drive = 0; drive < files_.size(); ++drive) {
    if (under_way_[drive] > 0) folders.push_back(files_[drive].folder());
  }
  return core::join(folders, ", ");
}

void DiskLoop::let_go(const DiskMovePtr& held) {
  {
    const std::scoped_lock lock(mutex_);
    order_.end(held);
  }
  engine_->wake();
}

std::string DiskLoop::will_use(std::span<std::byte> memory) {
  if (memory.empty()) return "";
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) return failure_;
  to_register_ = memory;
  engine_->wake();
  over_.wait(lock, [&] { return to_register_.empty(); });
  return unregistered_;
}

void DiskLoop::run() noexcept {
  try {
    serve();
  } catch (const core::Error& error) {  // want of memory ends the process
    give_up(error.what());
  }
}

void DiskLoop::serve() {
  std::vector<DiskDone> done;
  while (take_asked()) {
    fill_drives();
    done.clear();
    engine_->wait(done);
    blocks_over_ += static_cast<std::int64_t>(done.size());
    for (const DiskDone& at : done) complete(at);
  }
}

// Who waits is told, and nothing is asked for any more.
void DiskLoop::give_up(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) {
      failure_ = core::concat(
          "drives must be read and written; look at the kernel's log, then start again from the "
          "newest checkpoint (files in ",
          files_.front().folder(), ", rank ", options_.world_rank, ": ", why, ")");
    }
    order_.fail_all(failure_);
    unregistered_ = why;
    to_register_ = {};
  }
  over_.notify_all();
}

bool DiskLoop::take_asked() {
  std::vector<DiskMovePtr> ready;
  {
    const std::scoped_lock lock(mutex_);
    if (ending_ && order_.idle()) return false;
    ready = order_.take_ready();
    if (!to_register_.empty()) {
      unregistered_ = engine_->will_use(std::exchange(to_register_, {}));
      over_.notify_all();
    }
  }
  for (const DiskMovePtr& move : ready) cut(move);
  return true;
}

// Blocks end where stripes end, and begin at the move's own begin.
void DiskLoop::cut(const DiskMovePtr& move) {
  const bool reads = move->direction == BlockDirection::kRead;
  std::string problem;
  try {
    const core::FaultEffect effect =
        core::fault({reads ? "offload.read" : "offload.write", options_.world_rank, move->number});
    if (effect == core::FaultEffect::kNoSpace) problem = std::strerror(ENOSPC);
    if (effect == core::FaultEffect::kIoError) problem = std::strerror(EIO);
    move->flips = reads && effect == core::FaultEffect::kNan;
  } catch (const core::Error& error) {
    problem = error.what();
  }
  if (!problem.empty()) fail(*move, move->at, problem);
  std::span<std::byte> left = move->memory;
  for (Bytes at = move->at; !left.empty();) {
    const Bytes in_stripe = striping_.stripe - at % striping_.stripe;
    const Bytes size = std::min({options_.block, in_stripe, size_of(left)});
    const auto count = static_cast<std::size_t>(size.count());
    ++move->blocks_left;
    drives_[static_cast<std::size_t>(striping_.drive_of(at))].of(*move).waiting.push_back(
        {move, at, left.first(count)});
    left = left.subspan(count);
    at += size;
  }
}

DiskLoop::DriveQueue* DiskLoop::Drive::next() {
  if (reads.waiting.empty() && writes.waiting.empty()) return nullptr;
  if (reads.waiting.empty()) return &writes;
  return writes.waiting.empty() || reads.under_way <= writes.under_way ? &reads : &writes;
}

void DiskLoop::fill_drives() {
  for (Drive& drive : drives_) {
    for (DriveQueue* queue = drive.next(); queue != nullptr && !drive.free.empty();
         queue = drive.next()) {
      MovePart part = std::move(queue->waiting.front());
      queue->waiting.pop_front();
      if (!part.move->problem.empty()) {
        end_block(part.move);
        continue;
      }
      const std::size_t slot = drive.free.back();
      drive.free.pop_back();
      ++queue->under_way;
      slots_[slot].part = std::move(part);
      slots_[slot].moved = 0;
      slots_[slot].copied = !is_aligned(slots_[slot].part.memory);
      const MovePart& its = slots_[slot].part;
      const std::span<std::byte> memory = memory_of(slots_[slot]);
      if (its.move->direction == BlockDirection::kWrite) {
        if (slots_[slot].copied) std::memcpy(memory.data(), its.memory.data(), memory.size());
        if (sums_) sums_->note(its.at, memory);
      }
      start(slot);
    }
  }
}

std::span<std::byte> DiskLoop::memory_of(BlockSlot& slot) {
  if (!slot.copied) return slot.part.memory;
  return {static_cast<std::byte*>(slot.copy.get()), slot.part.memory.size()};
}

void DiskLoop::start(std::size_t slot_index) {
  BlockSlot& slot = slots_[slot_index];
  const Bytes at = slot.part.at + Bytes(static_cast<std::int64_t>(slot.moved));
  const int drive = striping_.drive_of(at);
  ++under_way_[static_cast<std::size_t>(drive)];
  engine_->start(slot_index, {.direction = slot.part.move->direction,
                              .fd = files_[static_cast<std::size_t>(drive)].fd(),
                              .offset = striping_.offset_of(at).count(),
                              .memory = memory_of(slot).subspan(slot.moved)});
}

void DiskLoop::complete(const DiskDone& done) {
  BlockSlot& slot = slots_[done.slot];
  DiskMove& move = *slot.part.move;
  --under_way_[static_cast<std::size_t>(striping_.drive_of(slot.part.at))];
  const bool again = done.result == -EINTR || done.result == -EAGAIN;
  if (done.result > 0) slot.moved += static_cast<std::size_t>(done.result);
  const std::size_t size = slot.part.memory.size();
  const bool whole = slot.moved == size;
  const bool goes_on = again || (done.result > 0 && done.result % kPage.count() == 0);
  if (!whole && goes_on) return start(done.slot);
  if (!whole) {
    fail(move, slot.part.at,
         done.result < 0 ? std::strerror(-done.result)
                         : core::concat("only ", slot.moved, " of ", size, " bytes"));
  } else if (move.direction == BlockDirection::kRead) {
    check_read(slot);
  }
  end_part(done.slot);
}

void DiskLoop::check_read(const BlockSlot& slot) {
  const MovePart& part = slot.part;
  if (slot.copied) std::memcpy(part.memory.data(), slot.copy.get(), part.memory.size());
  if (std::exchange(part.move->flips, false)) part.memory.front() ^= std::byte{1};
  if (!sums_) return;
  const std::optional<PageSums::Difference> found = sums_->compare(part.at, part.memory);
  if (!found) return;
  fail(*part.move, found->at,
       core::concat("CRC-32C of the page is ", found->read, ", ", found->written, " was written"));
}

void DiskLoop::end_part(std::size_t slot_index) {
  const MovePart part = std::move(slots_[slot_index].part);
  Drive& drive = drives_[static_cast<std::size_t>(striping_.drive_of(part.at))];
  drive.free.push_back(slot_index);
  --drive.of(*part.move).under_way;
  end_block(part.move);
}

void DiskLoop::end_block(const DiskMovePtr& move) {
  if (--move->blocks_left > 0) return;
  {
    const std::scoped_lock lock(mutex_);
    order_.end(move);
    if (failure_.empty()) failure_ = move->problem;
  }
  over_.notify_all();
}

void DiskLoop::fail(DiskMove& move, Bytes at, const std::string& why) {
  if (!move.problem.empty()) return;
  const bool reads = move.direction == BlockDirection::kRead;
  move.problem = core::concat(
      "a drive must keep the bytes that sleep there; look at the drive and at the kernel's log, "
      "then start again from the newest checkpoint (",
      reads ? "read" : "write", " at ", place_of(at), ", rank ", options_.world_rank, ": ", why,
      ")");
}

std::string DiskLoop::place_of(Bytes at) const {
  const DriveFile& file = files_[static_cast<std::size_t>(striping_.drive_of(at))];
  return core::concat("byte ", striping_.offset_of(at).count(), " of the file in ", file.folder());
}

}  // namespace fm::offload
