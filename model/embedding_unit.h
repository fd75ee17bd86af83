// Unit 0: tokens to hidden states, scaled or with learned positions where the family has them.
#pragma once

#include "model/decoder_config.h"
#include "model/unit.h"

namespace fm::model {

template <class T>  // element: float, core::Bf16 or core::F16
class EmbeddingUnit final : public Unit {
 public:
  EmbeddingUnit(const DecoderConfig& config, const core::NoDecay& no_decay);

  const core::ParamTable& params() const override { return params_; }
  UnitSizes sizes(core::BatchShape shape) const override;
  double forward_flops(core::BatchShape) const override { return 0.0; }
  void forward(const UnitCall& call, void* output_BTD) const override;
  void backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const override;
  void backward_weight(const UnitCall& call, const Gradients& gradients,
                       Write write) const override;

 private:
  void backward_positions(const UnitCall& call, const Gradients& gradients, Write write) const;

  std::int64_t vocab_;
  std::int64_t hidden_;
  std::int64_t pad_id_;
  float scale_;
  core::ParamTable params_;
  std::int64_t table_at_;      // offsets in the flat buffer
  std::int64_t positions_at_;  // -1: none
};

}  // namespace fm::model
