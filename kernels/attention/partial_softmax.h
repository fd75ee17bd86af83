// Attention over some of the keys, merged with attention over others (ring attention, arXiv
// 2310.01889).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/work.h"

namespace fm::kernels {

struct PartialShape {
  std::int64_t queries = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;  // d
  float scale = 0.0F;         // of a score; 0: 1 / sqrt(d)
};
inline double scale_of(const PartialShape& shape) {
  if (shape.scale > 0.0F) return static_cast<double>(shape.scale);
  return 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
}
// Of the same queries.
struct PartialSoftmax {
  float* out = nullptr;        // [queries, heads, d]
  float* logsumexp = nullptr;  // [heads, queries], as attention.h has it
};

// Merges two partial results by their logsumexp, in place of `all`; what saw no key (-infinity in
// `now`) changes nothing. Each is multiplied by a weight of its own: out + (now - out) * weight
// would keep the rounding of a large `out` of weight 0.
void merge_partial_softmax(const core::Work& work, const PartialShape& shape,
                           const PartialSoftmax& now, const PartialSoftmax& all);

}  // namespace fm::kernels
