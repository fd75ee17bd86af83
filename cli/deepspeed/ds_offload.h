// Where the state of a run sleeps: "offload_optimizer", "offload_param" and "aio" of the JSON, and
// the flags of those who have none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/deepspeed/ds_check.h"
#include "engine/options.h"

namespace fm::cli {

// --offload_optimizer, --offload_param and --nvme_path, which must agree with the JSON.
struct OffloadFlags {
  std::optional<core::Tier> optimizer = {};
  std::optional<core::Tier> params = {};
  std::string nvme_path = {};  // "": not given
};

// "none", "cpu" or "nvme", in any case; the caller has checked that it is one.
core::Tier tier_named(const std::string& word);

// Folders of "/a,/b", one per drive. Throws UserError (10) for an empty one, and for a file.
std::vector<std::string> nvme_folders(const std::string& words, const std::string& where);

// Behind ZeRO stage and device. Fills options.offload; what has no effect is a note. Throws
// UserError (10).
void apply_offload(const JsonView& settings, const OffloadFlags& flags, Findings& findings,
                   engine::TrainOptions& options);

}  // namespace fm::cli
