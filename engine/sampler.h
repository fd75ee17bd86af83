// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <span>

namespace fm::engine {

struct SamplerOptions {
  double temperature = 0.0;  // 0: the largest logit, the smallest id on ties
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 0;
};

// The id of step `step`: softmax(logits / temperature) over the top_k largest, by Philox keyed by
// (seed, step). Pure.
std::int32_t sample(std::span<const float> logits_V, const SamplerOptions& options,
                    std::int64_t step);

}  // namespace fm::engine
