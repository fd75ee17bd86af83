// The memory of a block's passes. In the names: F is the width of the MLP; H query heads and K key
// and value heads have d elements each; logsumexp, B T H numbers, has an order of its own
// (kernels/attention/attention.h). Arrays that a block does not need are null.
#pragma once

#include "model/units/block.h"
#include "model/units/gate_up.h"
#include "model/units/products.h"

namespace fm::model {

// Products::low, for the projections that have an adapter.
template <class T>
using LowRows = std::array<T*, 8>;

template <class T>
LowRows<T> take_low_rows(const BlockPlaces& places, std::int64_t N, Carver& carver) {
  LowRows<T> rows = {};
  for (const Projection* each : places.all()) {
    const Adapter& adapter = each->adapter;
    if (adapter.rank > 0) rows[adapter.index] = carver.take<T>(N * adapter.rank);
  }
  return rows;
}

// The activations that forward saves for backward. backward_input overwrites `up` with the product
// of the MLP.
template <class T>
struct Block<T>::Kept {
  NormRows rows1, rows2, after1, after2, q_rows, k_rows;
  float* logsumexp;
  T *q_BTHd, *k_BTKd, *v_BTKd, *attended_BTHd, *up_BTF;
  T *x_mid_BTD = nullptr, *gate_BTF = nullptr;
  T *raw_q_BTHd = nullptr, *raw_k_BTKd = nullptr;  // before their norm
  T *attention_BTD = nullptr, *mlp_BTD = nullptr;  // before their post-norm
  LowRows<T> low;
  core::Bytes bytes;

  Kept(const Block& block, core::BatchShape shape, void* base) {
    const DecoderConfig& config = block.config_;
    const std::int64_t N = shape.tokens();
    const AttentionKept attention = attention_kept(block.attention_of({.shape = shape}));
    const Norm& norm = block.norm_;
    const std::int64_t own = block.own_tokens(N).count;
    Carver carver(base);
    if (block.norms_before()) rows1 = NormRows::take(norm, own, carver);
    q_BTHd = carver.take<T>(attention.q);
    k_BTKd = carver.take<T>(attention.k);
    v_BTKd = carver.take<T>(attention.k);
    attended_BTHd = carver.take<T>(N * config.q_width());
    logsumexp = carver.take<float>(attention.logsumexp);
    if (!block.parallel()) x_mid_BTD = carver.take<T>(own * config.hidden);
    if (block.norms_before() && block.has_norm2()) rows2 = NormRows::take(norm, own, carver);
    const GateUp<T> wide(block.gated_rows(N), config.block.gated, carver);
    gate_BTF = wide.gate;
    up_BTF = wide.up;
    if (config.block.qk_norm != QkNorm::kNone) {
      raw_q_BTHd = carver.take<T>(N * config.q_width());
      raw_k_BTKd = carver.take<T>(N * config.kv_width());
      q_rows = NormRows::take(norm, block.q_rows(N).rows, carver);
      k_rows = NormRows::take(norm, block.k_rows(N).rows, carver);
    }
    if (block.norms_after()) {
      after1 = NormRows::take(norm, own, carver);
      after2 = NormRows::take(norm, own, carver);
      attention_BTD = carver.take<T>(own * config.hidden);
      mlp_BTD = carver.take<T>(own * config.hidden);
    }
    low = take_low_rows<T>(block.at_, N, carver);
    bytes = carver.used();
  }
};

// The gradients that backward_input saves for backward_weight, which reads no weights.
template <class T>
struct Block<T>::Parked {
  T *dy_BTD, *dx_mid_BTD, *dup_BTF;
  T* dgate_BTF = nullptr;
  T *dq_BTHd = nullptr, *dk_BTKd = nullptr, *dv_BTKd = nullptr, *dqkv = nullptr;
  T *dattention_BTD = nullptr, *dmlp_BTD = nullptr;  // before a post-norm or a change
  NormSums norm1, norm2, after1, after2, q_norm, k_norm;
  LowRows<T> dlow;
  T *weight1_D = nullptr, *bias1_D = nullptr, *weight2_D = nullptr, *bias2_D = nullptr;
  core::Bytes bytes;

  Parked(const Block& block, std::int64_t N, void* base) {
    const DecoderConfig& config = block.config_;
    const std::int64_t D = config.hidden;
    const std::int64_t own = block.own_tokens(N).count;
    Carver carver(base);
    dy_BTD = carver.take<T>(own * D);
    const GateUp<T> wide(block.gated_rows(N), config.block.gated, carver);
    dgate_BTF = wide.gate;
    dup_BTF = wide.up;
    dx_mid_BTD = block.has_norm2() ? carver.take<T>(own * D) : dy_BTD;
    if (block.fuses_qkv()) {
      dqkv = carver.take<T>(N * (config.q_width() + 2 * config.kv_width()));
    } else {
      dq_BTHd = carver.take<T>(N * config.q_width());
      dk_BTKd = carver.take<T>(N * config.kv_width());
      dv_BTKd = carver.take<T>(N * config.kv_width());
    }
    const bool changes = config.dropout.residual > 0.0 || config.residual_scale != 1.0;
    if (block.norms_after() || changes || block.splits_tokens()) {
      dattention_BTD = carver.take<T>(N * D);
      dmlp_BTD = carver.take<T>(N * D);
    }
    take_norms(block, carver);
    dlow = take_low_rows<T>(block.at_, N, carver);
    bytes = carver.used();
  }

 private:
  void take_norms(const Block& block, Carver& carver) {
    const std::int64_t D = block.config_.hidden;
    const bool biased = block.norm_.kind == NormKind::kLayer;
    if (block.norms_after()) {
      after1 = NormSums::take(block.norm_, D, carver);
      after2 = NormSums::take(block.norm_, D, carver);
    }
    if (block.config_.block.qk_norm != QkNorm::kNone) {
      q_norm = NormSums::take(block.norm_, block.q_rows(1).width, carver);
      k_norm = NormSums::take(block.norm_, block.k_rows(1).width, carver);
    }
    if (!block.norms_before()) return;
    norm1 = NormSums::take(block.norm_, D, carver);
    if (block.has_norm2()) norm2 = NormSums::take(block.norm_, D, carver);
    weight1_D = carver.take<T>(D);
    if (biased) bias1_D = carver.take<T>(D);
    if (!block.has_norm2()) return;
    weight2_D = carver.take<T>(D);
    if (biased) bias2_D = carver.take<T>(D);
  }
};

// The arguments and memory of one call.
template <class T>
struct Block<T>::Pass {
  core::Work& work;
  const UnitInput& input;
  core::BatchShape shape;
  UnitWeights<T> weights;  // null in backward_weight
  const T* x_BTD;
  Kept kept;
  Parked parked;
  comm::Communicator* tensor;
  TokenPart own;  // this rank's tokens of norms, residuals, input and output
  Products<T> products;
  std::span<const CachedSequence> sequences;  // of decode()
  const Peers& peers;

  Pass(const Block& block, const UnitCall& call, std::span<const CachedSequence> decoded = {})
      : work(call.work),
        input(call.input),
        shape(call.input.shape),
        weights(call.weights),
        x_BTD(static_cast<const T*>(call.saved.input_BTD)),
        kept(block, shape, call.saved.kept),
        parked(block, shape.tokens(), call.saved.parked),
        tensor(call.peers.tensor),
        own(block.own_tokens(shape.tokens())),
        products{.work = work,
                 .tokens = shape.tokens(),
                 .weights = weights,
                 .low = kept.low.data(),
                 .dlow = parked.dlow.data(),
                 .batch = &input,
                 .rows = decoded.empty() ? RowSource::kBatch : RowSource::kDecoded,
                 .tensor = tensor,
                 .own = own},
        sequences(decoded),
        peers(call.peers) {
    FM_CHECK(block.parts_.alone() == (tensor == nullptr),
             "a part of a block needs the other ranks");
    FM_CHECK(x_BTD != nullptr && call.saved.kept != nullptr, "a block reads its input at ", x_BTD,
             " and keeps what backward needs at ", call.saved.kept);
  }
  Pass(const Pass&) = delete;  // products point into it
  Pass& operator=(const Pass&) = delete;

  std::int64_t tokens() const { return shape.tokens(); }
  // This rank's rows in an array of all tokens; gather() fills in those of the other ranks.
  T* own_rows(T* all_BTD, std::int64_t D) const { return all_BTD + own.first * D; }
  void gather(T* all_BTD, std::int64_t D) const { gather_tokens(work, tensor, own, D, all_BTD); }
};

template <class T>
template <class X>
void Block<T>::change_residual(const Pass& pass, DropPlace place, X* x_BTD) const {
  if (config_.residual_scale != 1.0) {
    kernels::scale(pass.work, pass.own.count * config_.hidden,
                   static_cast<float>(config_.residual_scale), x_BTD);
  }
  const kernels::Dropout by = dropout_at(pass.input, config_.dropout.residual, layer_, place);
  drop(pass.work, by, pass.input, DropPart{pass.own.first, pass.own.count, config_.hidden}, x_BTD);
}

}  // namespace fm::model
