#include "model/embedding_unit.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/embedding.h"

namespace fm::model {
namespace {

std::span<const std::int32_t> tokens_of(const UnitInput& input) {
  return {input.tokens_BT, static_cast<std::size_t>(input.shape.tokens())};
}

}  // namespace

EmbeddingUnit::EmbeddingUnit(const LlamaConfig& config, const core::NoDecay& no_decay)
    : vocab_(config.vocab),
      hidden_(config.hidden),
      params_({{.name = "model.embed_tokens.weight",
                .shape = {config.vocab, config.hidden},
                .kind = core::ParamKind::kEmbedding,
                .offset = {},
                .numel = {}}},
              no_decay) {}

UnitSizes EmbeddingUnit::sizes(core::BatchShape shape) const {
  return {.input = 0, .kept = 0, .parked = shape.tokens() * hidden_, .scratch = 0};
}

void EmbeddingUnit::forward(const Weights& weights, const UnitInput& input, const Saved&,
                            core::Arena&, float* output_BTD) const {
  for (const std::int32_t token : tokens_of(input)) {
    FM_CHECK(token >= 0 && token < vocab_, "token ", token, " reached a model of ", vocab_);
  }
  const float* table_VD = weights.own + params_.at(0).offset.count();
  kernels::embedding(tokens_of(input), table_VD, hidden_, output_BTD);
}

void EmbeddingUnit::backward_input(const Weights&, const UnitInput& input, const Saved& saved,
                                   core::Arena&, float* doutput_BTD, float*) const {
  std::copy_n(doutput_BTD, input.shape.tokens() * hidden_, saved.parked);
}

void EmbeddingUnit::backward_weight(const Weights&, const UnitInput& input, const Saved& saved,
                                    core::Arena&, const Gradients& gradients, Write write) const {
  float* dtable_VD = gradients.own + params_.at(0).offset.count();
  if (write == Write::kAssign) std::fill_n(dtable_VD, vocab_ * hidden_, 0.0F);
  kernels::embedding_backward(tokens_of(input), saved.parked, hidden_, dtable_VD);
}

}  // namespace fm::model
