// The two halves of a block's backward pass; the forward pass is in block.cc.
#include "core/check.h"
#include "core/element.h"
#include "model/units/block_memory.h"

namespace fm::model {

template <class T>
void Block<T>::park_norms(const Pass& pass) const {
  const Parked& parked = pass.parked;
  const auto park = [&](const NormPlaceAt& place, T* weight_D, T* bias_D) {
    const NormWeights<T> from = weights_of(pass.weights, place);
    if (weight_D != nullptr) kernels::copy(pass.work, config_.hidden, from.weight, weight_D);
    if (bias_D != nullptr) kernels::copy(pass.work, config_.hidden, from.bias, bias_D);
  };
  park(at_.norm1, parked.weight1_D, parked.bias1_D);
  park(at_.norm2, parked.weight2_D, parked.bias2_D);
}

template <class T>
void Block<T>::clear_sums(const Pass& pass, const NormSums& sums, std::int64_t width) const {
  kernels::clear(pass.work, width, sums.weight);
  if (sums.bias != nullptr) kernels::clear(pass.work, width, sums.bias);
}

template <class T>
void Block<T>::sum_norm(const Pass& pass, const NormSums& sums) const {
  if (!pass.own.some()) return;
  sum_over(pass.work, pass.tensor, config_.hidden, sums.weight);
  if (sums.bias != nullptr) sum_over(pass.work, pass.tensor, config_.hidden, sums.bias);
}

template <class T>
const T* Block<T>::dout_of_attention(const Pass& pass) const {
  if (norms_after() || changes_residual(pass.input) || splits_tokens()) {
    return pass.parked.dattention_BTD;
  }
  return parallel() ? pass.parked.dy_BTD : pass.parked.dx_mid_BTD;
}

template <class T>
const T* Block<T>::dout_of_mlp(const Pass& pass) const {
  const bool as_it_is = !norms_after() && !changes_residual(pass.input) && !splits_tokens();
  return as_it_is ? pass.parked.dy_BTD : pass.parked.dmlp_BTD;
}

// The backward pass of a post-norm; its dy has the model's element type.
template <class T>
void Block<T>::backward_norm_after(const Pass& pass, DropPlace place, const T* dy_BTD,
                                   NormBackward<T> arrays) const {
  const core::Arena::Scope scope(pass.work.arena);
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  float* const wide_BTD = pass.work.arena.template take<float>(rows.rows * rows.width);
  convert(pass.work, rows.rows * rows.width, dy_BTD, wide_BTD);
  if (changes_residual(pass.input)) change_residual(pass, place, wide_BTD);
  clear_sums(pass, arrays.sums, rows.width);
  arrays.dy = wide_BTD;
  norm_backward(pass.work, norm_, rows, arrays);
  sum_norm(pass, arrays.sums);
}

template <class T>
void Block<T>::differentiate_mlp(const Pass& pass) const {
  const std::int64_t wide = pass.tokens() * config_.ffn;
  const Kept& kept = pass.kept;
  const Parked& parked = pass.parked;
  const kernels::Activation kind = config_.block.activation;
  if (config_.block.gated) {
    const kernels::GatedShape shape = gated_rows(pass.tokens());
    T* const dproduct_BTF = parked.dgate_BTF;  // until dgate overwrites it
    pass.products.input(at_.down, dout_of_mlp(pass),
                        kernels::Target<T>{dproduct_BTF, shape.stride});
    kernels::glu_rows_backward<T>(pass.work, kind, shape,
                                  {.gate = kept.gate_BTF,
                                   .up = kept.up_BTF,
                                   .dy = dproduct_BTF,
                                   .dgate = parked.dgate_BTF,
                                   .dup = parked.dup_BTF,
                                   .y = kept.up_BTF});
  } else {
    T* const dproduct_BTF = parked.dup_BTF;
    pass.products.input(at_.down, dout_of_mlp(pass), dproduct_BTF);
    kernels::activate_backward<T>(
        pass.work, kind, wide,
        {.x = kept.up_BTF, .dy = dproduct_BTF, .dx = parked.dup_BTF, .y = kept.up_BTF});
  }
}

template <class T>
void Block<T>::backward_mlp(const Pass& pass, float* shared_BTD) const {
  const core::Arena::Scope scope(pass.work.arena);
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  const std::int64_t count = rows.rows * rows.width;
  const Kept& kept = pass.kept;
  const Parked& parked = pass.parked;
  if (norms_after()) {
    backward_norm_after(pass, DropPlace::kMlpOutput, parked.dy_BTD,
                        {.x = kept.mlp_BTD,
                         .weights = weights_of(pass.weights, at_.after2),
                         .kept = kept.after2,
                         .dx = pass.own_rows(parked.dmlp_BTD, rows.width),
                         .sums = parked.after2});
  } else if (changes_residual(pass.input) || splits_tokens()) {
    T* const own_BTD = pass.own_rows(parked.dmlp_BTD, rows.width);
    kernels::copy(pass.work, count, parked.dy_BTD, own_BTD);
    change_residual(pass, DropPlace::kMlpOutput, own_BTD);
  }
  if (splits_tokens()) pass.gather(parked.dmlp_BTD, rows.width);
  differentiate_mlp(pass);
  float* const dnormed_BTD = shared_BTD != nullptr
                                 ? shared_BTD
                                 : pass.work.arena.template take<float>(pass.tokens() * rows.width);
  if (fuses_gate_up()) {
    pass.products.input(at_.fused_gate_up, parked.dgate_BTF, dnormed_BTD);
  } else if (config_.block.gated) {
    pass.products.input(at_.gate, parked.dgate_BTF, dnormed_BTD);
    pass.products.input(at_.up, parked.dup_BTF, dnormed_BTD, Beta::kOne);
  } else {
    pass.products.input(at_.up, parked.dup_BTF, dnormed_BTD);
  }
  if (!has_norm2()) return;
  const float* const own_BTD =
      sum_tokens(pass.work, pass.tensor, pass.own, rows.width, dnormed_BTD);
  if (!norms_before()) {
    kernels::add_residual(pass.work, count, own_BTD, parked.dy_BTD, parked.dx_mid_BTD);
    return;
  }
  clear_sums(pass, parked.norm2, rows.width);
  norm_backward<T>(pass.work, norm_, rows,
                   {.x = parallel() ? pass.x_BTD : kept.x_mid_BTD,
                    .weights = weights_of(pass.weights, at_.norm2),
                    .kept = kept.rows2,
                    .dy = own_BTD,
                    .residual = parked.dy_BTD,
                    .dx = parked.dx_mid_BTD,
                    .sums = parked.norm2});
  sum_norm(pass, parked.norm2);
}

template <class T>
void Block<T>::backward_qk_norm(const Pass& pass, T* dq_BTHd, T* dk_BTKd) const {
  const core::Arena::Scope scope(pass.work.arena);
  float* const wide = pass.work.arena.template take<float>(pass.tokens() * config_.q_width());
  const bool split = pass.tensor != nullptr && config_.block.qk_norm == QkNorm::kAllHeads;
  const auto backward = [&](const SplitRows& part, T* dx, NormBackward<T> arrays) {
    const kernels::RowShape rows = part.shape;
    convert(pass.work, rows.rows * rows.width, dx, wide);
    clear_sums(pass, arrays.sums, rows.width);
    arrays.dy = wide;
    arrays.dx = dx;
    if (split) return split_rmsnorm_backward(part, arrays, pass.work);
    norm_backward(pass.work, norm_, rows, arrays);
    if (pass.tensor == nullptr) return;
    if (!part.counts) clear_sums(pass, arrays.sums, rows.width);
    sum_over(pass.work, pass.tensor, rows.width, arrays.sums.weight);
    if (arrays.sums.bias != nullptr) sum_over(pass.work, pass.tensor, rows.width, arrays.sums.bias);
  };
  backward(split_q_rows(pass), dq_BTHd,
           {.x = pass.kept.raw_q_BTHd,
            .weights = weights_of(pass.weights, at_.q_norm),
            .kept = pass.kept.q_rows,
            .sums = pass.parked.q_norm});
  backward(split_k_rows(pass), dk_BTKd,
           {.x = pass.kept.raw_k_BTKd,
            .weights = weights_of(pass.weights, at_.k_norm),
            .kept = pass.kept.k_rows,
            .sums = pass.parked.k_norm});
}

template <class T>
void Block<T>::backward_attention(const Pass& pass, T* dq_BTHd, T* dk_BTKd, T* dv_BTKd) const {
  const core::Arena::Scope scope(pass.work.arena);
  const Kept& kept = pass.kept;
  T* const dattended_BTHd = pass.work.arena.template take<T>(pass.tokens() * config_.q_width());
  pass.products.input(at_.out, dout_of_attention(pass), dattended_BTHd);
  context_backward<T>(attention_of(pass.input),
                      {.q = kept.q_BTHd,
                       .k = kept.k_BTKd,
                       .v = kept.v_BTKd,
                       .out = kept.attended_BTHd,
                       .logsumexp = kept.logsumexp,
                       .dout = dattended_BTHd,
                       .dq = dq_BTHd,
                       .dk = dk_BTKd,
                       .dv = dv_BTKd},
                      {pass.peers, pass.input.starts_BT}, pass.work);
  if (rotates_on_the_way(pass)) return;
  apply_rope(pass.work, RopeDirection::kInverse, pass.input, dq_BTHd, dk_BTKd);
  if (pass.tensor == nullptr || !has_holders()) return;
  sum_of_holders(pass, dk_BTKd);
  sum_of_holders(pass, dv_BTKd);
}

// Sums over all ranks, with separate columns for every head.
template <class T>
void Block<T>::sum_of_holders(const Pass& pass, T* dk_BTKd) const {
  const core::Arena::Scope scope(pass.work.arena);
  const std::int64_t d = config_.head_dim;
  const kernels::RowShape rows{pass.tokens(), config_.kv_width()};
  const std::int64_t all = parts_.kv_heads_of_all * d;
  float* const sums = pass.work.arena.template take<float>(rows.rows * all);
  float* const mine = sums + parts_.kv_heads.first * d;
  kernels::clear(pass.work, rows.rows * all, sums);
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    convert(pass.work, rows.width, dk_BTKd + row * rows.width, mine + row * all);
  }
  sum_over(pass.work, pass.tensor, rows.rows * all, sums);
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    convert(pass.work, rows.width, mine + row * all, dk_BTKd + row * rows.width);
  }
}

template <class T>
void Block<T>::backward_heads(const Pass& pass) const {
  const core::Arena::Scope scope(pass.work.arena);
  const Parked& parked = pass.parked;
  T* const own_BTD = pass.own_rows(parked.dattention_BTD, config_.hidden);
  if (norms_after()) {
    backward_norm_after(pass, DropPlace::kAttentionOutput, parked.dx_mid_BTD,
                        {.x = pass.kept.attention_BTD,
                         .weights = weights_of(pass.weights, at_.after1),
                         .kept = pass.kept.after1,
                         .dx = own_BTD,
                         .sums = parked.after1});
  } else if (changes_residual(pass.input) || splits_tokens()) {
    kernels::copy(pass.work, pass.own.count * config_.hidden,
                  parallel() ? parked.dy_BTD : parked.dx_mid_BTD, own_BTD);
    change_residual(pass, DropPlace::kAttentionOutput, own_BTD);
  }
  if (splits_tokens()) pass.gather(parked.dattention_BTD, config_.hidden);
  kernels::SplitHeads<T> d{parked.dqkv, parked.dq_BTHd, parked.dk_BTKd, parked.dv_BTKd};
  if (fuses_qkv()) {
    d.q = pass.work.arena.template take<T>(pass.tokens() * config_.q_width());
    d.k = pass.work.arena.template take<T>(pass.tokens() * config_.kv_width());
    d.v = pass.work.arena.template take<T>(pass.tokens() * config_.kv_width());
  }
  backward_attention(pass, d.q, d.k, d.v);
  if (config_.block.qk_norm != QkNorm::kNone) backward_qk_norm(pass, d.q, d.k);
  if (fuses_qkv()) move_heads(pass, RopeDirection::kInverse, d);
}

template <class T>
void Block<T>::backward_input(const UnitCall& call, void* doutput_BTD, void* dinput_BTD) const {
  FM_CHECK(call.saved.parked != nullptr && doutput_BTD != nullptr && doutput_BTD != dinput_BTD,
           "a block takes the gradient of its output apart from that of its input, and parks what "
           "the gradients of its weights follow from");
  const core::Arena::Scope scope(call.work.arena);
  const Pass pass(*this, call);
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  const std::int64_t count = rows.rows * rows.width;
  const Parked& parked = pass.parked;
  kernels::copy(pass.work, count, static_cast<const T*>(doutput_BTD), parked.dy_BTD);
  park_norms(pass);
  const std::int64_t all = pass.tokens() * rows.width;
  float* const shared_BTD = has_norm2() ? nullptr : pass.work.arena.template take<float>(all);
  backward_mlp(pass, shared_BTD);
  backward_heads(pass);

  float* const dnormed_BTD =
      shared_BTD != nullptr ? shared_BTD : pass.work.arena.template take<float>(all);
  const Beta first = shared_BTD != nullptr ? Beta::kOne : Beta::kZero;
  if (fuses_qkv()) {
    pass.products.input(qkv(), parked.dqkv, dnormed_BTD, first);
  } else {
    pass.products.input(at_.q, parked.dq_BTHd, dnormed_BTD, first);
    pass.products.input(at_.k, parked.dk_BTKd, dnormed_BTD, Beta::kOne);
    pass.products.input(at_.v, parked.dv_BTKd, dnormed_BTD, Beta::kOne);
  }
  const float* const own_BTD =
      sum_tokens(pass.work, pass.tensor, pass.own, rows.width, dnormed_BTD);
  T* const dx_BTD = static_cast<T*>(dinput_BTD != nullptr ? dinput_BTD : doutput_BTD);
  if (!norms_before()) {
    kernels::add_residual(pass.work, count, own_BTD, parked.dx_mid_BTD, dx_BTD);
    return;
  }
  clear_sums(pass, parked.norm1, rows.width);
  norm_backward<T>(pass.work, norm_, rows,
                   {.x = pass.x_BTD,
                    .weights = weights_of(pass.weights, at_.norm1),
                    .kept = pass.kept.rows1,
                    .dy = own_BTD,
                    .residual = parked.dx_mid_BTD,
                    .dx = dx_BTD,
                    .sums = parked.norm1});
  sum_norm(pass, parked.norm1);
}

template <class T>
void Block<T>::write_norms(const Pass& pass) const {
  const auto write = [&](const NormPlaceAt& place, const NormSums& sums, std::int64_t width) {
    const Products<T>& to = pass.products;
    if (place.weight.trained()) {
      write_vector(pass.work, width, sums.weight, to.gradients + place.weight.offset, to.write);
    }
    if (!place.bias.trained()) return;
    write_vector(pass.work, width, sums.bias, to.gradients + place.bias.offset, to.write);
  };
  write(at_.norm1, pass.parked.norm1, config_.hidden);
  write(at_.norm2, pass.parked.norm2, config_.hidden);
  write(at_.after1, pass.parked.after1, config_.hidden);
  write(at_.after2, pass.parked.after2, config_.hidden);
  if (config_.block.qk_norm == QkNorm::kNone) return;
  write(at_.q_norm, pass.parked.q_norm, q_rows(1).width);
  write(at_.k_norm, pass.parked.k_norm, k_rows(1).width);
}

template <class T>
void Block<T>::backward_weight(const UnitCall& call, const Gradients& gradients,
                               Write write) const {
  FM_CHECK(call.saved.parked != nullptr, "no gradient of a block's input was parked");
  FM_CHECK(gradients.own != nullptr || tables_.own.entries().empty(), "a block of ",
           tables_.own.entries().size(), " parameters is trained at no address");
  const core::Arena::Scope scope(call.work.arena);
  Pass pass(*this, call);
  pass.products.gradients = gradients.own;
  pass.products.write = write;
  const Products<T>& products = pass.products;
  const kernels::RowShape rows{pass.own.count, config_.hidden};
  const Kept& kept = pass.kept;
  const Parked& parked = pass.parked;
  T* const normed_BTD = pass.work.arena.template take<T>(pass.tokens() * rows.width);
  T* const own_BTD = pass.own_rows(normed_BTD, rows.width);
  const NormApply<T> norm1{pass.x_BTD, {parked.weight1_D, parked.bias1_D}, kept.rows1, own_BTD};
  const NormApply<T> norm2{parallel() ? pass.x_BTD : kept.x_mid_BTD,
                           {parked.weight2_D, parked.bias2_D},
                           kept.rows2,
                           own_BTD};
  const auto norm_all = [&](const NormApply<T>& norm) {
    norm_apply(pass.work, norm_, rows, norm);
    pass.gather(normed_BTD, rows.width);
  };

  products.weight(at_.down, dout_of_mlp(pass), {kept.up_BTF, gated_rows(1).stride});
  if (norms_before()) norm_all(has_norm2() ? norm2 : norm1);
  const T* const mlp_input =
      norms_before() ? normed_BTD : all_rows(pass, kept.x_mid_BTD, normed_BTD);
  if (fuses_gate_up()) {
    products.weight(at_.fused_gate_up, parked.dgate_BTF, {mlp_input, rows.width});
  } else {
    if (config_.block.gated) products.weight(at_.gate, parked.dgate_BTF, {mlp_input, rows.width});
    products.weight(at_.up, parked.dup_BTF, {mlp_input, rows.width});
  }
  products.weight(at_.out, dout_of_attention(pass), {kept.attended_BTHd, config_.q_width()});

  if (norms_before() && has_norm2()) norm_all(norm1);
  const T* const input = norms_before() ? normed_BTD : all_rows(pass, pass.x_BTD, normed_BTD);
  if (fuses_qkv()) {
    products.weight(qkv(), parked.dqkv, {input, rows.width});
  } else {
    products.weight(at_.q, parked.dq_BTHd, {input, rows.width});
    products.weight(at_.k, parked.dk_BTKd, {input, rows.width});
    products.weight(at_.v, parked.dv_BTKd, {input, rows.width});
  }
  write_norms(pass);
}

template void Block<float>::backward_input(const UnitCall&, void*, void*) const;
template void Block<float>::backward_weight(const UnitCall&, const Gradients&, Write) const;
template void Block<core::Bf16>::backward_input(const UnitCall&, void*, void*) const;
template void Block<core::Bf16>::backward_weight(const UnitCall&, const Gradients&, Write) const;
template void Block<core::F16>::backward_input(const UnitCall&, void*, void*) const;
template void Block<core::F16>::backward_weight(const UnitCall&, const Gradients&, Write) const;

}  // namespace fm::model
