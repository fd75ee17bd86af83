#include "kernels/attention/partial_softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/here.h"

namespace fm::kernels {

void merge_partial_softmax_here(const core::Work& work, const PartialShape& shape,
                                const PartialSoftmax& now, const PartialSoftmax& all) {
  const double scale = scale_of(shape);
#pragma omp parallel for num_threads(work.threads) schedule(static)
  for (std::int64_t t = 0; t < shape.queries; ++t) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      float& before = all.logsumexp[head * shape.queries + t];
      const float other = now.logsumexp[head * shape.queries + t];
      if (other == -std::numeric_limits<float>::infinity()) continue;
      const double ahead = (static_cast<double>(other) - before) * scale;
      const auto of_now = static_cast<float>(1.0 / (1.0 + std::exp(-ahead)));
      const auto of_all = static_cast<float>(1.0 / (1.0 + std::exp(ahead)));
      const std::int64_t at = (t * shape.heads + head) * shape.head_dim;
      for (std::int64_t i = at; i < at + shape.head_dim; ++i) {
        all.out[i] = all.out[i] * of_all + now.out[i] * of_now;
      }
      const double larger = std::max(ahead, 0.0);
      before =
          static_cast<float>(before + (larger + std::log1p(std::exp(-std::abs(ahead)))) / scale);
    }
  }
}

}  // namespace fm::kernels
