// Softmax cross-entropy over a chunk of logit rows, with the gradient made in place.
#pragma once

#include <cstdint>

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

inline constexpr std::int32_t kIgnoredLabel = -100;

// Logits that the loss and the sampler read: softcap tanh(l scale / softcap) of the head's products
// l (Gemma 2), or l scale where softcap is 0.
struct LogitForm {
  float scale = 1.0F;
  float softcap = 0.0F;
};
// logits [rows, vocab], in place.
void form_logits(const core::Work& work, RowShape shape, const LogitForm& form, float* logits);

// What the gradient of a loss is multiplied by. `softcap`: the logits were formed with it, and
// their gradient becomes that before it: times 1 - (logit / softcap)^2, too. The form's scale is a
// factor of `scale`.
struct LogitGradient {
  double scale = 1.0;
  float softcap = 0.0F;
};

// logits [rows, vocab], labels [rows] in [0, vocab) or -100. Adds the rows' losses (nats) to `sum`
// in row order in fp64, so that chunks chain. Each row becomes (softmax - onehot) * gradient; a
// row with label -100 adds no loss and becomes zero.
void cross_entropy(const core::Work& work, RowShape shape, float* logits,
                   const std::int32_t* labels, const LogitGradient& gradient, double* sum);

// The same sum, bit for bit, without the gradient.
void cross_entropy_loss(const core::Work& work, RowShape shape, const float* logits,
                        const std::int32_t* labels, double* sum);

// For rows whose logits several ranks have parts of: logits [rows, width] become e^(x - max) of
// their row here, and max, sum [rows] are that maximum and their sum. With a softcap they are
// multiplied by 1 - (x / softcap)^2 when they are summed.
void exponentials(const core::Work& work, RowShape shape, float softcap, float* logits, double* max,
                  double* sum);

// The columns of a vocabulary that a rank has begin at `first`. numbers [rows]: the logit of each
// row's label where that is here, else 0.
void label_logits(const core::Work& work, RowShape shape, const float* logits,
                  const std::int32_t* labels, std::int64_t first, double* numbers);

// What ranks exchange of such rows: [ranks, 3, rows], the maximum, the sum and the label's logit.
struct VocabParts {
  std::int64_t first = 0;  // of this rank's columns
  int rank = 0;
  int ranks = 1;
  const double* numbers = nullptr;
};
// As cross_entropy, of logits that `exponentials` has left. With M the largest maximum m, the sum
// over the whole vocabulary is the sum of s e^(m - M).
void cross_entropy_of_parts(const core::Work& work, RowShape shape, float* logits,
                            const std::int32_t* labels, const VocabParts& parts,
                            const LogitGradient& gradient, double* sum);

}  // namespace fm::kernels
