#include "model/units/block.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "kernels/pointwise/activations.h"
#include "model/units/block_memory.h"

namespace fm::model {

template <class T>
Block<T>::Block(const DecoderConfig& config, std::int64_t layer, const ModelChoices& choices,
                std::shared_ptr<RopeTables> rope)
    : choices_(choices),
      parts_(tensor_parts(config, choices.share)),
      config_(rank_config(config, parts_)),
      layer_(layer),
      norm_{config.block.norm, config.norm_eps},
      window_(config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(layer)]),
      tables_(block_tables(config, layer, choices)),
      at_(block_places(config_, layer, tables_, choices, parts_)),
      rope_(std::move(rope)) {}

template <class T>
AttentionShape Block<T>::attention_of(const UnitInput& input) const {
  return {.batch = input.shape,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .window = window_,
          .starts_BT = input.of_work().starts_BT,
          .dropout = dropout_at(input, config_.dropout.attention, layer_, DropPlace::kAttention),
          .first_sample = input.dropout ? input.dropout->first_sample : 0,
          .first_head = parts_.heads.first,
          .all_heads = parts_.heads_of_all,
          .scale = static_cast<float>(config_.attention_scale),
          .softcap = static_cast<float>(config_.attention_softcap)};
}

template <class T>
kernels::RowShape Block<T>::q_rows(std::int64_t tokens) const {
  if (config_.block.qk_norm == QkNorm::kAllHeads) return {tokens, config_.q_width()};
  return {tokens * config_.heads, config_.head_dim};
}

template <class T>
kernels::RowShape Block<T>::k_rows(std::int64_t tokens) const {
  if (config_.block.qk_norm == QkNorm::kAllHeads) return {tokens, config_.kv_width()};
  return {tokens * config_.kv_heads, config_.head_dim};
}

template <class T>
SplitRows Block<T>::split_q_rows(const Pass& pass) const {
  return {.shape = q_rows(pass.tokens()),
          .all = parts_.heads_of_all * config_.head_dim,
          .tensor = pass.tensor};
}

template <class T>
SplitRows Block<T>::split_k_rows(const Pass& pass) const {
  return {.shape = k_rows(pass.tokens()),
          .all = parts_.kv_heads_of_all * config_.head_dim,
          .counts = parts_.kv_heads.holder.index == 0,
          .tensor = pass.tensor};
}

template <class T>
UnitSizes Block<T>::sizes(core::BatchShape shape, int threads) const {
  using core::Arena;
  const std::int64_t N = shape.tokens();
  const std::int64_t Q = config_.q_width();
  const std::int64_t K = config_.kv_width();
  const core::Bytes normed = Arena::aligned<T>(N * config_.hidden);
  const core::Bytes dnormed = Arena::aligned<float>(N * config_.hidden);
  AttentionScratch attention = context_scratch<T>(attention_of({.shape = shape}), threads);
  const AttentionScratch in_training =
      context_scratch<T>(attention_of({.shape = shape, .dropout = StepDropout{}}), threads);
  attention.forward = std::max(attention.forward, in_training.forward);
  attention.backward = std::max(attention.backward, in_training.backward);
  core::Bytes forward = std::max(attention.forward, Arena::aligned<T>(N * config_.ffn));
  core::Bytes heads = attention.backward;
  if (config_.block.qk_norm != QkNorm::kNone) heads = std::max(heads, Arena::aligned<float>(N * Q));
  heads += Arena::aligned<T>(N * Q);
  if (fuses_qkv()) {
    forward = std::max(forward, Arena::aligned<T>(N * (Q + 2 * K)));
    heads += Arena::aligned<T>(N * Q) + Arena::aligned<T>(N * K) * 2;
  }
  core::Bytes backward = std::max(dnormed, heads);
  if (!has_norm2()) backward = dnormed + heads;
  core::Bytes weights = normed;
  const bool biased = config_.block.qkv_bias || config_.block.out_bias || config_.block.mlp_bias;
  if (biased) {
    weights += Arena::aligned<float>(std::max({config_.hidden, gated_rows(1).stride, Q + 2 * K}));
  }
  core::Bytes dropped;
  for (const Projection* each : at_.all()) {
    if (each->adapter.dropout == 0.0) continue;
    dropped = std::max(dropped, Arena::aligned<float>(N * each->in));
  }
  const AttentionSent sent = attention_sent<T>(attention_of({.shape = shape}));
  const std::int64_t own = own_tokens(N).count;
  return {.input = core::Bytes(own * config_.hidden * static_cast<std::int64_t>(sizeof(T))),
          .kept = Kept(*this, shape, nullptr).bytes,
          .parked = Parked(*this, N, nullptr).bytes,
          .scratch = std::max({normed + forward, backward, weights}) + dropped + summed_bytes(N),
          .sent_forward = sent.forward,
          .sent_backward = sent.backward,
          .to_tensor_peers = sent_to_tensor_peers(N)};
}

// The bytes of the largest sum over tensor-parallel ranks: fp32 rows, or one fp64 number per row.
template <class T>
core::Bytes Block<T>::summed_bytes(std::int64_t tokens) const {
  using core::Arena;
  if (parts_.alone()) return {};
  core::Bytes most = Arena::aligned<float>(tokens * config_.hidden);
  most = std::max(most, Arena::aligned<double>(tokens));
  for (const Projection* each : at_.all()) {
    most = std::max(most, Arena::aligned<float>(tokens * each->adapter.rank));
  }
  if (!has_holders()) return most;
  return std::max(most, Arena::aligned<float>(tokens * parts_.kv_heads_of_all * config_.head_dim));
}

template <class T>
double Block<T>::forward_flops(core::BatchShape shape) const {
  const std::int64_t seen = window_ > 0 ? std::min(window_, shape.row()) : shape.row();
  double flops = 4.0 * static_cast<double>(config_.q_width()) * static_cast<double>(seen) *
                 static_cast<double>(shape.tokens());
  for (const Projection* each : at_.all()) flops += each->flops(shape.tokens());
  return flops;
}

template <class T>
void Block<T>::project_qkv(const Pass& pass, const T* input_BTD) const {
  const Kept& kept = pass.kept;
  const bool normed = config_.block.qk_norm != QkNorm::kNone;
  T* const q_BTHd = normed ? kept.raw_q_BTHd : kept.q_BTHd;
  T* const k_BTKd = normed ? kept.raw_k_BTKd : kept.k_BTKd;
  if (!fuses_qkv()) {
    pass.products.forward(at_.q, input_BTD, q_BTHd);
    pass.products.forward(at_.k, input_BTD, k_BTKd);
    pass.products.forward(at_.v, input_BTD, kept.v_BTKd);
    return;
  }
  const core::Arena::Scope scope(pass.work.arena);
  T* const all = pass.work.arena.template take<T>(pass.tokens() * qkv().out);
  pass.products.forward(qkv(), input_BTD, all);
  move_heads(pass, RopeDirection::kForward, {all, q_BTHd, k_BTKd, kept.v_BTKd});
}

template <class T>
kernels::HeadGroups Block<T>::head_groups() const {
  const std::int64_t groups = per_head() ? config_.kv_heads : 1;
  return {groups, config_.heads / groups, config_.kv_heads / groups, config_.head_dim};
}

template <class T>
bool Block<T>::rotates_on_the_way(const Pass& pass) const {
  return fuses_qkv() && config_.block.qk_norm == QkNorm::kNone && pass.sequences.empty();
}

// By one call where positions are all that documents change, else document by document.
template <class T>
template <class Turn>
void Block<T>::for_every_turn(const core::Work& work, const UnitInput& input,
                              const Turn& turn) const {
  if (input.starts_BT != nullptr && input.shape.split.ranks() == 1 && rope_->is_by_position()) {
    kernels::RopeTable table = rope_->get(work, input.shape.row());
    table.starts = input.of_work().starts_BT;
    return turn(table, DocumentRun{0, input.shape, 0, input.shape.row()});
  }
  for_every_run(input, [&](const DocumentRun& run) {
    turn(rope_->get(work, run.length).from(run.position), run);
  });
}

template <class T>
void Block<T>::move_heads(const Pass& pass, RopeDirection direction,
                          const kernels::SplitHeads<T>& at) const {
  const kernels::HeadGroups groups = head_groups();
  const bool forward = direction == RopeDirection::kForward;
  const auto move = [&](const kernels::RopeTable& table, core::BatchShape shape,
                        const kernels::SplitHeads<T>& part) {
    forward ? kernels::split_heads(pass.work, table, shape, groups, part)
            : kernels::join_heads(pass.work, table, shape, groups, part);
  };
  if (rope_ == nullptr || !rotates_on_the_way(pass)) return move({}, pass.shape, at);
  for_every_turn(pass.work, pass.input, [&](const auto& table, const DocumentRun& run) {
    const kernels::SplitHeads<T> part{
        at.all + run.first * qkv().out, at.q + run.first * config_.q_width(),
        at.k + run.first * config_.kv_width(), at.v + run.first * config_.kv_width()};
    if (!forward) scale_queries(pass.work, run.shape, run.position, part.q);
    move(table, run.shape, part);
    if (forward) scale_queries(pass.work, run.shape, run.position, part.q);
  });
}

template <class T>
void Block<T>::norm_queries_and_keys(const Pass& pass) const {
  const Kept& kept = pass.kept;
  const kernels::RowShape queries = q_rows(pass.tokens());
  const kernels::RowShape keys = k_rows(pass.tokens());
  const NormApply<T> of_queries{kept.raw_q_BTHd, weights_of(pass.weights, at_.q_norm), kept.q_rows,
                                kept.q_BTHd};
  const NormApply<T> of_keys{kept.raw_k_BTKd, weights_of(pass.weights, at_.k_norm), kept.k_rows,
                             kept.k_BTKd};
  if (pass.tensor == nullptr || config_.block.qk_norm != QkNorm::kAllHeads) {
    norm_forward(pass.work, norm_, queries, of_queries);
    norm_forward(pass.work, norm_, keys, of_keys);
    return;
  }
  split_rmsnorm_rstd(split_q_rows(pass), norm_.eps, kept.raw_q_BTHd, pass.work, kept.q_rows.rstd);
  split_rmsnorm_rstd(split_k_rows(pass), norm_.eps, kept.raw_k_BTKd, pass.work, kept.k_rows.rstd);
  norm_apply(pass.work, norm_, queries, of_queries);
  norm_apply(pass.work, norm_, keys, of_keys);
}

template <class T>
void Block<T>::apply_rope(const core::Work& work, RopeDirection direction, const UnitInput& input,
                          T* q_BTHd, T* k_BTKd) const {
  if (rope_ == nullptr) return;
  for_every_turn(work, input, [&](const auto& table, const DocumentRun& run) {
    T* const q = q_BTHd + run.first * config_.q_width();
    T* const k = k_BTKd + run.first * config_.kv_width();
    if (direction == RopeDirection::kForward) {
      kernels::rope(work, table, run.shape, config_.heads, q);
      kernels::rope(work, table, run.shape, config_.kv_heads, k);
      scale_queries(work, run.shape, run.position, q);
    } else {
      scale_queries(work, run.shape, run.position, q);
      kernels::rope_inverse(work, table, run.shape, config_.heads, q);
      kernels::rope_inverse(work, table, run.shape, config_.kv_heads, k);
    }
  });
}

template <class T>
void Block<T>::scale_queries(const core::Work& work, core::BatchShape shape, std::int64_t position,
                             T* q_BTHd) const {
  const std::int64_t Q = config_.q_width();
  rope_->for_every_scale(position, shape.seq_len,
                         [&](std::int64_t first, std::int64_t count, float factor) {
                           for (std::int64_t b = 0; b < shape.batch; ++b) {
                             T* const rows = q_BTHd + (b * shape.seq_len + first) * Q;
                             kernels::scale(work, count * Q, factor, rows);
                           }
                         });
}

template <class T>
void Block<T>::attend(const Pass& pass, const T* input_BTD) const {
  const Kept& kept = pass.kept;
  project_qkv(pass, input_BTD);
  if (config_.block.qk_norm != QkNorm::kNone) norm_queries_and_keys(pass);
  if (!pass.sequences.empty()) return attend_cached(pass);
  if (!rotates_on_the_way(pass)) {
    apply_rope(pass.work, RopeDirection::kForward, pass.input, kept.q_BTHd, kept.k_BTKd);
  }
  context_forward<T>(attention_of(pass.input),
                     {.q = kept.q_BTHd,
                      .k = kept.k_BTKd,
                      .v = kept.v_BTKd,
                      .out = kept.attended_BTHd,
                      .logsumexp = kept.logsumexp},
                     {pass.peers, pass.input.starts_BT}, pass.work);
}

template <class T>
void Block<T>::mlp_up(const Pass& pass, const T* input_BTD) const {
  if (fuses_gate_up()) {
    return pass.products.forward(at_.fused_gate_up, input_BTD, pass.kept.gate_BTF);
  }
  if (config_.block.gated) pass.products.forward(at_.gate, input_BTD, pass.kept.gate_BTF);
  pass.products.forward(at_.up, input_BTD, pass.kept.up_BTF);
}

template <class T>
void Block<T>::add_to_residual(const Pass& pass, DropPlace place, const T* x,
                               const ResidualAdd& to) const {
  const Projection& projection = place == DropPlace::kAttentionOutput ? at_.out : at_.down;
  if (to.y_BTD == nullptr || !changes_residual(pass.input)) {
    return pass.products.forward(projection, x, to.y_BTD, to.from_BTD);
  }
  const std::int64_t count = pass.own.count * config_.hidden;
  pass.products.forward(projection, x, to.free_BTD);
  change_residual(pass, place, to.free_BTD);
  if (to.from_BTD != to.y_BTD) kernels::copy(pass.work, count, to.from_BTD, to.y_BTD);
  kernels::add_bias(pass.work, {1, count}, to.free_BTD, to.y_BTD);
}

template <class T>
void Block<T>::mlp_down(const Pass& pass, const ResidualAdd& to) const {
  if (to.y_BTD == nullptr && at_.down.adapter.rank == 0) return;
  const core::Arena::Scope scope(pass.work.arena);
  const std::int64_t wide = pass.tokens() * config_.ffn;
  T* const product_BTF = pass.work.arena.template take<T>(wide);
  const kernels::Activation kind = config_.block.activation;
  if (config_.block.gated) {
    kernels::glu_rows(pass.work, kind, gated_rows(pass.tokens()), pass.kept.gate_BTF,
                      pass.kept.up_BTF, product_BTF);
  } else {
    kernels::activate(pass.work, kind, wide, pass.kept.up_BTF, product_BTF);
  }
  if (to.from_BTD == nullptr) return pass.products.forward(at_.down, product_BTF, to.y_BTD);
  add_to_residual(pass, DropPlace::kMlpOutput, product_BTF, to);
}

template <class T>
const T* Block<T>::all_rows(const Pass& pass, const T* x_BTD, T* all_BTD) const {
  if (!pass.own.some()) return x_BTD;
  const std::int64_t D = config_.hidden;
  kernels::copy(pass.work, pass.own.count * D, x_BTD, pass.own_rows(all_BTD, D));
  pass.gather(all_BTD, D);
  return all_BTD;
}

template <class T>
void Block<T>::add_normed(const Pass& pass, DropPlace place, T* free_BTD, T* y_BTD) const {
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  const bool first = place == DropPlace::kAttentionOutput;
  const T* const x_BTD = first ? pass.kept.attention_BTD : pass.kept.mlp_BTD;
  const NormRows& kept = first ? pass.kept.after1 : pass.kept.after2;
  norm_rows(pass.work, norm_, rows, x_BTD, kept);
  if (y_BTD == nullptr) return;
  norm_apply<T>(pass.work, norm_, rows,
                {x_BTD, weights_of(pass.weights, first ? at_.after1 : at_.after2), kept, free_BTD});
  if (changes_residual(pass.input)) change_residual(pass, place, free_BTD);
  kernels::add_bias(pass.work, {1, rows.rows * rows.width}, free_BTD, y_BTD);
}

template <class T>
void Block<T>::forward_sequential(const Pass& pass, T* normed_BTD, T* y_BTD) const {
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  const std::int64_t count = rows.rows * rows.width;
  const Kept& kept = pass.kept;
  if (norms_after()) {
    kernels::copy(pass.work, count, pass.x_BTD, kept.x_mid_BTD);
    pass.products.forward(at_.out, kept.attended_BTHd, kept.attention_BTD);
    add_normed(pass, DropPlace::kAttentionOutput, normed_BTD, kept.x_mid_BTD);
  } else {
    add_to_residual(pass, DropPlace::kAttentionOutput, kept.attended_BTHd,
                    {pass.x_BTD, kept.x_mid_BTD, normed_BTD});
  }
  if (norms_before()) {
    norm_forward<T>(pass.work, norm_, rows,
                    {kept.x_mid_BTD, weights_of(pass.weights, at_.norm2), kept.rows2,
                     pass.own_rows(normed_BTD, rows.width)});
    pass.gather(normed_BTD, rows.width);
    mlp_up(pass, normed_BTD);
  } else {
    mlp_up(pass, all_rows(pass, kept.x_mid_BTD, normed_BTD));
  }
  if (!norms_after()) return mlp_down(pass, {kept.x_mid_BTD, y_BTD, normed_BTD});
  if (y_BTD != nullptr) kernels::copy(pass.work, count, kept.x_mid_BTD, y_BTD);
  mlp_down(pass, {.y_BTD = kept.mlp_BTD});
  add_normed(pass, DropPlace::kMlpOutput, normed_BTD, y_BTD);
}

// `normed_BTD`: norm1 of the input.
template <class T>
void Block<T>::forward_parallel(const Pass& pass, T* normed_BTD, T* y_BTD) const {
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  if (has_norm2()) {
    norm_forward<T>(pass.work, norm_, rows,
                    {pass.x_BTD, weights_of(pass.weights, at_.norm2), pass.kept.rows2,
                     pass.own_rows(normed_BTD, rows.width)});
    pass.gather(normed_BTD, rows.width);
  }
  mlp_up(pass, normed_BTD);
  add_to_residual(pass, DropPlace::kAttentionOutput, pass.kept.attended_BTHd,
                  {pass.x_BTD, y_BTD, normed_BTD});
  mlp_down(pass, {y_BTD, y_BTD, normed_BTD});
}

template <class T>
void Block<T>::run(const Pass& pass, T* y_BTD) const {
  const core::Arena::Scope scope(pass.work.arena);
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  T* const normed_BTD = pass.work.arena.template take<T>(pass.tokens() * rows.width);
  if (!norms_before()) {
    attend(pass, all_rows(pass, pass.x_BTD, normed_BTD));
    forward_sequential(pass, normed_BTD, y_BTD);
    return;
  }
  norm_forward<T>(pass.work, norm_, rows,
                  {pass.x_BTD, weights_of(pass.weights, at_.norm1), pass.kept.rows1,
                   pass.own_rows(normed_BTD, rows.width)});
  pass.gather(normed_BTD, rows.width);
  attend(pass, normed_BTD);
  if (parallel()) {
    forward_parallel(pass, normed_BTD, y_BTD);
  } else {
    forward_sequential(pass, normed_BTD, y_BTD);
  }
}

template <class T>
void Block<T>::forward(const UnitCall& call, void* output_BTD) const {
  run(Pass(*this, call), static_cast<T*>(output_BTD));
}

template <class T>
void Block<T>::decode(const UnitCall& call, std::span<const CachedSequence> sequences,
                      void* output_ND) const {
  run(Pass(*this, call, sequences), static_cast<T*>(output_ND));
}

template class Block<float>;
template class Block<core::Bf16>;
template class Block<core::F16>;

// Decoding: attention with a cache. The rest of a block is the same as in forward
// (model/units/block.cc).
template <class T>
kernels::CachedShape Block<T>::cached_shape() const {
  return {.heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .window = window_,
          .scale = static_cast<float>(config_.attention_scale),
          .softcap = static_cast<float>(config_.attention_softcap)};
}

template <class T>
UnitSizes Block<T>::decode_sizes(std::int64_t tokens, std::int64_t positions, int threads) const {
  UnitSizes all = sizes({.batch = 1, .seq_len = tokens}, threads);
  all.scratch += kernels::cached_scratch(cached_shape(), positions, threads);
  return all;
}

template <class T>
void Block<T>::attend_cached(const Pass& pass) const {
  const Kept& kept = pass.kept;
  const std::int64_t Q = config_.q_width();
  const std::int64_t K = config_.kv_width();
  std::int64_t row = 0;
  for (const CachedSequence& each : pass.sequences) {
    FM_CHECK(each.cache != nullptr && each.position + each.count <= each.capacity, each.count,
             " tokens behind ", each.position, " do not fit a cache of ", each.capacity);
    FM_CHECK(each.count > 0 && row + each.count <= pass.tokens(), "sequences with ",
             row + each.count, " tokens share a call of ", pass.tokens());
    T* const q_THd = kept.q_BTHd + row * Q;
    T* const k_TKd = kept.k_BTKd + row * K;
    const T* const v_TKd = kept.v_BTKd + row * K;
    const core::BatchShape shape{.batch = 1, .seq_len = each.count};
    if (rope_ != nullptr) {
      kernels::RopeTable table = rope_->get(pass.work, each.position + each.count);
      table.cos += each.position * table.half_dim;
      table.sin += each.position * table.half_dim;
      kernels::rope(pass.work, table, shape, config_.heads, q_THd);
      kernels::rope(pass.work, table, shape, config_.kv_heads, k_TKd);
      scale_queries(pass.work, shape, each.position, q_THd);
    }
    T* const keys = static_cast<T*>(each.cache) + each.position * K;
    kernels::copy(pass.work, each.count * K, k_TKd, keys);
    kernels::copy(pass.work, each.count * K, v_TKd, keys + each.capacity * K);
    T* const out_THd = kept.attended_BTHd + row * Q;
    if (each.position == 0 && each.count > 1) {  // a whole row, as in training
      kernels::attention_forward<T>(pass.work, attention_of({.shape = shape}),
                                    {.q = q_THd,
                                     .k = k_TKd,
                                     .v = v_TKd,
                                     .out = out_THd,
                                     .logsumexp = kept.logsumexp + row * config_.heads});
    } else {
      kernels::attention_cached<T>(pass.work, cached_shape(), each, q_THd, out_THd);
    }
    row += each.count;
  }
}

template kernels::CachedShape Block<float>::cached_shape() const;
template kernels::CachedShape Block<core::Bf16>::cached_shape() const;
template kernels::CachedShape Block<core::F16>::cached_shape() const;
template UnitSizes Block<float>::decode_sizes(std::int64_t, std::int64_t, int) const;
template UnitSizes Block<core::Bf16>::decode_sizes(std::int64_t, std::int64_t, int) const;
template UnitSizes Block<core::F16>::decode_sizes(std::int64_t, std::int64_t, int) const;
template void Block<float>::attend_cached(const Pass&) const;
template void Block<core::Bf16>::attend_cached(const Pass&) const;
template void Block<core::F16>::attend_cached(const Pass&) const;

// The bytes that a block sends to tensor-parallel ranks: by each sum and gather of block.cc,
// block_backward.cc, products.h and split_norm.h.
template <class T>
UnitSizes::ToTensorPeers Block<T>::sent_to_tensor_peers(std::int64_t tokens) const {
  const auto traffic = [this] { return TensorTraffic(parts_.share.count); };
  TensorTraffic forward = traffic();
  TensorTraffic output = traffic();
  TensorTraffic input = traffic();
  TensorTraffic weight = traffic();
  const std::int64_t rows = tokens * config_.hidden;
  const int norms = has_norm2() ? 2 : 1;
  const bool split = splits_tokens();

  // Row-parallel products. Recomputation without an output skips that of down, and that of
  // attention's output where both are added to the output directly.
  TensorTraffic& of_attention = parallel() ? output : forward;
  TensorTraffic& of_mlp = norms_after() ? forward : output;
  of_attention.sum<float>(rows, split);
  of_mlp.sum<float>(rows, split);
  // The input gradients of column-parallel products.
  input.sum<float>(norms * rows, split);
  for (const Projection* each : at_.all()) {
    const std::int64_t low = tokens * each->adapter.rank;
    if (each->split == Split::kInputs) forward.sum<float>(low);
    if (each->split == Split::kOutputs) input.sum<float>(low);
  }
  if (split) {  // gathers of the inputs of products, and of their output gradients
    forward.gather<T>(norms * rows);
    input.gather<T>(2 * rows);
    weight.gather<T>(norms * rows);
    for (const NormPlaceAt* norm : {&at_.norm1, &at_.norm2, &at_.after1, &at_.after2}) {
      if (norm->weight.there()) input.sum<float>(config_.hidden);
      if (norm->bias.there()) input.sum<float>(config_.hidden);
    }
  }
  if (config_.block.qk_norm == QkNorm::kAllHeads) {
    forward.sum<double>(2 * tokens);
    input.sum<double>(2 * tokens);
  }
  if (config_.block.qk_norm == QkNorm::kPerHead) {
    const std::int64_t width = q_rows(1).width + k_rows(1).width;
    input.sum<float>(at_.q_norm.bias.there() ? 2 * width : width);
  }
  if (has_holders()) {  // gradients of keys and values that several ranks hold
    input.sum<float>(2 * tokens * parts_.kv_heads_of_all * config_.head_dim);
  }
  return {forward.sent(), output.sent(), input.sent(), weight.sent()};
}

template UnitSizes::ToTensorPeers Block<float>::sent_to_tensor_peers(std::int64_t) const;
template UnitSizes::ToTensorPeers Block<core::Bf16>::sent_to_tensor_peers(std::int64_t) const;
template UnitSizes::ToTensorPeers Block<core::F16>::sent_to_tensor_peers(std::int64_t) const;

}  // namespace fm::model
