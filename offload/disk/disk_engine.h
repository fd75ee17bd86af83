// Who talks to the system: blocks are started, and some time later they are over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "offload/disk_options.h"

namespace fm::offload {

enum class BlockDirection : std::uint8_t { kRead, kWrite };

// One request to the system: bytes of one file.
struct DiskBlock {
  BlockDirection direction = BlockDirection::kRead;
  int fd = -1;
  std::int64_t offset = 0;
  std::span<std::byte> memory = {};  // of a write: read only
};

struct DiskDone {
  std::size_t slot;
  int result;  // bytes, or an error of errno, negative
};

// Invariant: a slot has one block under way at most.
// Thread:    one, but wake().
// Lifetime:  nothing is under way when it goes.
class DiskEngine {
 public:
  virtual ~DiskEngine() = default;
  virtual void start(std::size_t slot, const DiskBlock& block) = 0;
  // What is over. Waits until there is something, or for wake(), which counts once. Throws
  // MachineError (26) where the system tells nothing any more.
  virtual void wait(std::vector<DiskDone>& done) = 0;
  virtual void wake() = 0;
  // Memory that blocks will use: registers it where that helps. "" or why it could not.
  virtual std::string will_use(std::span<std::byte> memory) = 0;
};

// What a file system allows.
enum class Cache : std::uint8_t { kPast, kThrough };

// A thread per slot, with pread and pwrite. Through the page cache, it drops what it has moved:
// what sleeps must not fill the memory that a control group counts.
std::unique_ptr<DiskEngine> thread_engine(std::size_t slots, Cache cache);

struct EngineOrWhy {
  std::unique_ptr<DiskEngine> engine;  // null: this system has none
  std::string why = {};
};
// io_uring, for files past the page cache: past it no move waits in the call that starts it.
EngineOrWhy uring_engine(std::size_t slots);

}  // namespace fm::offload
