// The oracle: decoders in fp64 written with ATen operations and differentiated by autograd. Nothing
// here is shared with the code under test but names, shapes and the configuration.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/units/decoder.h"

namespace at {
class Tensor;
}

namespace fm::model {

class DecoderTwin {
 public:
  // For rows of `row` tokens. Takes RoPE frequencies from the code under test: these have a test of
  // their own.
  DecoderTwin(const DecoderConfig& config, std::int64_t row);
  DecoderTwin(DecoderTwin&&) noexcept;
  ~DecoderTwin();

  // Makes leaves (requiring gradients) of the parameters of one flat buffer.
  void add_leaves(const core::ParamTable& table, const float* flat);

  // From here on as in that training step.
  void drop_by(const StepDropout& step) { step_ = step; }
  // Adapters: y += scale B A x.
  void set_lora_scale(double scale) { lora_scale_ = scale; }

  at::Tensor embed(const UnitInput& input) const;                              // [B, T, D]
  at::Tensor block(std::int64_t layer, const at::Tensor& x_BTD) const;         // [B, T, D]
  at::Tensor loss_sum(const UnitInput& input, const at::Tensor& x_BTD) const;  // scalar
  at::Tensor logits(const at::Tensor& x_BTD) const;                            // [B, T, V]

  at::Tensor gradient(const std::string& name) const;

 private:
  struct Leaves;  // parameters by name

  struct Heads;  // q, k, v [B, heads, T, d]
  std::string prefix_of(std::int64_t layer) const;
  // x [B, ..., width] as it passes through dropout at place `where`: rows of numbers that begin
  // `stride` apart, from sample to sample.
  at::Tensor dropped(const at::Tensor& x, double probability, std::int64_t where,
                     std::int64_t stride) const;
  at::Tensor norm(const at::Tensor& x, const std::string& name) const;
  at::Tensor linear(const at::Tensor& x, const std::string& name) const;
  Heads heads(std::int64_t layer, const at::Tensor& x) const;
  at::Tensor attention(std::int64_t layer, const at::Tensor& x) const;
  at::Tensor activate(const at::Tensor& x) const;
  at::Tensor mlp(const std::string& prefix, const at::Tensor& x) const;
  at::Tensor rotate(std::int64_t layer, const at::Tensor& x_BHTd) const;
  at::Tensor scale_queries(const at::Tensor& q_BHTd) const;
  at::Tensor capped(const at::Tensor& x, double cap) const;

  DecoderConfig config_;
  double lora_scale_ = 1.0;
  std::int64_t row_;
  std::optional<StepDropout> step_;
  std::unique_ptr<Leaves> leaves_;
};

// fp64 copy of fp32 memory.
at::Tensor tensor_of(const float* data, std::vector<std::int64_t> shape);
// Largest difference over largest expected magnitude; NaN when anything is NaN.
double difference(const at::Tensor& expected, const float* got);

}  // namespace fm::model
