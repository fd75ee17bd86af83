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

// `sum` + the sum of e^(x - max).
double exp_sum(const float* row, std::int64_t vocab, float max, double sum = 0.0) {
  for (std::int64_t from = 0; from < vocab; from += kBlock) {
    const float* block = row + from;
    sum += static_cast<double>(lane_sum<float>(std::min(kBlock, vocab - from),
                                               [=](auto i) { return exp_float(block[i] - max); }));
  }
  return sum;
}

// A row's slope of the soft-capping: the derivative of softcap tanh(x / softcap) where it is
// `logit`.
[[gnu::always_inline]] inline float slope_of(float logit, float softcap) {
  const float share = logit / softcap;
  return 1.0F - share * share;
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

// The same with e^(x - max) slope_of(x) stored.
double sloped_exp_sum_in_place(float* row, std::int64_t vocab, float max, float softcap) {
  float exponentials[kBlock];
  double sum = 0.0;
  for (std::int64_t from = 0; from < vocab; from += kBlock) {
    float* block = row + from;
    const std::int64_t count = std::min(kBlock, vocab - from);
    for (std::int64_t i = 0; i < count; ++i) exponentials[i] = exp_float(block[i] - max);
    for (std::int64_t i = 0; i < count; ++i) {
      block[i] = exponentials[i] * slope_of(block[i], softcap);
    }
    sum += static_cast<double>(lane_sum<float>(count, [&](auto i) { return exponentials[i]; }));
  }
  return sum;
}

// The same with e^(x - max), or that times slope_of(x), stored and nothing summed.
void store_weights(float* row, std::int64_t vocab, float max, float softcap) {
  if (softcap <= 0.0F) {
    for (std::int64_t i = 0; i < vocab; ++i) row[i] = exp_float(row[i] - max);
    return;
  }
  for (std::int64_t i = 0; i < vocab; ++i) {
    row[i] = exp_float(row[i] - max) * slope_of(row[i], softcap);
  }
}

// Of logits that are what the gradient says.
double weights_in_place(float* row, std::int64_t vocab, float max, float softcap) {
  return softcap > 0.0F ? sloped_exp_sum_in_place(row, vocab, max, softcap)
                        : exp_sum_in_place(row, vocab, max);
}

// What the gradient of a label's logit is beside that of all logits.
float of_label(const LogitGradient& gradient, float label_logit) {
  const auto scale = static_cast<float>(gradient.scale);
  return gradient.softcap > 0.0F ? scale * slope_of(label_logit, gradient.softcap) : scale;
}

double token_loss(double exp_total, float max, float label_logit) {
  return std::log(exp_total) + (static_cast<double>(max) - static_cast<double>(label_logit));
}

}  // namespace

void form_logits(LogitRows shape, const LogitForm& form, float* logits) {
  const LogitRows all = shape.joined();
  const float inner = form.softcap > 0.0F ? form.scale / form.softcap : 0.0F;
  for (std::int64_t r = 0; r < all.rows; ++r) {
    float* const row = logits + r * all.stride;
    if (form.softcap <= 0.0F) {
      for (std::int64_t i = 0; i < all.width; ++i) row[i] *= form.scale;
    } else {
      for (std::int64_t i = 0; i < all.width; ++i)
        row[i] = form.softcap * tanh_float(row[i] * inner);
    }
  }
}

void cross_entropy(LogitRows shape, float* logits, const std::int32_t* labels,
                   const LogitGradient& gradient, double* sum) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    float* row = logits + r * shape.stride;
    if (labels[r] == kIgnoredLabel) {
      std::fill_n(row, shape.width, 0.0F);
      continue;
    }
    const float max = row_max(row, shape.width);
    const float label_logit = row[labels[r]];
    const double total = weights_in_place(row, shape.width, max, gradient.softcap);
    *sum += token_loss(total, max, label_logit);
    const auto factor = static_cast<float>(gradient.scale / total);
    for (std::int64_t i = 0; i < shape.width; ++i) row[i] *= factor;
    row[labels[r]] -= of_label(gradient, label_logit);
  }
}

void cross_entropy_loss(LogitRows shape, const float* logits, const std::int32_t* labels,
                        double* sum) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    if (labels[r] == kIgnoredLabel) continue;
    const float* row = logits + r * shape.stride;
    const float max = row_max(row, shape.width);
    *sum += token_loss(exp_sum(row, shape.width, max), max, row[labels[r]]);
  }
}

void exponentials(LogitRows shape, float softcap, float* logits, double* max, double* sum) {
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    float* row = logits + r * shape.stride;
    const float most = row_max(row, shape.width);
    max[r] = static_cast<double>(most);
    sum[r] = weights_in_place(row, shape.width, most, softcap);
  }
}

void label_logits(LogitRows shape, const float* logits, const std::int32_t* labels,
                  std::int64_t first, double* numbers) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::int64_t column = labels[row] - first;
    const bool here = labels[row] != kIgnoredLabel && column >= 0 && column < shape.width;
    numbers[row] = here ? static_cast<double>(logits[row * shape.stride + column]) : 0.0;
  }
}

void cross_entropy_of_parts(LogitRows shape, float* logits, const std::int32_t* labels,
                            const VocabParts& parts, const LogitGradient& gradient, double* sum) {
  const std::int64_t apart = 3 * shape.rows;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    float* const here = logits + row * shape.stride;
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
    const auto factor = static_cast<float>(gradient.scale * std::exp(mine - most) / total);
    for (std::int64_t i = 0; i < shape.width; ++i) here[i] *= factor;
    const std::int64_t column = labels[row] - parts.first;
    if (column < 0 || column >= shape.width) continue;
    const double of_mine = parts.numbers[apart * parts.rank + 2 * shape.rows + row];
    here[column] -= of_label(gradient, static_cast<float>(of_mine));
  }
}

void tile_maxima(RowShape shape, const float* logits, bool first_tile, float* max) {
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const float here = row_max(logits + row * shape.width, shape.width);
    max[row] = first_tile ? here : std::max(max[row], here);
  }
}

void tile_sums(const TileRows& tile, const float* logits, const LogitSums& rows) {
  const RowShape& shape = tile.shape;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    if (tile.labels[row] == kIgnoredLabel) continue;
    const float* const here = logits + row * shape.width;
    rows.sum[row] =
        exp_sum(here, shape.width, rows.max[row], tile.first == 0 ? 0.0 : rows.sum[row]);
    const std::int64_t column = tile.labels[row] - tile.first;
    if (column >= 0 && column < shape.width) rows.label_logit[row] = here[column];
  }
}

void tile_gradients(const TileRows& tile, float* logits, const LogitSums& rows,
                    const LogitGradient& gradient) {
  const RowShape& shape = tile.shape;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    float* const here = logits + row * shape.width;
    if (tile.labels[row] == kIgnoredLabel) {
      std::fill_n(here, shape.width, 0.0F);
      continue;
    }
    store_weights(here, shape.width, rows.max[row], gradient.softcap);
    const auto factor = static_cast<float>(gradient.scale / rows.sum[row]);
    for (std::int64_t i = 0; i < shape.width; ++i) here[i] *= factor;
    const std::int64_t column = tile.labels[row] - tile.first;
    if (column < 0 || column >= shape.width) continue;
    here[column] -= of_label(gradient, rows.label_logit[row]);
  }
}

void tiled_losses(std::int64_t count, const std::int32_t* labels, const LogitSums& rows,
                  double* sum) {
  for (std::int64_t row = 0; row < count; ++row) {
    if (labels[row] == kIgnoredLabel) continue;
    *sum += token_loss(rows.sum[row], rows.max[row], rows.label_logit[row]);
  }
}

}  // namespace fm::kernels::FM_SIMD
