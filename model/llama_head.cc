#include "model/llama_head.h"

#include "core/check.h"
#include "kernels/cross_entropy.h"
#include "kernels/rmsnorm.h"
#include "model/write_vector.h"

namespace fm::model {
namespace {

core::ParamTable make_table(const LlamaConfig& config, const core::NoDecay& no_decay) {
  std::vector<core::ParamEntry> entries;
  entries.push_back({"model.norm.weight", {config.hidden}, core::ParamKind::kNorm, {}, {}});
  if (!config.tied) {
    entries.push_back(
        {"lm_head.weight", {config.vocab, config.hidden}, core::ParamKind::kEmbedding, {}, {}});
  }
  return {std::move(entries), no_decay};
}

}  // namespace

// Work space of a chunk of rows.
struct LlamaHead::Chunk {
  LinearShape shape;  // shape.tokens: rows of the chunk at hand
  float* rstd_N;
  float* normed_ND;
  float* dnormed_ND;
  float* logits_NV;

  kernels::RowShape hidden_rows() const { return {shape.tokens, shape.in}; }
  kernels::RowShape logit_rows() const { return {shape.tokens, shape.out}; }
};

LlamaHead::LlamaHead(const LlamaConfig& config, const core::NoDecay& no_decay,
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

UnitSizes LlamaHead::sizes(core::BatchShape shape) const {
  const auto rounded = core::Arena::aligned;
  const std::int64_t rows = logits_chunk_rows(shape.tokens(), vocab_);
  return {.input = shape.tokens() * hidden_,
          .kept = 0,
          .parked = 0,
          .scratch = rounded(rows) + 2 * rounded(rows * hidden_) + rounded(rows * vocab_) +
                     rounded(hidden_)};
}

double LlamaHead::forward_flops(core::BatchShape shape) const {
  return LinearShape{shape.tokens(), hidden_, vocab_}.flops();
}

const float* LlamaHead::matrix_of(const Weights& weights) const {
  return (tied_ ? weights.tied : weights.own) + matrix_at_;
}

LlamaHead::Chunk LlamaHead::take_chunk(core::BatchShape shape, core::Arena& scratch) const {
  const std::int64_t rows = logits_chunk_rows(shape.tokens(), vocab_);
  return {.shape = {rows, hidden_, vocab_},
          .rstd_N = scratch.take(rows),
          .normed_ND = scratch.take(rows * hidden_),
          .dnormed_ND = scratch.take(rows * hidden_),
          .logits_NV = scratch.take(rows * vocab_)};
}

void LlamaHead::forward_chunk(const Weights& weights, const float* hidden_ND,
                              const Chunk& chunk) const {
  const kernels::RowShape rows = chunk.hidden_rows();
  kernels::rmsnorm_rstd(rows, hidden_ND, rms_norm_eps_, chunk.rstd_N);
  kernels::rmsnorm_apply(rows, hidden_ND, weights.own + norm_at_, chunk.rstd_N, chunk.normed_ND);
  linear(chunk.shape, chunk.normed_ND, matrix_of(weights), chunk.logits_NV);
}

void LlamaHead::check_labels(const UnitInput& input) const {
  for (std::int64_t i = 0; i < input.shape.tokens(); ++i) {
    const std::int32_t label = input.labels_BT[i];
    FM_CHECK(label == kernels::kIgnoredLabel || (label >= 0 && label < vocab_), "label ", label,
             " reached a model of ", vocab_);
  }
}

double LlamaHead::loss(const Weights& weights, const UnitInput& input, float* hidden_BTD,
                       double scale, const Gradients& gradients, Write write,
                       core::Arena& scratch) const {
  check_labels(input);
  const core::Arena::Scope scope(scratch);
  Chunk chunk = take_chunk(input.shape, scratch);
  const std::int64_t step = chunk.shape.tokens;
  float* dnorm_D = scratch.take(hidden_);
  std::fill_n(dnorm_D, hidden_, 0.0F);
  float* dmatrix_VD = (tied_ ? gradients.tied : gradients.own) + matrix_at_;
  double sum = 0.0;
  for (std::int64_t row = 0; row < input.shape.tokens(); row += step) {
    chunk.shape.tokens = std::min(step, input.shape.tokens() - row);
    float* hidden_ND = hidden_BTD + row * hidden_;
    forward_chunk(weights, hidden_ND, chunk);
    sum = kernels::cross_entropy(chunk.logit_rows(), chunk.logits_NV, input.labels_BT + row, scale,
                                 sum);
    linear_weight(chunk.shape, chunk.logits_NV, chunk.normed_ND, dmatrix_VD,
                  row == 0 ? beta_of(write) : Beta::kOne);
    linear_input(chunk.shape, chunk.logits_NV, matrix_of(weights), chunk.dnormed_ND);
    kernels::rmsnorm_backward<float>(chunk.hidden_rows(), {.x = hidden_ND,
                                                           .weight = weights.own + norm_at_,
                                                           .rstd = chunk.rstd_N,
                                                           .dy = chunk.dnormed_ND,
                                                           .residual = nullptr,
                                                           .dx = hidden_ND,
                                                           .dweight_sum = dnorm_D});
  }
  write_vector(hidden_, dnorm_D, gradients.own + norm_at_, write);
  return sum;
}

double LlamaHead::evaluate(const Weights& weights, const UnitInput& input, const float* hidden_BTD,
                           core::Arena& scratch) const {
  check_labels(input);
  const core::Arena::Scope scope(scratch);
  Chunk chunk = take_chunk(input.shape, scratch);
  const std::int64_t step = chunk.shape.tokens;
  double sum = 0.0;
  for (std::int64_t row = 0; row < input.shape.tokens(); row += step) {
    chunk.shape.tokens = std::min(step, input.shape.tokens() - row);
    forward_chunk(weights, hidden_BTD + row * hidden_, chunk);
    sum = kernels::cross_entropy_loss(chunk.logit_rows(), chunk.logits_NV, input.labels_BT + row,
                                      sum);
  }
  return sum;
}

void LlamaHead::logits(const Weights& weights, const float* hidden_D, float* logits_V,
                       core::Arena& scratch) const {
  const core::Arena::Scope scope(scratch);
  Chunk chunk = take_chunk({.batch = 1, .seq_len = 1}, scratch);
  chunk.logits_NV = logits_V;
  forward_chunk(weights, hidden_D, chunk);
}

}  // namespace fm::model
