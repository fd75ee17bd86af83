#include "model/units/tensor_parallel.h"

#include "core/check.h"
#include "core/text.h"

namespace fm::model {
namespace {

// A rank's part of `size` heads, of which several ranks may hold the same one.
core::IndexRange shared_part(std::int64_t size, core::Share share) {
  if (size >= share.count) return core::even_part(size, share);
  const auto holders = static_cast<int>(share.count / size);
  return {.first = share.index / holders,
          .count = 1,
          .holder = {.index = share.index % holders, .count = holders}};
}

bool shares_heads(const DecoderConfig& config, std::int64_t ranks) {
  const std::int64_t kv_heads = config.kv_heads;
  // One matrix has the queries of a head beside it, which stay together.
  const bool copies = config.block.qkv != QkvMatrix::kPerHead && ranks % kv_heads == 0;
  return config.heads % ranks == 0 && (kv_heads % ranks == 0 || copies);
}

std::vector<std::string> fitting_sizes(const DecoderConfig& config) {
  std::vector<std::string> sizes;
  for (std::int64_t ranks = 1; ranks <= config.heads; ++ranks) {
    if (shares_heads(config, ranks)) sizes.push_back(std::to_string(ranks));
  }
  return sizes;
}

}  // namespace

TensorParts tensor_parts(const DecoderConfig& config, core::Share share) {
  const std::int64_t count = share.count;
  const std::int64_t kv_heads = config.kv_heads;
  FM_USER_CHECK(
      shares_heads(config, count),
      "tensor-parallel ranks must share query heads evenly, and key and value heads, too, "
      "or have one of these each; use one of --model_parallel_size ",
      core::join(fitting_sizes(config), ", "), " (num_attention_heads=", config.heads,
      ", num_key_value_heads=", kv_heads, ", model_parallel_size=", count, ")");
  FM_USER_CHECK(config.ffn >= count && config.vocab >= count,
                "every tensor-parallel rank must have a part of the MLP and of the vocabulary; use "
                "a smaller --model_parallel_size (intermediate_size=",
                config.ffn, ", vocab_size=", config.vocab, ", model_parallel_size=", count, ")");
  return {.share = share,
          .heads = core::even_part(config.heads, share),
          .kv_heads = shared_part(kv_heads, share),
          .ffn = core::even_part(config.ffn, share),
          .vocab = core::even_part(config.vocab, share),
          .heads_of_all = config.heads,
          .kv_heads_of_all = kv_heads,
          .ffn_of_all = config.ffn};
}

DecoderConfig rank_config(DecoderConfig config, const TensorParts& parts) {
  config.heads = parts.heads.count;
  config.kv_heads = parts.kv_heads.count;
  config.ffn = parts.ffn.count;
  return config;
}

}  // namespace fm::model
