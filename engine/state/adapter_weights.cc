#include "engine/state/adapter_weights.h"

#include <algorithm>

#include "core/check.h"
#include "core/tensor_slice.h"
#include "engine/plan/run_model.h"
#include "engine/plan/trained_names.h"
#include "engine/state/adapters.h"
#include "engine/step/tensors.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads.h"
#include "model/units/lora.h"

namespace fm::engine {

using model::LoraFactor;

AdapterWeights::AdapterWeights(const LoraOptions& lora, const model::OpenedModel& opened)
    : lora_(lora), rank_(lora.r), transposed_(opened.facts.transposed) {
  if (lora.r == 0) return;
  scale_ = static_cast<float>(lora.scale());
  TrainOptions options;
  options.lora = lora;
  const model::Model with = opened.make(choices_of(options));
  check_trained_names(options, with);
  file_.emplace(open_adapter(lora.start));
  check_adapter_names(lora, with, *file_);
  for (const checkpoint::TensorSpec& spec : stored_specs(lora, with)) {
    FM_DATA_CHECK(file_->find(spec.name) != nullptr, file_->path(),
                  ": a tensor is missing; get the adapter again (", spec.name, ")");
  }
  for (const checkpoint::TensorSpec& spec : trained_specs(with)) {
    if (!model::is_adapter(spec.name)) saved_.insert(spec.name);
  }
}

std::vector<float> AdapterWeights::read(const std::string& name,
                                        const std::vector<std::int64_t>& shape) const {
  core::Elements count(1);
  for (const std::int64_t size : shape) count = count * size;
  std::vector<float> numbers(static_cast<std::size_t>(count.count()));
  file_->read(core::slice_in_memory(name, shape, core::Elements(0), numbers.data(), count));
  return numbers;
}

void AdapterWeights::add_to(const core::ParamEntry& entry, std::span<float> weight) const {
  if (!file_) return;
  if (saved_.contains(entry.name)) {
    core::Elements count(std::ssize(weight));
    for (const core::TensorSlice& part :
         stored_slices(lora_, core::slice_in_memory(entry.name, entry.shape, core::Elements(0),
                                                    weight.data(), count))) {
      file_->read(part);
    }
    return;
  }
  const std::string module = entry.name.substr(0, entry.name.rfind('.'));
  const std::string first = model::adapter_name(module, LoraFactor::kA);
  if (!entry.name.ends_with(".weight") || file_->find(first) == nullptr) return;
  const std::int64_t out = entry.shape[transposed_ ? 1 : 0];
  const std::int64_t in = entry.shape[transposed_ ? 0 : 1];
  const std::vector<float> a = read(first, {rank_, in});
  std::vector<float> b = read(model::adapter_name(module, LoraFactor::kB), {out, rank_});
  for (float& value : b) value *= scale_;
  const core::Work work{{}, kernels::kernel_threads()};
  const kernels::Target<float> target{weight.data(), transposed_ ? out : in, kernels::Beta::kOne};
  if (transposed_) {
    kernels::gemm(work, {.m = in, .n = out, .k = rank_}, {a.data(), in, kernels::Form::kTransposed},
                  {b.data(), rank_, kernels::Form::kTransposed}, target);
  } else {
    kernels::gemm(work, {.m = out, .n = in, .k = rank_}, {b.data(), rank_}, {a.data(), in}, target);
  }
}

}  // namespace fm::engine
