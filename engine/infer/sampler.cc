#include "engine/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/philox.h"

namespace fm::engine {
namespace {

// Sums to 1 again.
void normalise(std::vector<Candidate>& all) {
  double total = 0.0;
  for (const Candidate& each : all) total += each.probability;
  for (Candidate& each : all) each.probability /= total;
}

// The shortest run of the likeliest that reaches `share`.
void keep_top_p(std::vector<Candidate>& all, double share) {
  normalise(all);
  double reached = 0.0;
  std::size_t count = 0;
  while (count < all.size() && reached < share) reached += all[count++].probability;
  all.resize(std::max<std::size_t>(count, 1));
}

}  // namespace

std::vector<Candidate> candidates(std::span<const float> logits_V,
                                  std::span<const std::int32_t> history,
                                  const SamplerOptions& options) {
  std::vector<float> logits(logits_V.begin(), logits_V.end());
  if (options.repetition_penalty != 1.0) {
    const auto penalty = static_cast<float>(options.repetition_penalty);
    for (const std::int32_t id : history) {
      const float given = logits_V[static_cast<std::size_t>(id)];  // once, however often it stands
      logits[static_cast<std::size_t>(id)] = given < 0.0F ? given * penalty : given / penalty;
    }
  }
  if (options.temperature <= 0.0) {
    const auto largest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    return {{static_cast<std::int32_t>(largest), 1.0}};
  }
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto likelier = [&](std::int32_t a, std::int32_t b) {
    const float at_a = logits[static_cast<std::size_t>(a)];
    const float at_b = logits[static_cast<std::size_t>(b)];
    return at_a != at_b ? at_a > at_b : a < b;
  };
  const bool some = options.top_k > 0 && std::cmp_less(options.top_k, ids.size());
  const auto kept = ids.begin() + (some ? options.top_k : std::ssize(ids));
  std::partial_sort(ids.begin(), kept, ids.end(), likelier);
  std::vector<Candidate> all;
  const auto largest = static_cast<double>(logits[static_cast<std::size_t>(ids.front())]);
  for (auto id = ids.begin(); id != kept; ++id) {
    const auto logit = static_cast<double>(logits[static_cast<std::size_t>(*id)]);
    all.push_back({*id, std::exp((logit - largest) / options.temperature)});
  }
  if (options.top_p < 1.0) keep_top_p(all, options.top_p);
  const double least = options.min_p * all.front().probability;
  std::erase_if(all, [&](const Candidate& each) { return each.probability < least; });
  normalise(all);
  return all;
}

std::int32_t sample(std::span<const float> logits_V, std::span<const std::int32_t> history,
                    const SamplerOptions& options, const Draw& draw) {
  const std::vector<Candidate> all = candidates(logits_V, history, options);
  const std::string stream = core::concat("generate", draw.sequence == 0 ? "" : " ",
                                          draw.sequence == 0 ? "" : std::to_string(draw.sequence));
  const core::PhiloxBlock bits =
      core::philox(core::stream_key(options.seed, stream), static_cast<std::uint64_t>(draw.step));
  double rest = core::uniform_of(bits[0]);
  for (const Candidate& each : all) {
    rest -= each.probability;
    if (rest <= 0) return each.id;
  }
  return all.back().id;
}

}  // namespace fm::engine
