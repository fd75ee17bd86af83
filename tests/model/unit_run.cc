#include "tests/model/unit_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

#include "core/element.h"
#include "kernels/threads.h"

namespace fm::model {

DecoderConfig odd_config() {
  DecoderConfig config;
  config.vocab = 777;
  config.hidden = 96;
  config.ffn = 250;
  config.layers = 2;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.norm_eps = 1e-5;
  return config;
}

UnitRun::UnitRun(const DecoderConfig& config, core::BatchShape shape, const ModelChoices& choices)
    : model_(make_decoder(config, choices)), threads_(kernels::kernel_threads()) {
  std::mt19937 bits(11);
  std::normal_distribution<float> normal;
  const auto vocab = static_cast<std::uint32_t>(config.vocab);
  for (std::int64_t i = 0; i < shape.tokens(); ++i) {
    token_ids_.push_back(static_cast<std::int32_t>(bits() % vocab));
    label_ids_.push_back(i % 7 == 3 ? -100 : static_cast<std::int32_t>(bits() % vocab));
  }
  input_ = {.shape = shape, .tokens_BT = token_ids_.data(), .labels_BT = label_ids_.data()};
  core::Bytes most_scratch;
  for (int unit = 0; unit < model_.unit_count(); ++unit) {
    const core::ParamTable& table = model_.table(unit);
    const UnitSizes sizes = model_.sizes(unit, shape, threads_);
    most_scratch = std::max(most_scratch, sizes.scratch);
    PerUnit& own = units_.emplace_back();
    own.weights = bytes(core::bytes_of(table.elements(), choices.element));
    own.gradients = memory(table.elements().count());
    own.input = hidden();
    own.kept = bytes(sizes.kept);
    own.parked = bytes(sizes.parked);
    std::ranges::fill(own.gradients.floats(), std::numeric_limits<float>::quiet_NaN());
    for (const core::ParamEntry& entry : table.entries()) {
      const bool is_norm = entry.kind == core::ParamKind::kNorm;
      const float usual = config.block.norm == NormKind::kRmsOnePlus ? 0.0F : 1.0F;
      for (std::int64_t i = 0; i < entry.numel.count(); ++i) {
        const float value = is_norm ? usual + 0.2F * normal(bits) : 0.1F * normal(bits);
        set(own.weights.data(), entry.offset.count() + i, value);
      }
    }
  }
  tied_gradients_ = memory(model_.table(0).elements().count());
  std::ranges::fill(tied_gradients_.floats(), std::numeric_limits<float>::quiet_NaN());
  scratch_ = bytes(most_scratch);
}

core::Buffer UnitRun::memory(std::int64_t elements) {
  return core::make_f32(ledger_, core::Account::kScratch, core::Elements(elements));
}

core::Buffer UnitRun::bytes(core::Bytes count) { return {ledger_, core::Account::kScratch, count}; }

core::Buffer UnitRun::hidden() {
  return bytes(core::bytes_of(core::Elements(hidden_elements()), model_.element));
}

void UnitRun::set(void* array, std::int64_t at, float value) const {
  if (model_.element == core::DType::kF32) {
    static_cast<float*>(array)[at] = value;
  } else {
    static_cast<core::Bf16*>(array)[at] = core::to_bf16(value);
  }
}

std::vector<float> UnitRun::values(const void* from, std::int64_t count) const {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) {
    out.push_back(model_.element == core::DType::kF32
                      ? static_cast<const float*>(from)[i]
                      : core::to_float(static_cast<const core::Bf16*>(from)[i]));
  }
  return out;
}

Weights UnitRun::weights_of(int unit) {
  const bool reads_tied = model_.tied && unit == model_.head_unit();
  return {.own = weights(unit), .tied = reads_tied ? weights(0) : nullptr};
}

UnitCall UnitRun::call(int unit, core::Work& work) {
  PerUnit& own = units_[index(unit)];
  const Saved saved{unit == 0 ? nullptr : input_of(unit), own.kept.data(), own.parked.data()};
  return {weights_of(unit), input_, saved, work, peers_};
}

core::Work UnitRun::work(int unit) {
  const core::Bytes announced = model_.sizes(unit, input_.shape, threads_).scratch;
  const auto memory = scratch_.span().first(static_cast<std::size_t>(announced.count()));
  return {core::Arena(memory), threads_};
}

void UnitRun::forward(int unit, void* output) {
  core::Work here = work(unit);
  model_.units[index(unit)]->forward(call(unit, here), output);
}

double UnitRun::loss(double scale, Write write) {
  const int head = model_.head_unit();
  core::Work here = work(head);
  const Gradients gradients_of_head{gradients(head), model_.tied ? tied_gradients() : nullptr};
  double sum = 0.0;
  model_.head->loss(call(head, here), input_of(head), scale, gradients_of_head, write, &sum);
  return sum;
}

double UnitRun::evaluate() {
  const int head = model_.head_unit();
  core::Work here = work(head);
  double sum = 0.0;
  model_.head->evaluate(call(head, here), input_of(head), &sum);
  return sum;
}

void UnitRun::logits(const void* hidden_D, float* logits_V) {
  core::Work here = work(model_.head_unit());
  model_.head->logits(weights_of(model_.head_unit()), 1, hidden_D, logits_V, here);
}

void UnitRun::backward_input(int unit, void* doutput, void* dinput) {
  core::Work here = work(unit);
  model_.units[index(unit)]->backward_input(call(unit, here), doutput, dinput);
}

void UnitRun::backward_weight(int unit, Write write) {
  core::Work here = work(unit);
  UnitCall without_weights = call(unit, here);
  without_weights.weights = {};
  model_.units[index(unit)]->backward_weight(without_weights, {gradients(unit), nullptr}, write);
}

double UnitRun::forward_and_backward(double scale, WeightHalves when) {
  for (int unit = 0; unit < model_.head_unit(); ++unit) forward(unit);
  const double sum = loss(scale, Write::kAssign);
  const core::Buffer other = hidden();
  void* doutput = input_of(model_.head_unit());
  void* dinput = other.data();
  for (int unit = model_.head_unit() - 1; unit >= 0; --unit) {
    backward_input(unit, doutput, unit == 0 ? nullptr : dinput);
    // W must need nothing but Saved: what it could peek at is spoilt.
    std::memset(doutput, 0xFF, other.span().size());  // NaN in every type
    if (when == WeightHalves::kEach) backward_weight(unit, Write::kAssign);
    std::swap(doutput, dinput);
  }
  for (int unit = model_.head_unit() - 1; when == WeightHalves::kLast && unit >= 0; --unit) {
    backward_weight(unit, Write::kAssign);
  }
  return sum;
}

}  // namespace fm::model
