#include "kernels/pointwise/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernels/float_math.h"
#include "kernels/rows.h"

namespace fm::kernels::FM_SIMD {
namespace {

constexpr std::int64_t kBlock = 1024;  // fp32 partial sums stay this short; blocks add in fp64

float row_max(const float* row, std::int64_t vocab) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, row[0]);
  const std::int64_t whole = vocab / kLanes * kLanes;
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      lanes[j] = row[i + j] > lanes[j] ? row[i + j] : lanes[j];
    }
  }
  for (std::int64_t i = whole; i < vocab; ++i) lanes[0] = std::max(lanes[0], row[i]);
  return *std::max_element(lanes, lanes + kLanes);
}

// Sum of e^(x - max).
double exp_sum(const float* row, std::int64_t vocab, float max) {
  double sum = 0.0;
  for (std::int64_t from = 0; from < vocab; from += kBlock) {
    const float* block = row + from;
    sum += static_cast<double>(lane_sum<float>(std::min(kBlock, vocab - from),
                                               [=](auto i) { return exp_float(block[i] - max); }));
  }
  return sum;
}

// The same with e^(x - max) stored.
double exp_sum_in_place(float* row, std::int64_t vocab, float max) {
  for (std::int64_t i = 0; i < vocab; ++i) row[i] = exp_float(row[i] - max);
  double sum = 0.0;
  for (std::int64_t from = 0; from < vocab; from += kBlock) {
    const float* block = row + from;
    sum += static_cast<double>(
        lane_sum<float>(std::min(kBlock, vocab - from), [=](auto i) { return block[i]; }));
  }
  return sum;
}

double token_loss(double exp_total, float max, float label_logit) {
  return std::log(exp_total) + (static_cast<double>(max) - static_cast<double>(label_logit));
}

}  // namespace

void cross_entropy(RowShape shape, float* logits, const std::int32_t* labels, double scale,
                   double* sum) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    float* row = logits + r * shape.width;
    if (labels[r] == kIgnoredLabel) {
      std::fill_n(row, shape.width, 0.0F);
      continue;
    }
    const float max = row_max(row, shape.width);
    const float label_logit = row[labels[r]];
    const double total = exp_sum_in_place(row, shape.width, max);
    *sum += token_loss(total, max, label_logit);
    const auto factor = static_cast<float>(scale / total);
    for (std::int64_t i = 0; i < shape.width; ++i) row[i] *= factor;
    row[labels[r]] -= static_cast<float>(scale);
  }
}

void cross_entropy_loss(RowShape shape, const float* logits, const std::int32_t* labels,
                        double* sum) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    if (labels[r] == kIgnoredLabel) continue;
    const float* row = logits + r * shape.width;
    const float max = row_max(row, shape.width);
    *sum += token_loss(exp_sum(row, shape.width, max), max, row[labels[r]]);
  }
}

void exponentials(RowShape shape, float* logits, double* max, double* sum) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    float* row = logits + r * shape.width;
    const float most = row_max(row, shape.width);
    max[r] = static_cast<double>(most);
    sum[r] = exp_sum_in_place(row, shape.width, most);
  }
}

void label_logits(RowShape shape, const float* logits, const std::int32_t* labels,
                  std::int64_t first, double* numbers) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::int64_t column = labels[row] - first;
    const bool here = labels[row] != kIgnoredLabel && column >= 0 && column < shape.width;
    numbers[row] = here ? static_cast<double>(logits[row * shape.width + column]) : 0.0;
  }
}

void cross_entropy_of_parts(RowShape shape, float* logits, const std::int32_t* labels,
                            const VocabParts& parts, double scale, double* sum) {
  const std::int64_t apart = 3 * shape.rows;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    float* const here = logits + row * shape.width;
    if (labels[row] == kIgnoredLabel) {
      std::fill_n(here, shape.width, 0.0F);
      continue;
    }
    double most = parts.numbers[row];
    for (int rank = 1; rank < parts.ranks; ++rank) {
      const double other = parts.numbers[apart * rank + row];
      if (most < other) most = other;
    }
    double total = 0.0;
    double label_logit = 0.0;
    for (int rank = 0; rank < parts.ranks; ++rank) {
      const double* const of_rank = parts.numbers + apart * rank + row;
      total += of_rank[shape.rows] * std::exp(of_rank[0] - most);
      label_logit += of_rank[2 * shape.rows];
    }
    *sum += std::log(total) + (most - label_logit);
    const double mine = parts.numbers[apart * parts.rank + row];
    const auto factor = static_cast<float>(scale * std::exp(mine - most) / total);
    for (std::int64_t i = 0; i < shape.width; ++i) here[i] *= factor;
    const std::int64_t column = labels[row] - parts.first;
    if (column >= 0 && column < shape.width) here[column] -= static_cast<float>(scale);
  }
}

}  // namespace fm::kernels::FM_SIMD
