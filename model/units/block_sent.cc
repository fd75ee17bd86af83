// The bytes that a block sends to tensor-parallel ranks: by each sum and gather of block.cc,
// block_backward.cc, products.h and split_norm.h.
#include "model/units/block.h"

namespace fm::model {

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
  TensorTraffic& of_attention = norms_before() && parallel() ? output : forward;
  TensorTraffic& of_mlp = norms_before() ? output : forward;
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
    for (const NormPlaceAt* norm : {&at_.norm1, &at_.norm2}) {
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
