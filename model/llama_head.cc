#include "model/llama_head.h"

#include "core/check.h"
#include "kernels/pointwise/elements.h"
#include "model/linear.h"

namespace fm::model {
namespace {

template <class T>
constexpr bool kIsFp32 = std::is_same_v<T, float>;

core::ParamTable make_table(const LlamaConfig& config, const core::NoDecay& no_decay) {
  std::vector<core::ParamEntry> entries;
  entries.push_back(
      {.name = "model.norm.weight", .shape = {config.hidden}, .kind = core::ParamKind::kNorm});
  if (!config.tied) {
    entries.push_back({.name = "lm_head.weight",
                       .shape = {config.vocab, config.hidden},
                       .kind = core::ParamKind::kEmbedding,
                       .split_dim = 0});
  }
  return {std::move(entries), no_decay};
}

}  // namespace

// Work space of a chunk of rows.
template <class T>
struct LlamaHead<T>::Chunk {
  LinearShape shape;  // shape.tokens: rows of the chunk at hand
  float* rstd_N;
  T* normed_ND;
  float* dnormed_ND;
  float* logits_NV;  // and their gradient
  T* dlogits_NV;     // the gradient as products read it

  kernels::RowShape hidden_rows() const { return {shape.tokens, shape.in}; }
  void round_dlogits() const {
    if constexpr (!kIsFp32<T>) {
      kernels::cast(shape.tokens * shape.out, logits_NV, dlogits_NV);
    }
  }

  kernels::RowShape logit_rows() const { return {shape.tokens, shape.out}; }
};

template <class T>
LlamaHead<T>::LlamaHead(const LlamaConfig& config, const core::NoDecay& no_decay,
                        const core::ParamTable& embedding)
    : vocab_(config.vocab),
      hidden_(config.hidden),
      rms_norm_eps_(config.rms_norm_eps),
      params_(make_table(config, no_decay)) {
  if (config.tied) {
    tied_ = embedding;
    matrix_at_ = tied_->at(0).offset.count();
  }
  for (const core::ParamEntry& entry : params_.entries()) {
    (entry.kind == core::ParamKind::kNorm ? norm_at_ : matrix_at_) = entry.offset.count();
  }
}

template <class T>
UnitSizes LlamaHead<T>::sizes(core::BatchShape shape) const {
  using core::Arena;
  const std::int64_t rows = logits_chunk_rows(shape.tokens(), vocab_);
  core::Bytes scratch = Arena::aligned<float>(rows) + Arena::aligned<T>(rows * hidden_) +
                        Arena::aligned<float>(rows * hidden_) +
                        Arena::aligned<float>(rows * vocab_) + Arena::aligned<float>(hidden_);
  if (!kIsFp32<T>) scratch += Arena::aligned<T>(rows * vocab_);
  const std::int64_t values = shape.tokens() * hidden_;
  return {.input = core::Bytes(values * static_cast<std::int64_t>(sizeof(T))), .scratch = scratch};
}

template <class T>
double LlamaHead<T>::forward_flops(core::BatchShape shape) const {
  return LinearShape{shape.tokens(), hidden_, vocab_}.flops();
}

template <class T>
const T* LlamaHead<T>::matrix_of(const Weights& weights) const {
  return static_cast<const T*>(tied_ ? weights.tied : weights.own) + matrix_at_;
}

template <class T>
typename LlamaHead<T>::Chunk LlamaHead<T>::take_chunk(core::BatchShape shape,
                                                      core::Work& work) const {
  const std::int64_t rows = logits_chunk_rows(shape.tokens(), vocab_);
  Chunk chunk = {.shape = {rows, hidden_, vocab_},
                 .rstd_N = work.arena.take<float>(rows),
                 .normed_ND = work.arena.take<T>(rows * hidden_),
                 .dnormed_ND = work.arena.take<float>(rows * hidden_),
                 .logits_NV = work.arena.take<float>(rows * vocab_),
                 .dlogits_NV = nullptr};
  if constexpr (kIsFp32<T>) {
    chunk.dlogits_NV = chunk.logits_NV;
  } else {
    chunk.dlogits_NV = work.arena.take<T>(rows * vocab_);
  }
  return chunk;
}

template <class T>
void LlamaHead<T>::forward_chunk(const core::Work& work, const Weights& weights, const T* hidden_ND,
                                 const Chunk& chunk) const {
  const kernels::RowShape rows = chunk.hidden_rows();
  kernels::rmsnorm_rstd(rows, hidden_ND, rms_norm_eps_, chunk.rstd_N);
  kernels::rmsnorm_apply(rows, hidden_ND, {norm_of(weights)}, chunk.rstd_N, chunk.normed_ND);
  linear(work, chunk.shape, chunk.normed_ND, matrix_of(weights), chunk.logits_NV);
}

template <class T>
void LlamaHead<T>::check_labels(const UnitInput& input) const {
  for (std::int64_t i = 0; i < input.shape.tokens(); ++i) {
    const std::int32_t label = input.labels_BT[i];
    FM_CHECK(label == kernels::kIgnoredLabel || (label >= 0 && label < vocab_), "label ", label,
             " reached a model of ", vocab_);
  }
}

template <class T>
double LlamaHead<T>::loss(const UnitCall& call, void* hidden_BTD, double scale,
                          const Gradients& gradients, Write write) const {
  const auto& [weights, input, saved, work] = call;
  check_labels(input);
  const core::Arena::Scope scope(work.arena);
  Chunk chunk = take_chunk(input.shape, work);
  const std::int64_t step = chunk.shape.tokens;
  float* dnorm_D = work.arena.take<float>(hidden_);
  kernels::clear(work, hidden_, dnorm_D);
  float* dmatrix_VD = (tied_ ? gradients.tied : gradients.own) + matrix_at_;
  double sum = 0.0;
  for (std::int64_t row = 0; row < input.shape.tokens(); row += step) {
    chunk.shape.tokens = std::min(step, input.shape.tokens() - row);
    T* hidden_ND = static_cast<T*>(hidden_BTD) + row * hidden_;
    forward_chunk(work, weights, hidden_ND, chunk);
    sum = kernels::cross_entropy(chunk.logit_rows(), chunk.logits_NV, input.labels_BT + row, scale,
                                 sum);
    chunk.round_dlogits();
    linear_weight(work, chunk.shape, chunk.dlogits_NV, chunk.normed_ND, dmatrix_VD,
                  row == 0 ? beta_of(write) : Beta::kOne);
    linear_input(work, chunk.shape, chunk.dlogits_NV, matrix_of(weights), chunk.dnormed_ND);
    kernels::rmsnorm_backward<T>(chunk.hidden_rows(), {.x = hidden_ND,
                                                       .weight = norm_of(weights),
                                                       .rstd = chunk.rstd_N,
                                                       .dy = chunk.dnormed_ND,
                                                       .residual = nullptr,
                                                       .dx = hidden_ND,
                                                       .dweight_sum = dnorm_D});
  }
  write_vector(work, hidden_, dnorm_D, gradients.own + norm_at_, write);
  return sum;
}

template <class T>
double LlamaHead<T>::evaluate(const UnitCall& call, const void* hidden_BTD) const {
  const auto& [weights, input, saved, work] = call;
  check_labels(input);
  const core::Arena::Scope scope(work.arena);
  Chunk chunk = take_chunk(input.shape, work);
  const std::int64_t step = chunk.shape.tokens;
  double sum = 0.0;
  for (std::int64_t row = 0; row < input.shape.tokens(); row += step) {
    chunk.shape.tokens = std::min(step, input.shape.tokens() - row);
    forward_chunk(work, weights, static_cast<const T*>(hidden_BTD) + row * hidden_, chunk);
    sum = kernels::cross_entropy_loss(chunk.logit_rows(), chunk.logits_NV, input.labels_BT + row,
                                      sum);
  }
  return sum;
}

template <class T>
void LlamaHead<T>::logits(const Weights& weights, const void* hidden_D, float* logits_V,
                          core::Work& work) const {
  const core::Arena::Scope scope(work.arena);
  Chunk chunk = take_chunk({.batch = 1, .seq_len = 1}, work);
  chunk.logits_NV = logits_V;
  forward_chunk(work, weights, static_cast<const T*>(hidden_D), chunk);
}

template class LlamaHead<float>;
template class LlamaHead<core::Bf16>;
template class LlamaHead<core::F16>;

}  // namespace fm::model
