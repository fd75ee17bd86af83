// What a run decides of a model, beside config.json.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/param_table.h"
#include "core/types.h"

namespace fm::model {

// Low-rank adapters (LoRA, arXiv 2106.09685) as peft makes them: beside the matrix W of a linear
// layer, y = W x + scale B A dropout(x).
struct LoraChoices {
  std::int64_t rank = 0;  // 0: no adapters
  double scale = 1.0;
  double dropout = 0.0;
  // Linear layers of the blocks, by the last parts of their names, or kAllLinear; none: the
  // family's usual ones.
  std::vector<std::string> targets = {};
};

inline constexpr const char* kAllLinear = "all-linear";  // peft's word

struct ModelChoices {
  core::NoDecay no_decay = {};
  core::DType element = core::DType::kF32;  // or kBF16, kF16
  // Whether a parameter is trained, by its name; the others are frozen. Empty: all are.
  std::function<bool(const std::string&)> trains = {};
  LoraChoices lora = {};
  core::Share share = {};  // which of the ranks that compute together the units are for
  // Megatron's sequence parallelism: between its products each of these ranks has some tokens.
  bool split_tokens = false;
};

}  // namespace fm::model
