// A PEFT folder's adapters, for the weights of a whole model that is not trained.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "checkpoint/safetensors_file.h"
#include "core/param_table.h"
#include "engine/options.h"
#include "model/opened_model.h"

namespace fm::engine {

// Invariant: the file has each tensor that adapters of these options have in this model, and no
//            other one.
// Thread:    one thread; products use kernels::kernel_threads().
// Lifetime:  the arguments are copied, or not kept.
class AdapterWeights {
 public:
  // No adapters (lora.r == 0): nothing is added. Throws UserError: 10 for adapters that the model
  // has no layers for, 11 for files.
  AdapterWeights(const LoraOptions& lora, const model::OpenedModel& opened);

  // W + scale B A; a matrix of modules_to_save becomes the adapter's, as
  // rows of trainable_token_indices do. `weight`: fp32 numbers of
  // the whole parameter, in the order of its file.
  void add_to(const core::ParamEntry& entry, std::span<float> weight) const;

 private:
  std::vector<float> read(const std::string& name, const std::vector<std::int64_t>& shape) const;

  LoraOptions lora_;
  std::optional<checkpoint::TensorFile> file_;
  std::set<std::string> saved_;  // parameters that are the adapter's, wholly or some rows
  std::int64_t rank_ = 0;
  float scale_ = 1.0F;
  bool transposed_ = false;  // matrices are [in, out]
};

}  // namespace fm::engine
