// Where the state of a run sleeps between its uses (docs/offload.md): DeepSpeed's
// "offload_optimizer", "offload_param" and "aio".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shard_plan.h"
#include "offload/disk_options.h"

namespace fm::engine {

struct OffloadOptions {
  core::Tier optimizer = core::Tier::kDevice;     // moments, masters, and gradients at rest
  core::Tier params = core::Tier::kDevice;        // with ZeRO 3
  std::vector<std::string> optimizer_paths = {};  // folders, one per drive ("nvme_path")
  std::vector<std::string> param_paths = {};
  int optimizer_buffers = 4;  // flat parameters whose state is awake at once ("buffer_count")
  int param_buffers = 5;
  std::int64_t params_in_host = 1'000'000'000;  // elements that stay in memory ("max_in_cpu")
  // Of tiles of the embedding's and the head's matrix where parameters sleep; 0: as the model is.
  std::int64_t tile_rows = 0;
  bool reads_ahead = true;    // "pipeline_read": off is a debugging aid
  bool writes_behind = true;  // "pipeline_write"
  double ratio = 1.0;         // share of the optimizer's state that leaves the device
  bool pin_memory = true;
  bool save_slots = true;     // drives have room for what a save reads while steps go on
  offload::DiskOptions disk;  // "aio"
};

}  // namespace fm::engine
