// Every byte of a checkpoint against the sums that its manifest has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/types.h"

namespace fm::checkpoint {

struct VerifiedCheckpoint {
  std::filesystem::path folder;
  std::int64_t step = -1;  // -1: nobody can tell
  std::int64_t files = 0;
  core::Bytes bytes;                 // that were read
  std::vector<std::string> damages;  // one line each, with file, tensor and elements; none: whole
};

// Reads MANIFEST.json, state.json and all tensors; goes on behind damage, so that all is named.
// Never throws for what is wrong with the checkpoint.
VerifiedCheckpoint verify_checkpoint(const std::filesystem::path& folder, int threads);

}  // namespace fm::checkpoint
