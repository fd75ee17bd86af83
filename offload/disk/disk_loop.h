// The thread of a store: it cuts moves into blocks, keeps drives busy, and compares what comes
// back.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/step_pace.h"
#include "core/types.h"
#include "offload/disk/disk_engine.h"
#include "offload/disk/drive_file.h"
#include "offload/disk/move_order.h"
#include "offload/disk/page_sums.h"

namespace fm::offload {

// Where an address lies: stripes go to the drives in turn.
struct Striping {
  core::Bytes stripe;
  int drives = 1;

  int drive_of(core::Bytes at) const { return static_cast<int>(at / stripe % drives); }
  core::Bytes offset_of(core::Bytes at) const {
    return stripe * (at / stripe / drives) + at % stripe;
  }
  // Of the part of `bytes` that lies on a drive.
  core::Bytes bytes_on(int drive, core::Bytes bytes) const;
};

struct LoopOptions {
  int world_rank = 0;
  core::Bytes block;
  int depth = 1;  // blocks under way per drive
  bool checks = true;
  std::chrono::milliseconds patience = std::chrono::seconds(60);  // then a line says who waits
  std::chrono::milliseconds limit = std::chrono::seconds(600);    // without a block that is over
  core::StepPace* pace = nullptr;                                 // as DiskOptions has them
  std::function<void(const core::MachineError&)> on_hang = {};
};

// Invariant: the memory of a move is not touched once it is over. After the first failure no move
//            is made.
// Thread:    any asks and waits; one of its own does the work.
// Lifetime:  nothing but what is held is under way when it goes.
class DiskLoop {
 public:
  DiskLoop(std::vector<DriveFile> files, Striping striping, std::unique_ptr<DiskEngine> engine,
           core::Bytes bytes, const LoopOptions& options);
  DiskLoop(const DiskLoop&) = delete;
  DiskLoop& operator=(const DiskLoop&) = delete;
  ~DiskLoop();

  // Throws MachineError (26) where a move has failed before.
  void ask(const DiskMovePtr& move, const DiskMove* behind = nullptr);
  // Until it is over. Returns seconds; throws nothing: `problem` says what failed. A drive that
  // hangs ends the process, with code 26.
  double wait(const DiskMovePtr& move);
  void let_go(const DiskMovePtr& held);
  // As DiskEngine::will_use.
  std::string will_use(std::span<std::byte> memory);

 private:
  // A part of a move within one block and one stripe.
  struct MovePart {
    DiskMovePtr move;
    core::Bytes at;
    std::span<std::byte> memory;
  };
  struct BlockSlot {
    MovePart part;
    std::size_t moved = 0;                                          // of the part
    std::unique_ptr<void, void (*)(void*)> copy{nullptr, nullptr};  // for memory that is no page
    bool copied = false;
  };
  // Of one direction.
  struct DriveQueue {
    std::deque<MovePart> waiting;
    int under_way = 0;  // blocks
  };
  struct Drive {
    DriveQueue reads, writes;
    std::vector<std::size_t> free;  // slots

    DriveQueue& of(const DiskMove& move) {
      return move.direction == BlockDirection::kRead ? reads : writes;
    }
    // The queue whose block begins next: drives take both directions at once, and no read is behind
    // all writes that were asked for before it. Null where none waits.
    DriveQueue* next();
  };

  void run() noexcept;
  void serve();
  void give_up(const std::string& why);
  bool take_asked();  // false: the end
  void cut(const DiskMovePtr& move);
  void fill_drives();
  void start(std::size_t slot_index);
  void complete(const DiskDone& done);
  void check_read(const BlockSlot& slot);
  void end_part(std::size_t slot_index);
  void end_block(const DiskMovePtr& move);
  void fail(DiskMove& move, core::Bytes at, const std::string& why);
  std::span<std::byte> memory_of(BlockSlot& slot);
  std::string place_of(core::Bytes at) const;
  std::string busy_folders() const;  // of drives that blocks are under way to
  void end_of(const std::string& drives, double seconds) const;  // nothing came for so long

  const std::vector<DriveFile> files_;
  const Striping striping_;
  const LoopOptions options_;
  const std::unique_ptr<DiskEngine> engine_;

  std::vector<std::atomic<int>> under_way_;  // blocks, by drive
  std::atomic<std::int64_t> blocks_over_ = 0;

  // Of its thread.
  std::optional<PageSums> sums_;
  std::vector<BlockSlot> slots_;
  std::vector<Drive> drives_;

  std::mutex mutex_;
  std::condition_variable over_;
  MoveOrder order_;
  std::span<std::byte> to_register_;  // empty: nothing is
  std::string unregistered_;
  std::string failure_;  // the first one
  bool ending_ = false;

  std::thread thread_;
};

}  // namespace fm::offload
