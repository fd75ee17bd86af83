#include "model/embedding_unit.h"

#include <algorithm>

#include "core/check.h"
#include "core/element.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"

namespace fm::model {
template <class T>
EmbeddingUnit<T>::EmbeddingUnit(const LlamaConfig& config, const core::NoDecay& no_decay)
    : vocab_(config.vocab),
      hidden_(config.hidden),
      pad_id_(config.pad_id),
      params_({{.name = "model.embed_tokens.weight",
                .shape = {config.vocab, config.hidden},
                .kind = core::ParamKind::kEmbedding,
                .split_dim = 0}},
              no_decay) {}

template <class T>
UnitSizes EmbeddingUnit<T>::sizes(core::BatchShape shape) const {
  const std::int64_t values = shape.tokens() * hidden_;
  return {.parked = core::Bytes(values * static_cast<std::int64_t>(sizeof(T)))};
}

template <class T>
void EmbeddingUnit<T>::forward(const UnitCall& call, void* output_BTD) const {
  for (const std::int32_t token : call.input.tokens()) {
    FM_CHECK(token >= 0 && token < vocab_, "token ", token, " reached a model of ", vocab_);
  }
  const T* table_VD = static_cast<const T*>(call.weights.own) + params_.at(0).offset.count();
  kernels::embedding(call.input.tokens(), table_VD, hidden_, static_cast<T*>(output_BTD));
}

template <class T>
void EmbeddingUnit<T>::backward_input(const UnitCall& call, void* doutput_BTD, void*) const {
  kernels::copy(call.work, call.input.shape.tokens() * hidden_, static_cast<const T*>(doutput_BTD),
                static_cast<T*>(call.saved.parked));
}

template <class T>
void EmbeddingUnit<T>::backward_weight(const UnitCall& call, const Gradients& gradients,
                                       Write write) const {
  float* dtable_VD = gradients.own + params_.at(0).offset.count();
  if (write == Write::kAssign) kernels::clear(call.work, vocab_ * hidden_, dtable_VD);
  // As transformers, which makes the table with padding_idx; runs of tokens between pads.
  const std::span<const std::int32_t> tokens = call.input.tokens();
  const auto is_pad = [this](std::int32_t token) { return token == pad_id_; };
  for (auto from = tokens.begin(); from != tokens.end();) {
    const auto pad = std::find_if(from, tokens.end(), is_pad);
    const T* dout_BTD =
        static_cast<const T*>(call.saved.parked) + (from - tokens.begin()) * hidden_;
    if (pad != from) kernels::embedding_backward({from, pad}, dout_BTD, hidden_, dtable_VD);
    from = std::find_if_not(pad, tokens.end(), is_pad);
  }
}

template class EmbeddingUnit<float>;
template class EmbeddingUnit<core::Bf16>;
template class EmbeddingUnit<core::F16>;

}  // namespace fm::model
