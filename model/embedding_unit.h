// Unit 0: tokens to hidden states.
#pragma once

#include "model/llama_config.h"
#include "model/unit.h"

namespace fm::model {

template <class T>  // element: float, core::Bf16 or core::F16
class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const LlamaConfig& config, const core::NoDecay& no_decay);

  const core::ParamTable& params() const override { return params_; }
  UnitSizes sizes(core::BatchShape shape) const override;
  double forward_flops(core::BatchShape) const override { return 0.0; }
  void forward(const UnitCall& call, void* output_BTD) const override;
  void backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const override;
  void backward_weight(const UnitCall& call, const Gradients& gradients,
                       Write write) const override;

 private:
  std::int64_t vocab_;
  std::int64_t hidden_;
  std::int64_t pad_id_;
  core::ParamTable params_;
};

}  // namespace fm::model
