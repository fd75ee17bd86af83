// How a model's text is drawn: what the command line says, and where it says nothing, what the
// folder's generation_config.json does, as in transformers' generate. Not read are the keys that
// old folders have in config.json, which transformers takes for those of a missing file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/infer/sampler.h"

namespace fm::engine {

// nullopt: not given.
struct SamplingFlags {
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> repetition_penalty = {};
  std::uint64_t seed = 0;
};

struct Sampling {
  SamplerOptions sampler;
  std::vector<std::string> notes;  // for a person: what came from the file, what has no effect
};

// With "do_sample": true the keys that are absent have transformers' defaults (temperature 1, top_k
// 50, top_p 1); otherwise the likeliest token follows unless a flag says a temperature. A folder
// without the file leaves SamplerOptions' defaults. Only keys that take effect are read. Throws
// UserError (11) naming file and key.
Sampling choose_sampling(const std::filesystem::path& folder, const SamplingFlags& flags);

// The ids that end the model's texts: eos_token_id of generation_config.json, of config.json where
// the folder has no such file. None where it says nothing. Throws UserError (11) as above.
std::vector<std::int32_t> end_ids(const std::filesystem::path& folder);

}  // namespace fm::engine
