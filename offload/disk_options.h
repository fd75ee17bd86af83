// How a rank reads and writes its files of a disk: DeepSpeed's "aio".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "core/check.h"
#include "core/step_pace.h"

namespace fm::offload {

inline constexpr int kMostQueueDepth = 1024;
inline constexpr int kMostDiskThreads = 64;  // per drive

struct DiskOptions {
  std::int64_t block_bytes = 1 << 20;  // of one request; a multiple of kPage
  int queue_depth = 8;                 // requests under way at once, per drive
  int threads = 1;  // "intra_op_parallelism": where io_uring is not allowed, at least so many
                    // requests are under way, by a thread each
  // kMemory: a store of tests, in this process (offload/slice_store.h).
  enum class Method : std::uint8_t { kAuto, kUring, kThreads, kMemory };
  Method method = Method::kAuto;
  bool direct = true;  // past the page cache, where the file system allows it
  bool checks = true;  // a CRC-32C of every page, made when it is written, compared when it is read
  std::chrono::milliseconds limit = std::chrono::seconds(600);  // a drive that gives nothing so
                                                                // long hangs: --timeout_s
  core::StepPace* pace = nullptr;  // told of waits, which are no standing still; may be null
  // Ends the process where a drive hangs: nothing may be unwound. Null: a line and the code 26.
  std::function<void(const core::MachineError&)> on_hang = {};
};

}  // namespace fm::offload
