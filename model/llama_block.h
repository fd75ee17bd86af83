// One Llama block: x_mid = x + Wo attention(rope(Wq n1), rope(Wk n1), Wv n1), n1 = norm(x);
// y = x_mid + Wd (silu(Wg n2) * Wu n2), n2 = norm(x_mid).
//
// Kept by forward: rstd of both norms, q and k (rotated), v, attention output and logsumexp,
// x_mid, gate, up. Normed inputs and the SwiGLU product are cheap and made again in backward.
#pragma once

#include <memory>

#include "model/attention.h"
#include "model/linear.h"
#include "model/llama_config.h"
#include "model/rope_frequencies.h"
#include "model/unit.h"

namespace fm::model {

template <class T>  // element: float, core::Bf16 or core::F16
class LlamaBlock final : public Unit {
 public:
  LlamaBlock(const LlamaConfig& config, std::int64_t layer, const core::NoDecay& no_decay,
             std::shared_ptr<RopeTables> rope);

  const core::ParamTable& params() const override { return params_; }
  UnitSizes sizes(core::BatchShape shape) const override;
  // Attention counts every score, as PaLM, torchtitan and llm-foundry do (no causal halving).
  double forward_flops(core::BatchShape shape) const override;
  void forward(const UnitCall& call, void* output_BTD) const override;
  void backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const override;
  void backward_weight(const UnitCall& call, const Gradients& gradients,
                       Write write) const override;

 private:
  // Offsets of the parameters in the flat buffer.
  struct Places {
    std::int64_t norm1 = 0, q = 0, k = 0, v = 0, o = 0, norm2 = 0, gate = 0, up = 0, down = 0;
  };
  // Shapes of the products: queries, keys and values, attention output, gate and up, down.
  struct Shapes {
    LinearShape q, kv, o, up, down;
  };
  struct Kept;
  struct Parked;

  Shapes shapes_of(core::BatchShape shape) const;
  AttentionShape attention_of(core::BatchShape shape) const;
  void forward_attention(const T* weights, core::BatchShape shape, const T* x_BTD, const Kept& kept,
                         core::Work& work) const;
  // parked.dy_BTD -> parked.dgate_BTF, parked.dup_BTF, parked.dx_mid_BTD
  void backward_mlp(const T* weights, core::BatchShape shape, const Kept& kept,
                    const Parked& parked, core::Work& work) const;
  // parked.dx_mid_BTD -> parked.dq_BTHd, parked.dk_BTKd, parked.dv_BTKd (before RoPE)
  void backward_heads(const T* weights, core::BatchShape shape, const Kept& kept,
                      const Parked& parked, core::Work& work) const;

  LlamaConfig config_;
  core::ParamTable params_;
  Places at_;
  std::shared_ptr<RopeTables> rope_;
};

}  // namespace fm::model
