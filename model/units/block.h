// One block, composed of what its configuration says. With norms before and residuals one behind
// the other: x_mid = x + Wo attention(turn(Wq n1), turn(Wk n1), Wv n1), n1 = norm1(x);
// y = x_mid + Wd act(n2), n2 = norm2(x_mid), where act is act(Wg n2) * Wu n2 or act(Wu n2).
// Norms behind: x_mid = x + norm1(attention of x), y = x_mid + norm2(mlp of x_mid). Parallel:
// y = x + attention of n1 + mlp of norm2(x), or of n1.
//
// Kept by forward: the numbers of the norms' rows, q and k (turned), v, attention output and
// logsumexp, x_mid, gate, up; q and k before their norm; what a norm behind reads. Normed inputs
// and the product of the MLP are cheap and made again in backward.
#pragma once

#include <memory>

#include "model/attention/attention.h"
#include "model/attention/attention_cached.h"
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
  struct Pass;    // the same: what the parts of one call share

  bool norms_before() const { return config_.block.norm_place == NormPlace::kBefore; }
  bool parallel() const { return config_.block.residual != Residual::kSequential; }
  bool has_norm2() const { return config_.block.residual != Residual::kParallelOneNorm; }
  bool per_head() const { return config_.block.qkv == QkvMatrix::kPerHead; }
  AttentionShape attention_of(const UnitInput& input) const;
  // Whether what is added to the residual passes through dropout in this call.
  bool drops_residual(const UnitInput& input) const {
    return config_.dropout.residual > 0.0 && input.dropout;
  }
  // This rank's rows of x_BTD [N, D], in place.
  void drop_residual(const Pass& pass, DropPlace place, T* x_BTD) const;
  enum class Turn : std::uint8_t { kForth, kBack };
  // Rotary positions of queries and keys, in place.
  void turn(Turn turn, const UnitInput& input, T* q_BTHd, T* k_BTKd) const;
  // What the norm of queries, or keys, takes for a row; and as parts of the rows of all heads.
  kernels::RowShape q_rows(std::int64_t tokens) const;
  kernels::RowShape k_rows(std::int64_t tokens) const;
  SplitRows split_q_rows(const Pass& pass) const;
  SplitRows split_k_rows(const Pass& pass) const;
  static NormWeights<T> weights_of(const UnitWeights<T>& weights, const NormPlaceAt& at) {
    return {weights.at(at.weight), weights.at(at.bias)};
  }

  core::Bytes summed_bytes(std::int64_t tokens) const;
  // model/units/block_sent.cc
  UnitSizes::ToTensorPeers sent_to_tensor_peers(std::int64_t tokens) const;
  void run(const Pass& pass, T* y_BTD) const;
  // kept's queries, keys and values -> kept.attended_BTHd (model/units/block_decode.cc)
  void attend_cached(const Pass& pass) const;
  CachedShape cached_shape() const;
  // input_BTD -> kept.attended_BTHd
  void attend(const Pass& pass, const T* input_BTD) const;
  void project_qkv(const Pass& pass, const T* input_BTD) const;
  void norm_queries_and_keys(const Pass& pass) const;
  // The MLP: its input -> kept.gate_BTF and kept.up_BTF; these -> y_BTD, or null: only what an
  // adapter keeps.
  void expand(const Pass& pass, const T* input_BTD) const;
  void contract(const Pass& pass, T* y_BTD, Beta beta, T* free_BTD) const;
  // y_BTD += the projection of x, through dropout where that is on; it takes free_BTD. Null: only
  // what an adapter keeps.
  void add_to_residual(const Pass& pass, DropPlace place, const T* x, T* y_BTD, T* free_BTD) const;
  // Behind attention, by place of norms and residual.
  void forward_before(const Pass& pass, T* normed_BTD, T* y_BTD) const;
  void forward_after(const Pass& pass, T* normed_BTD, T* y_BTD) const;
  void forward_parallel(const Pass& pass, T* normed_BTD, T* y_BTD) const;

  // The gradient of what attention, and the MLP, added to the residual.
  const T* dout_of_attention(const Pass& pass) const;
  const T* dout_of_mlp(const Pass& pass) const;
  void park_norms(const Pass& pass) const;
  void clear_sums(const Pass& pass, const NormSums& sums, std::int64_t width) const;
  void backward_norm_after(const Pass& pass, const T* dy_BTD, NormBackward<T> at) const;
  void differentiate_mlp(const Pass& pass) const;
  // parked.dy_BTD -> parked.dgate_BTF, parked.dup_BTF, parked.dx_mid_BTD. `shared_BTD`: where one
  // norm serves both, the gradient of its output; else null.
  void backward_mlp(const Pass& pass, float* shared_BTD) const;
  void backward_attention(const Pass& pass, T* dq_BTHd, T* dk_BTKd, T* dv_BTKd) const;
  // Over the ranks that have the same key and value heads, in place.
  void sum_of_holders(const Pass& pass, T* dk_BTKd) const;
  bool splits_tokens() const { return choices_.split_tokens; }
  TokenPart own_tokens(std::int64_t tokens) const { return token_part(tokens, choices_); }
  // Own rows -> those of all tokens, in `all_BTD` where tokens are split; else they are x_BTD.
  const T* all_rows(const Pass& pass, const T* x_BTD, T* all_BTD) const;
  // Sums of a norm's gradients over the tokens of other ranks.
  void sum_norm(const Pass& pass, const NormSums& sums) const;
  bool has_holders() const { return parts_.kv_heads.holder.count > 1; }
  void backward_qk_norm(const Pass& pass) const;
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
  std::shared_ptr<RopeTables> rope_;
};

}  // namespace fm::model
