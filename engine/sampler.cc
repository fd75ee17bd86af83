#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "core/philox.h"

namespace fm::engine {

std::int32_t sample(std::span<const float> logits_V, const SamplerOptions& options,
                    std::int64_t step) {
  std::vector<std::int32_t> ids(logits_V.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits_V[static_cast<std::size_t>(id)]; };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::int32_t a, std::int32_t b) { return logit(a) > logit(b); });
  if (options.temperature <= 0) return ids.front();
  if (options.top_k > 0 && std::cmp_less(options.top_k, ids.size())) {
    ids.resize(static_cast<std::size_t>(options.top_k));
  }
  std::vector<double> weights;
  for (const std::int32_t id : ids) {
    weights.push_back(std::exp((logit(id) - logit(ids.front())) / options.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const core::PhiloxBlock bits =
      core::philox(core::stream_key(options.seed, "generate"), static_cast<std::uint64_t>(step));
  double rest = core::uniform_of(bits[0]) * total;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    rest -= weights[i];
    if (rest <= 0) return ids[i];
  }
  return ids.back();
}

}  // namespace fm::engine
