// Crash-safe training checkpoints: output_dir/global_stepN/ with MANIFEST.json, safetensors files
// and state.json; output_dir/latest names the newest. Nothing on disk is rank-shaped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/lineage.h"
#include "checkpoint/output_fence.h"
#include "checkpoint/tensor_files.h"
#include "comm/communicator.h"

namespace fm::checkpoint {

struct SaveRequest {
  std::filesystem::path output_dir;
  std::int64_t step = 0;
  std::vector<FileSpec> files;            // the same on every rank
  std::vector<FileSlice> mine;            // what this rank writes
  std::string state_json;                 // rank 0's counts: step, samples, scheduler, seed, layout
  int keep_last = 0;                      // 0 keeps all; of this run only
  std::vector<std::int64_t> spared = {};  // steps that keep_last does not count out
  Lineage lineage = {};                   // rank 0's
  OutputFence fence = {};                 // asked before every write
};

struct SaveResult {
  bool durable = false;
  std::string problem;  // one message (rank and cause) when not durable
  core::Bytes bytes;
  double seconds = 0;
};

// Collective over `world`. A save that cannot be made (no space, not writable) is skipped on all
// ranks with one message; the previous checkpoint stays loadable at every moment. Throws
// MachineError (13) on a rank whose fence has fallen, which writes nothing from then on.
SaveResult save_checkpoint(const SaveRequest& request, comm::Communicator& world);

}  // namespace fm::checkpoint
