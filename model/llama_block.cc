#include "model/llama_block.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "kernels/pointwise/elements.h"
#include "model/carver.h"
#include "model/linear.h"

namespace fm::model {
namespace {

using core::ParamKind;

core::ParamTable make_table(const LlamaConfig& config, std::int64_t layer,
                            const core::NoDecay& no_decay) {
  const std::int64_t D = config.hidden;
  const std::int64_t q_width = config.heads * config.head_dim;
  const std::int64_t kv_width = config.kv_heads * config.head_dim;
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  std::vector<core::ParamEntry> entries;
  const auto declare = [&](const char* name, std::vector<std::int64_t> shape, ParamKind kind,
                           int split_dim = -1) {
    entries.push_back({.name = prefix + name + ".weight",
                       .shape = std::move(shape),
                       .kind = kind,
                       .split_dim = split_dim});
  };
  declare("input_layernorm", {D}, ParamKind::kNorm);
  declare("self_attn.q_proj", {q_width, D}, ParamKind::kMatrix, 0);
  declare("self_attn.k_proj", {kv_width, D}, ParamKind::kMatrix, 0);
  declare("self_attn.v_proj", {kv_width, D}, ParamKind::kMatrix, 0);
  declare("self_attn.o_proj", {D, q_width}, ParamKind::kMatrix, 1);
  declare("post_attention_layernorm", {D}, ParamKind::kNorm);
  declare("mlp.gate_proj", {config.ffn, D}, ParamKind::kMatrix, 0);
  declare("mlp.up_proj", {config.ffn, D}, ParamKind::kMatrix, 0);
  declare("mlp.down_proj", {D, config.ffn}, ParamKind::kMatrix, 1);
  return {std::move(entries), no_decay};
}

std::int64_t offset_of(const core::ParamTable& table, std::string_view module) {
  for (const core::ParamEntry& entry : table.entries()) {
    if (entry.name.ends_with(std::string(module) + ".weight")) return entry.offset.count();
  }
  FM_CHECK(false, "no parameter of module ", module);
}

}  // namespace

// What forward leaves for backward. In the names: F the width of the MLP, H query heads and K key
// and value heads of d elements; logsumexp, of B T H, has an order of its own (model/attention.h).
// backward_input leaves SwiGLU's product in the place of `up`.
template <class T>
struct LlamaBlock<T>::Kept {
  float *rstd1_BT, *rstd2_BT, *logsumexp;
  T *q_BTHd, *k_BTKd, *v_BTKd, *attended_BTHd, *x_mid_BTD, *gate_BTF, *up_BTF;
  core::Bytes bytes;

  Kept(const Shapes& shapes, std::int64_t heads, void* base) {
    const std::int64_t N = shapes.q.tokens;
    Carver carver(base);
    rstd1_BT = carver.take<float>(N);
    q_BTHd = carver.take<T>(N * shapes.q.out);
    k_BTKd = carver.take<T>(N * shapes.kv.out);
    v_BTKd = carver.take<T>(N * shapes.kv.out);
    attended_BTHd = carver.take<T>(N * shapes.o.in);
    logsumexp = carver.take<float>(N * heads);
    x_mid_BTD = carver.take<T>(N * shapes.o.out);
    rstd2_BT = carver.take<float>(N);
    gate_BTF = carver.take<T>(N * shapes.up.out);
    up_BTF = carver.take<T>(N * shapes.up.out);
    bytes = carver.used();
  }
};

// What backward_input leaves for backward_weight.
template <class T>
struct LlamaBlock<T>::Parked {
  T *dy_BTD, *dgate_BTF, *dup_BTF, *dx_mid_BTD, *dq_BTHd, *dk_BTKd, *dv_BTKd;
  float *dnorm1_D, *dnorm2_D;
  T *norm1_D, *norm2_D;  // weights: backward_weight is done without the block's
  core::Bytes bytes;

  Parked(const Shapes& shapes, void* base) {
    const std::int64_t N = shapes.q.tokens;
    const std::int64_t D = shapes.q.in;
    Carver carver(base);
    dy_BTD = carver.take<T>(N * D);
    dgate_BTF = carver.take<T>(N * shapes.up.out);
    dup_BTF = carver.take<T>(N * shapes.up.out);
    dx_mid_BTD = carver.take<T>(N * D);
    dq_BTHd = carver.take<T>(N * shapes.q.out);
    dk_BTKd = carver.take<T>(N * shapes.kv.out);
    dv_BTKd = carver.take<T>(N * shapes.kv.out);
    dnorm1_D = carver.take<float>(D);
    dnorm2_D = carver.take<float>(D);
    norm1_D = carver.take<T>(D);
    norm2_D = carver.take<T>(D);
    bytes = carver.used();
  }
};

template <class T>
LlamaBlock<T>::LlamaBlock(const LlamaConfig& config, std::int64_t layer,
                          const core::NoDecay& no_decay, std::shared_ptr<RopeTables> rope)
    : config_(config), params_(make_table(config, layer, no_decay)), rope_(std::move(rope)) {
  at_ = {.norm1 = offset_of(params_, ".input_layernorm"),
         .q = offset_of(params_, ".q_proj"),
         .k = offset_of(params_, ".k_proj"),
         .v = offset_of(params_, ".v_proj"),
         .o = offset_of(params_, ".o_proj"),
         .norm2 = offset_of(params_, ".post_attention_layernorm"),
         .gate = offset_of(params_, ".gate_proj"),
         .up = offset_of(params_, ".up_proj"),
         .down = offset_of(params_, ".down_proj")};
}

template <class T>
typename LlamaBlock<T>::Shapes LlamaBlock<T>::shapes_of(core::BatchShape shape) const {
  const std::int64_t N = shape.tokens();
  const std::int64_t D = config_.hidden;
  const std::int64_t q_width = config_.heads * config_.head_dim;
  const std::int64_t kv_width = config_.kv_heads * config_.head_dim;
  return {.q = {N, D, q_width},
          .kv = {N, D, kv_width},
          .o = {N, q_width, D},
          .up = {N, D, config_.ffn},
          .down = {N, config_.ffn, D}};
}

template <class T>
AttentionShape LlamaBlock<T>::attention_of(core::BatchShape shape) const {
  return {shape, config_.heads, config_.kv_heads, config_.head_dim};
}

template <class T>
UnitSizes LlamaBlock<T>::sizes(core::BatchShape shape) const {
  const Shapes shapes = shapes_of(shape);
  const std::int64_t N = shape.tokens();
  using core::Arena;
  const core::Bytes normed = Arena::aligned<T>(N * config_.hidden);
  const core::Bytes dnormed = Arena::aligned<float>(N * config_.hidden);
  const AttentionScratch attention = attention_scratch<T>(attention_of(shape));
  return {.input = core::Bytes(N * config_.hidden * static_cast<std::int64_t>(sizeof(T))),
          .kept = Kept(shapes, config_.heads, nullptr).bytes,
          .parked = Parked(shapes, nullptr).bytes,
          .scratch = std::max({dnormed, normed + Arena::aligned<T>(N * config_.ffn),
                               normed + attention.forward,
                               Arena::aligned<T>(N * shapes.q.out) + attention.backward})};
}

template <class T>
double LlamaBlock<T>::forward_flops(core::BatchShape shape) const {
  const Shapes shapes = shapes_of(shape);
  const double scores = 4.0 * static_cast<double>(shapes.q.out) *
                        static_cast<double>(shape.seq_len) * static_cast<double>(shape.tokens());
  return shapes.q.flops() + 2.0 * shapes.kv.flops() + shapes.o.flops() + 2.0 * shapes.up.flops() +
         shapes.down.flops() + scores;
}

template <class T>
void LlamaBlock<T>::forward_attention(const T* weights, core::BatchShape shape, const T* x_BTD,
                                      const Kept& kept, core::Work& work) const {
  const core::Arena::Scope scope(work.arena);
  const Shapes shapes = shapes_of(shape);
  const kernels::RowShape rows{shape.tokens(), config_.hidden};
  T* normed_BTD = work.arena.take<T>(rows.rows * rows.width);
  kernels::rmsnorm_rstd(rows, x_BTD, config_.rms_norm_eps, kept.rstd1_BT);
  kernels::rmsnorm_apply(rows, x_BTD, {weights + at_.norm1}, kept.rstd1_BT, normed_BTD);
  linear(work, shapes.q, normed_BTD, weights + at_.q, kept.q_BTHd);
  linear(work, shapes.kv, normed_BTD, weights + at_.k, kept.k_BTKd);
  linear(work, shapes.kv, normed_BTD, weights + at_.v, kept.v_BTKd);
  const kernels::RopeTable table = rope_->get(shape.seq_len);
  kernels::rope(table, shape, config_.heads, kept.q_BTHd);
  kernels::rope(table, shape, config_.kv_heads, kept.k_BTKd);
  attention_forward<T>(attention_of(shape),
                       {.q = kept.q_BTHd,
                        .k = kept.k_BTKd,
                        .v = kept.v_BTKd,
                        .out = kept.attended_BTHd,
                        .logsumexp = kept.logsumexp},
                       work);
  kernels::copy(work, rows.rows * rows.width, x_BTD, kept.x_mid_BTD);
  linear(work, shapes.o, kept.attended_BTHd, weights + at_.o, kept.x_mid_BTD, Beta::kOne);
}

template <class T>
void LlamaBlock<T>::forward(const UnitCall& call, void* output_BTD) const {
  core::Work& work = call.work;
  const core::Arena::Scope scope(work.arena);
  const core::BatchShape shape = call.input.shape;
  const Shapes shapes = shapes_of(shape);
  const kernels::RowShape rows{shape.tokens(), config_.hidden};
  const Kept kept(shapes, config_.heads, call.saved.kept);
  const T* own = static_cast<const T*>(call.weights.own);
  forward_attention(own, shape, static_cast<const T*>(call.saved.input_BTD), kept, work);

  T* normed_BTD = work.arena.take<T>(rows.rows * rows.width);
  kernels::rmsnorm_rstd(rows, kept.x_mid_BTD, config_.rms_norm_eps, kept.rstd2_BT);
  kernels::rmsnorm_apply(rows, kept.x_mid_BTD, {own + at_.norm2}, kept.rstd2_BT, normed_BTD);
  linear(work, shapes.up, normed_BTD, own + at_.gate, kept.gate_BTF);
  linear(work, shapes.up, normed_BTD, own + at_.up, kept.up_BTF);
  if (output_BTD == nullptr) return;

  const std::int64_t wide = rows.rows * config_.ffn;
  T* product_BTF = work.arena.take<T>(wide);
  kernels::swiglu(wide, kept.gate_BTF, kept.up_BTF, product_BTF);
  T* y_BTD = static_cast<T*>(output_BTD);
  kernels::copy(work, rows.rows * rows.width, kept.x_mid_BTD, y_BTD);
  linear(work, shapes.down, product_BTF, own + at_.down, y_BTD, Beta::kOne);
}

template <class T>
void LlamaBlock<T>::backward_mlp(const T* weights, core::BatchShape shape, const Kept& kept,
                                 const Parked& parked, core::Work& work) const {
  const core::Arena::Scope scope(work.arena);
  const Shapes shapes = shapes_of(shape);
  const kernels::RowShape rows{shape.tokens(), config_.hidden};
  const std::int64_t wide = rows.rows * config_.ffn;
  float* dnormed_BTD = work.arena.take<float>(rows.rows * rows.width);
  T* dproduct_BTF = parked.dgate_BTF;  // until SwiGLU's backward writes dgate there
  linear_input(work, shapes.down, parked.dy_BTD, weights + at_.down, dproduct_BTF);
  kernels::swiglu_backward<T>(wide, {.gate = kept.gate_BTF,
                                     .up = kept.up_BTF,
                                     .dy = dproduct_BTF,
                                     .dgate = parked.dgate_BTF,
                                     .dup = parked.dup_BTF,
                                     .y = kept.up_BTF});
  linear_input(work, shapes.up, parked.dgate_BTF, weights + at_.gate, dnormed_BTD);
  linear_input(work, shapes.up, parked.dup_BTF, weights + at_.up, dnormed_BTD, Beta::kOne);
  kernels::clear(work, rows.width, parked.dnorm2_D);
  kernels::rmsnorm_backward<T>(rows, {.x = kept.x_mid_BTD,
                                      .weight = weights + at_.norm2,
                                      .rstd = kept.rstd2_BT,
                                      .dy = dnormed_BTD,
                                      .residual = parked.dy_BTD,
                                      .dx = parked.dx_mid_BTD,
                                      .dweight_sum = parked.dnorm2_D});
}

template <class T>
void LlamaBlock<T>::backward_heads(const T* weights, core::BatchShape shape, const Kept& kept,
                                   const Parked& parked, core::Work& work) const {
  const core::Arena::Scope scope(work.arena);
  const Shapes shapes = shapes_of(shape);
  T* dattended_BTHd = work.arena.take<T>(shapes.o.tokens * shapes.o.in);
  linear_input(work, shapes.o, parked.dx_mid_BTD, weights + at_.o, dattended_BTHd);
  attention_backward<T>(attention_of(shape),
                        {.q = kept.q_BTHd,
                         .k = kept.k_BTKd,
                         .v = kept.v_BTKd,
                         .out = kept.attended_BTHd,
                         .logsumexp = kept.logsumexp,
                         .dout = dattended_BTHd,
                         .dq = parked.dq_BTHd,
                         .dk = parked.dk_BTKd,
                         .dv = parked.dv_BTKd},
                        work);
  const kernels::RopeTable table = rope_->get(shape.seq_len);
  kernels::rope_inverse(table, shape, config_.heads, parked.dq_BTHd);
  kernels::rope_inverse(table, shape, config_.kv_heads, parked.dk_BTKd);
}

template <class T>
void LlamaBlock<T>::backward_input(const UnitCall& call, void* doutput_BTD,
                                   void* dinput_BTD) const {
  core::Work& work = call.work;
  const core::Arena::Scope scope(work.arena);
  const core::BatchShape shape = call.input.shape;
  const Shapes shapes = shapes_of(shape);
  const kernels::RowShape rows{shape.tokens(), config_.hidden};
  const Kept kept(shapes, config_.heads, call.saved.kept);
  const Parked parked(shapes, call.saved.parked);
  const T* own = static_cast<const T*>(call.weights.own);
  kernels::copy(work, rows.rows * rows.width, static_cast<const T*>(doutput_BTD), parked.dy_BTD);
  kernels::copy(work, rows.width, own + at_.norm1, parked.norm1_D);
  kernels::copy(work, rows.width, own + at_.norm2, parked.norm2_D);
  backward_mlp(own, shape, kept, parked, work);
  backward_heads(own, shape, kept, parked, work);

  float* dnormed_BTD = work.arena.take<float>(rows.rows * rows.width);
  linear_input(work, shapes.q, parked.dq_BTHd, own + at_.q, dnormed_BTD);
  linear_input(work, shapes.kv, parked.dk_BTKd, own + at_.k, dnormed_BTD, Beta::kOne);
  linear_input(work, shapes.kv, parked.dv_BTKd, own + at_.v, dnormed_BTD, Beta::kOne);
  kernels::clear(work, rows.width, parked.dnorm1_D);
  kernels::rmsnorm_backward<T>(rows, {.x = static_cast<const T*>(call.saved.input_BTD),
                                      .weight = own + at_.norm1,
                                      .rstd = kept.rstd1_BT,
                                      .dy = dnormed_BTD,
                                      .residual = parked.dx_mid_BTD,
                                      .dx = static_cast<T*>(dinput_BTD),
                                      .dweight_sum = parked.dnorm1_D});
}

template <class T>
void LlamaBlock<T>::backward_weight(const UnitCall& call, const Gradients& gradients,
                                    Write write) const {
  core::Work& work = call.work;
  const core::Arena::Scope scope(work.arena);
  const Shapes shapes = shapes_of(call.input.shape);
  const kernels::RowShape rows{call.input.shape.tokens(), config_.hidden};
  const Kept kept(shapes, config_.heads, call.saved.kept);
  const Parked parked(shapes, call.saved.parked);
  const T* x_BTD = static_cast<const T*>(call.saved.input_BTD);
  const Beta beta = beta_of(write);
  linear_weight(work, shapes.down, parked.dy_BTD, kept.up_BTF, gradients.own + at_.down, beta);

  T* normed_BTD = work.arena.take<T>(rows.rows * rows.width);
  kernels::rmsnorm_apply(rows, kept.x_mid_BTD, {parked.norm2_D}, kept.rstd2_BT, normed_BTD);
  linear_weight(work, shapes.up, parked.dgate_BTF, normed_BTD, gradients.own + at_.gate, beta);
  linear_weight(work, shapes.up, parked.dup_BTF, normed_BTD, gradients.own + at_.up, beta);
  write_vector(work, rows.width, parked.dnorm2_D, gradients.own + at_.norm2, write);
  linear_weight(work, shapes.o, parked.dx_mid_BTD, kept.attended_BTHd, gradients.own + at_.o, beta);

  kernels::rmsnorm_apply(rows, x_BTD, {parked.norm1_D}, kept.rstd1_BT, normed_BTD);
  linear_weight(work, shapes.q, parked.dq_BTHd, normed_BTD, gradients.own + at_.q, beta);
  linear_weight(work, shapes.kv, parked.dk_BTKd, normed_BTD, gradients.own + at_.k, beta);
  linear_weight(work, shapes.kv, parked.dv_BTKd, normed_BTD, gradients.own + at_.v, beta);
  write_vector(work, rows.width, parked.dnorm1_D, gradients.own + at_.norm1, write);
}

template class LlamaBlock<float>;
template class LlamaBlock<core::Bf16>;
template class LlamaBlock<core::F16>;

}  // namespace fm::model
