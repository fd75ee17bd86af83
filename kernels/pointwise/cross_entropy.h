// Softmax cross-entropy over a chunk of logit rows, with the gradient made in place.
#pragma once

#include <cstdint>

#include "kernels/rows.h"

namespace fm::kernels {

inline constexpr std::int32_t kIgnoredLabel = -100;

// logits [rows, vocab], labels [rows] in [0, vocab) or -100. Adds the rows' losses (nats) to `sum`
// in row order in fp64 and returns the new sum, so that chunks chain. Each row becomes
// (softmax - onehot) * scale; a row with label -100 adds no loss and becomes zero.
double cross_entropy(RowShape shape, float* logits, const std::int32_t* labels, double scale,
                     double sum);

// The same sum, bit for bit, without the gradient.
double cross_entropy_loss(RowShape shape, const float* logits, const std::int32_t* labels,
                          double sum);

// For rows whose logits several ranks have parts of: logits [rows, width] become e^(x - max) of
// their row here, and max, sum [rows] are that maximum and their sum.
void exponentials(RowShape shape, float* logits, double* max, double* sum);

}  // namespace fm::kernels
