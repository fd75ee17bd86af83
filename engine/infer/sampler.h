// Which token follows, from the logits of the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fm::engine {

// The names and the order of their effects are transformers': the penalty, the temperature, then
// top_k, top_p and min_p, each of what the one before left.
struct SamplerOptions {
  double temperature = 0.0;  // 0: the largest logit, the smallest id on ties
  std::int64_t top_k = 0;    // so many of the likeliest; 0: all
  double top_p = 1.0;        // the likeliest that together reach this probability
  double min_p = 0.0;        // those with at least this share of the likeliest's
  double repetition_penalty =
      1.0;  // logits of ids in `history` are divided (< 0: multiplied) by it
  std::uint64_t seed = 0;
};

struct Candidate {
  std::int32_t id = 0;
  double probability = 0.0;  // of all candidates; they sum to 1
};

// At least one, the likeliest first, smaller ids first on ties. Greedy: just one.
std::vector<Candidate> candidates(std::span<const float> logits_V,
                                  std::span<const std::int32_t> history,
                                  const SamplerOptions& options);

// One of the candidates by Philox keyed by (seed, sequence, step). Pure.
struct Draw {
  std::int64_t sequence = 0;
  std::int64_t step = 0;
};
std::int32_t sample(std::span<const float> logits_V, std::span<const std::int32_t> history,
                    const SamplerOptions& options, const Draw& draw);

}  // namespace fm::engine
