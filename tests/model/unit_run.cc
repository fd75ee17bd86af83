#include "tests/model/unit_run.h"

#include <algorithm>
#include <limits>
#include <random>

#include "core/check.h"

namespace fm::model {

LlamaConfig odd_config() {
  LlamaConfig config;
  config.vocab = 777;
  config.hidden = 96;
  config.ffn = 250;
  config.layers = 2;
  config.heads = 6;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.rms_norm_eps = 1e-5;
  return config;
}

UnitRun::UnitRun(const LlamaConfig& config, core::BatchShape shape, const core::NoDecay& no_decay)
    : model_(make_llama(config, no_decay)) {
  std::mt19937 bits(11);
  std::normal_distribution<float> normal;
  const auto vocab = static_cast<std::uint32_t>(config.vocab);
  for (std::int64_t i = 0; i < shape.tokens(); ++i) {
    token_ids_.push_back(static_cast<std::int32_t>(bits() % vocab));
    label_ids_.push_back(i % 7 == 3 ? -100 : static_cast<std::int32_t>(bits() % vocab));
  }
  input_ = {shape, token_ids_.data(), label_ids_.data()};
  core::Bytes most_scratch;
  for (int unit = 0; unit < model_.unit_count(); ++unit) {
    const core::ParamTable& table = model_.table(unit);
    const UnitSizes sizes = model_.sizes(unit, shape);
    most_scratch = std::max(most_scratch, sizes.scratch);
    PerUnit& own = units_.emplace_back();
    own.weights = memory(table.elements().count());
    own.gradients = memory(table.elements().count());
    own.input = memory(shape.tokens() * config.hidden);
    own.kept = bytes(sizes.kept);
    own.parked = bytes(sizes.parked);
    std::ranges::fill(own.gradients.floats(), std::numeric_limits<float>::quiet_NaN());
    for (const core::ParamEntry& entry : table.entries()) {
      float* values = own.weights.f32() + entry.offset.count();
      const bool is_norm = entry.kind == core::ParamKind::kNorm;
      for (std::int64_t i = 0; i < entry.numel.count(); ++i) {
        values[i] = is_norm ? 1.0F + 0.2F * normal(bits) : 0.1F * normal(bits);
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

Saved UnitRun::saved(int unit) {
  return {unit == 0 ? nullptr : input_of(unit), kept(unit), parked(unit)};
}

Weights UnitRun::weights_of(int unit) {
  return {weights(unit), model_.tied && unit == model_.head_unit() ? weights(0) : nullptr};
}

core::Arena UnitRun::arena(int unit) {
  const core::Bytes announced = model_.sizes(unit, input_.shape).scratch;
  FM_CHECK(announced <= scratch_.bytes(), "this thread's kernels take more threads");
  return core::Arena(scratch_.span().first(static_cast<std::size_t>(announced.count())));
}

void UnitRun::forward(int unit, float* output) {
  core::Arena scratch = arena(unit);
  model_.units[index(unit)]->forward(weights_of(unit), input_, saved(unit), scratch, output);
}

double UnitRun::loss(double scale, Write write) {
  const int head = model_.head_unit();
  core::Arena scratch = arena(head);
  const Gradients gradients_of_head{gradients(head), model_.tied ? tied_gradients() : nullptr};
  return model_.head->loss(weights_of(head), input_, input_of(head), scale, gradients_of_head,
                           write, scratch);
}

double UnitRun::evaluate() {
  const int head = model_.head_unit();
  core::Arena scratch = arena(head);
  return model_.head->evaluate(weights_of(head), input_, input_of(head), scratch);
}

void UnitRun::logits(const float* hidden_D, float* logits_V) {
  core::Arena scratch = arena(model_.head_unit());
  model_.head->logits(weights_of(model_.head_unit()), hidden_D, logits_V, scratch);
}

void UnitRun::backward_input(int unit, float* doutput, float* dinput) {
  core::Arena scratch = arena(unit);
  model_.units[index(unit)]->backward_input(weights_of(unit), input_, saved(unit), scratch, doutput,
                                            dinput);
}

void UnitRun::backward_weight(int unit, Write write) {
  core::Arena scratch = arena(unit);
  model_.units[index(unit)]->backward_weight(weights_of(unit), input_, saved(unit), scratch,
                                             {gradients(unit), nullptr}, write);
}

double UnitRun::forward_and_backward(double scale) {
  for (int unit = 0; unit < model_.head_unit(); ++unit) forward(unit);
  const double sum = loss(scale, Write::kAssign);
  core::Buffer other = memory(hidden_elements());
  float* doutput = input_of(model_.head_unit());
  float* dinput = other.f32();
  for (int unit = model_.head_unit() - 1; unit >= 0; --unit) {
    backward_input(unit, doutput, unit == 0 ? nullptr : dinput);
    // W must need nothing but Saved: what it could peek at is spoilt.
    std::fill_n(doutput, hidden_elements(), std::numeric_limits<float>::quiet_NaN());
    backward_weight(unit, Write::kAssign);
    std::swap(doutput, dinput);
  }
  return sum;
}

}  // namespace fm::model
