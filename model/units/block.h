// One block of a decoder, composed as its configuration says.
//   Pre-norm, sequential residuals: n1 = norm1(x), n2 = norm2(x_mid),
//     x_mid = x + Wo attention(rope(Wq n1), rope(Wk n1), Wv n1),
//     y = x_mid + Wd h(n2), where h(n) is act(Wg n) * Wu n (gated) or act(Wu n).
//   Post-norm: x_mid = x + after1(attention(x)), y = x_mid + after2(mlp(x_mid)); or norms on both
//     sides.
//   Parallel residuals: y = x + attention(n1) + mlp(norm2(x)), or mlp(n1).
//
// Forward saves: the statistics of the norms, q and k (after rope), v, attention output and
// logsumexp, x_mid, gate, up; q and k before a norm of their own; the input of a post-norm. Normed
// inputs and the product of the MLP are cheap and computed again in backward.
#pragma once

#include <memory>

#include "kernels/attention/attention.h"
#include "kernels/attention/attention_cached.h"
#include "kernels/pointwise/activations.h"
#include "kernels/pointwise/heads.h"
#include "model/attention/context_attention.h"
#include "model/attention/rope_frequencies.h"
#include "model/unit.h"
#include "model/units/block_params.h"
#include "model/units/dropout.h"
#include "model/units/norm.h"
#include "model/units/split_norm.h"

namespace fm::model {

template <class T>  // element: float, core::Bf16 or core::F16
class Block final : public Unit {
 public:
  // `rope`: of this layer; null: it does not rotate.
  Block(const DecoderConfig& config, std::int64_t layer, const ModelChoices& choices,
        std::shared_ptr<RopeTables> rope);

  const core::ParamTable& params() const override { return tables_.own; }
  const core::ParamTable* frozen_params() const override { return tables_.frozen_or_null(); }
  UnitSizes sizes(core::BatchShape shape, int threads) const override;
  // Attention counts every score, as PaLM, torchtitan and llm-foundry do (no causal halving).
  double forward_flops(core::BatchShape shape) const override;
  void forward(const UnitCall& call, void* output_BTD) const override;
  void backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const override;
  void backward_weight(const UnitCall& call, const Gradients& gradients,
                       Write write) const override;
  std::int64_t cache_width() const override { return 2 * config_.kv_width(); }
  UnitSizes decode_sizes(std::int64_t tokens, std::int64_t positions, int threads) const override;
  void decode(const UnitCall& call, std::span<const CachedSequence> sequences,
              void* output_ND) const override;

 private:
  struct Kept;    // block_memory.h
  struct Parked;  // the same
  struct Pass;    // the same: the arguments and memory of one call

  bool norms_before() const { return config_.block.norm_place != NormPlace::kAfter; }
  bool norms_after() const { return config_.block.norm_place != NormPlace::kBefore; }
  bool parallel() const { return config_.block.residual != Residual::kSequential; }
  bool has_norm2() const { return config_.block.residual != Residual::kParallelOneNorm; }
  bool per_head() const { return config_.block.qkv == QkvMatrix::kPerHead; }
  // Whether one product makes queries, keys and values; which, and how their heads lie.
  bool fuses_qkv() const { return per_head() || at_.fused_qkv.out > 0; }
  const Projection& qkv() const { return per_head() ? at_.qkv : at_.fused_qkv; }
  kernels::HeadGroups head_groups() const;
  // Whether one product makes gate and up, and the stride of their rows.
  bool fuses_gate_up() const { return at_.fused_gate_up.out > 0; }
  kernels::GatedShape gated_rows(std::int64_t tokens) const {
    return {{tokens, config_.ffn}, fuses_gate_up() ? 2 * config_.ffn : config_.ffn};
  }
  AttentionShape attention_of(const UnitInput& input) const;
  // Whether this call applies dropout to what is added to the residual.
  bool drops_residual(const UnitInput& input) const {
    return config_.dropout.residual > 0.0 && input.dropout;
  }
  // Whether what is added to the residual is not as attention and MLP made it.
  bool changes_residual(const UnitInput& input) const {
    return drops_residual(input) || config_.residual_scale != 1.0;
  }
  // Scales and drops; the same for its gradient. This rank's rows of x_BTD [N, D], in place.
  template <class X>
  void change_residual(const Pass& pass, DropPlace place, X* x_BTD) const;
  enum class RopeDirection : std::uint8_t { kForward, kInverse };
  // Rotates queries and keys by their positions, in place; kInverse is the backward pass.
  // Calls turn(RopeTable, DocumentRun) until all tokens have turned. Not without RoPE.
  template <class Turn>
  void for_every_turn(const core::Work& work, const UnitInput& input, const Turn& turn) const;
  void apply_rope(const core::Work& work, RopeDirection direction, const UnitInput& input,
                  T* q_BTHd, T* k_BTKd) const;
  // Whether heads are rotated while they move between the arrays of move_heads().
  bool rotates_on_the_way(const Pass& pass) const;
  // kForward: from the product of qkv() to arrays of their own; kInverse: back.
  void move_heads(const Pass& pass, RopeDirection direction,
                  const kernels::SplitHeads<T>& at) const;
  // Multiplies queries by the factor of their positions, in place; and so their gradients.
  void scale_queries(const core::Work& work, core::BatchShape shape, std::int64_t position,
                     T* q_BTHd) const;
  // The shape of the rows that the norm of queries, or keys, normalizes; and the same as this
  // rank's parts of the rows of all heads.
  kernels::RowShape q_rows(std::int64_t tokens) const;
  kernels::RowShape k_rows(std::int64_t tokens) const;
  SplitRows split_q_rows(const Pass& pass) const;
  SplitRows split_k_rows(const Pass& pass) const;
  static NormWeights<T> weights_of(const UnitWeights<T>& weights, const NormPlaceAt& place) {
    return {weights.at(place.weight), weights.at(place.bias)};
  }

  core::Bytes summed_bytes(std::int64_t tokens) const;
  // model/units/block.cc
  UnitSizes::ToTensorPeers sent_to_tensor_peers(std::int64_t tokens) const;
  void run(const Pass& pass, T* y_BTD) const;
  // kept.q, k, v -> kept.attended_BTHd, with the cache (model/units/block.cc)
  void attend_cached(const Pass& pass) const;
  kernels::CachedShape cached_shape() const;
  // input_BTD -> kept.attended_BTHd
  void attend(const Pass& pass, const T* input_BTD) const;
  void project_qkv(const Pass& pass, const T* input_BTD) const;
  void norm_queries_and_keys(const Pass& pass) const;
  // The MLP. mlp_up: input -> kept.gate_BTF and kept.up_BTF. mlp_down: these -> y_BTD; where y_BTD
  // is null, only what an adapter saves.
  void mlp_up(const Pass& pass, const T* input_BTD) const;
  // y_BTD with what they are added to, and memory to use; without `from_BTD` y is theirs alone.
  struct ResidualAdd {
    const T* from_BTD = nullptr;
    T* y_BTD = nullptr;
    T* free_BTD = nullptr;
  };
  void mlp_down(const Pass& pass, const ResidualAdd& to) const;
  // y_BTD = from_BTD + the projection of x, changed as changes_residual says. Where y_BTD is null,
  // only what an adapter saves.
  void add_to_residual(const Pass& pass, DropPlace place, const T* x, const ResidualAdd& to) const;
  // y_BTD += the post-norm of x_BTD, whose statistics are kept; only these where y_BTD is null.
  void add_normed(const Pass& pass, DropPlace place, T* free_BTD, T* y_BTD) const;
  // Everything after attention.
  void forward_sequential(const Pass& pass, T* normed_BTD, T* y_BTD) const;
  void forward_parallel(const Pass& pass, T* normed_BTD, T* y_BTD) const;

  // The gradient of what attention, or the MLP, added to the residual.
  const T* dout_of_attention(const Pass& pass) const;
  const T* dout_of_mlp(const Pass& pass) const;
  void park_norms(const Pass& pass) const;
  void clear_sums(const Pass& pass, const NormSums& sums, std::int64_t width) const;
  void backward_norm_after(const Pass& pass, DropPlace place, const T* dy_BTD,
                           NormBackward<T> arrays) const;
  void differentiate_mlp(const Pass& pass) const;
  // parked.dy_BTD -> parked.dgate_BTF, parked.dup_BTF, parked.dx_mid_BTD. `shared_BTD`: the
  // gradient of the output of norm1 where attention and MLP share it; else null.
  void backward_mlp(const Pass& pass, float* shared_BTD) const;
  void backward_attention(const Pass& pass, T* dq_BTHd, T* dk_BTKd, T* dv_BTKd) const;
  // Sums over the ranks that hold the same key and value heads, in place.
  void sum_of_holders(const Pass& pass, T* dk_BTKd) const;
  bool splits_tokens() const { return choices_.split_tokens; }
  TokenPart own_tokens(std::int64_t tokens) const { return token_part(tokens, choices_); }
  // Gathers the rows of all tokens into `all_BTD` where tokens are split; else returns x_BTD.
  const T* all_rows(const Pass& pass, const T* x_BTD, T* all_BTD) const;
  // Adds the gradients of a norm from the tokens of other ranks.
  void sum_norm(const Pass& pass, const NormSums& sums) const;
  bool has_holders() const { return parts_.kv_heads.holder.count > 1; }
  void backward_qk_norm(const Pass& pass, T* dq_BTHd, T* dk_BTKd) const;
  // -> parked.dq_BTHd, parked.dk_BTKd, parked.dv_BTKd of the projections, or parked.dqkv
  void backward_heads(const Pass& pass) const;
  void write_norms(const Pass& pass) const;

  ModelChoices choices_;
  TensorParts parts_;
  DecoderConfig config_;  // of this rank's part
  std::int64_t layer_;
  Norm norm_;
  std::int64_t window_;
  UnitTables tables_;
  BlockPlaces at_;
  std::shared_ptr<RopeTables> rope_;  // null: this layer does not rotate
};

}  // namespace fm::model
