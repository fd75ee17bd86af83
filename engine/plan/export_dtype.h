// In which type an exported folder has the weights of a model.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"
#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

// Names of flags, of torch (older versions wrote "torch.bfloat16"), and of safetensors.
std::optional<core::DType> export_dtype_named(std::string_view text);

struct InitDType {
  std::optional<core::DType> dtype;  // unset: none that can be exported
  std::string said;                  // where it stands: "dtype": "bfloat16"
  bool lacks_weights = false;        // config.json does not say it, and the folder is gone
};
// What config.json says, else the type of the weights in the folder of the start, as transformers'
// dtype="auto" finds it; of random weights ("") fp32.
InitDType dtype_as_init(const std::string& config_json, const std::string& weights_from);

// Of a run: options.export_dtype; else that of the weights that it begins with, where it is one of
// fp32, bf16 and fp16; else fp32.
core::DType export_dtype_of(const TrainOptions& options, const model::ModelFacts& facts);

}  // namespace fm::engine
