#include "model/tensor_parallel.h"

#include "core/check.h"

namespace fm::model {
namespace {

// Of `size` heads that several ranks may have alike.
core::IndexRange shared_part(std::int64_t size, core::Share share) {
  if (size >= share.count) return core::even_part(size, share);
  const auto holders = static_cast<int>(share.count / size);
  return {.first = share.index / holders,
          .count = 1,
          .holder = {.index = share.index % holders, .count = holders}};
}

}  // namespace

TensorParts tensor_parts(const DecoderConfig& config, core::Share share) {
  const std::int64_t count = share.count;
  const std::int64_t kv_heads = config.kv_heads;
  FM_USER_CHECK(config.heads % count == 0,
                "every tensor-parallel rank must have the same number of attention heads; use a "
                "--model_parallel_size that divides ",
                config.heads, " (num_attention_heads=", config.heads,
                ", model_parallel_size=", count, ")");
  FM_USER_CHECK(kv_heads % count == 0 || count % kv_heads == 0,
                "--model_parallel_size must divide the key and value heads or be a multiple of "
                "them; use ",
                kv_heads, " or a divisor of it (num_key_value_heads=", kv_heads,
                ", model_parallel_size=", count, ")");
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
