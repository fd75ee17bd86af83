// Memory and inputs to run the units of a small model by hand, as the engine would.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/ledger.h"
#include "model/units/decoder.h"

namespace fm::model {

// Odd sizes on purpose: nothing divides anything it need not divide.
DecoderConfig odd_config();

// Invariant: buffers live as long as the run; every gradient starts as NaN, so that a kAssign that
//            reads old values or a missing write is seen. A call gets the scratch that its unit
//            announced, not more.
class UnitRun {
 public:
  UnitRun(const DecoderConfig& config, core::BatchShape shape, const core::NoDecay& no_decay = {},
          core::DType element = core::DType::kF32)
      : UnitRun(config, shape, {.no_decay = no_decay, .element = element}) {}
  UnitRun(const DecoderConfig& config, core::BatchShape shape, const ModelChoices& choices);

  const Model& model() const { return model_; }
  const UnitInput& input() const { return input_; }
  std::span<std::int32_t> tokens_BT() { return token_ids_; }
  std::span<std::int32_t> labels_BT() { return label_ids_; }
  std::int64_t tokens() const { return input_.shape.tokens(); }
  // From here on units compute together with these ranks, which outlive the run.
  void join(comm::Communicator& tensor) { peers_.tensor = &tensor; }
  void train_in(const StepDropout& step) { input_.dropout = step; }
  // From here on (UnitInput); `starts_BT` outlives the run.
  void keep_apart(std::span<const std::int32_t> starts_BT) { input_.starts_BT = starts_BT.data(); }
  std::int64_t hidden_elements() const { return tokens() * model_.hidden; }

  // An array of numbers of the model's element type: one written, `count` read.
  void set(void* array, std::int64_t at, float value) const;
  std::vector<float> values(const void* from, std::int64_t count) const;
  void* weights(int unit) { return units_[index(unit)].weights.data(); }
  float* gradients(int unit) { return units_[index(unit)].gradients.f32(); }
  float* tied_gradients() { return tied_gradients_.f32(); }  // the head's share of a tied matrix
  std::span<std::byte> kept(int unit) { return units_[index(unit)].kept.span(); }
  void* input_of(int unit) { return units_[index(unit)].input.data(); }
  float* f32_input_of(int unit) { return units_[index(unit)].input.f32(); }
  const float* gradient(int unit, const core::ParamEntry& entry) {
    return gradients(unit) + entry.offset.count();
  }

  // One unit. `forward` writes the next unit's input unless told where.
  void forward(int unit) { forward(unit, input_of(unit + 1)); }
  void forward(int unit, void* output);
  double loss(double scale, Write write);  // the head's input becomes its gradient
  double evaluate();
  void backward_input(int unit, void* doutput, void* dinput);
  void backward_weight(int unit, Write write);
  void logits(const void* hidden_D, float* logits_V);

  // The whole model: loss sum; every gradient assigned, either directly behind its unit's input
  // gradient or behind all of them.
  enum class WeightHalves : std::uint8_t { kEach, kLast };
  double forward_and_backward(double scale, WeightHalves when = WeightHalves::kEach);

  core::Buffer memory(std::int64_t elements);  // fp32
  core::Buffer hidden();                       // one hidden state

 private:
  struct PerUnit {
    core::Buffer weights, gradients, input, kept, parked;
  };
  core::Buffer bytes(core::Bytes count);
  static std::size_t index(int unit) { return static_cast<std::size_t>(unit); }
  Weights weights_of(int unit);
  UnitCall call(int unit, core::Work& work);
  core::Work work(int unit);

  core::Ledger ledger_;
  Model model_;
  const int threads_;  // of every call: those of the thread that made this
  std::vector<std::int32_t> token_ids_;
  std::vector<std::int32_t> label_ids_;
  UnitInput input_;
  Peers peers_;
  std::vector<PerUnit> units_;
  core::Buffer tied_gradients_;
  core::Buffer scratch_;
};

}  // namespace fm::model
