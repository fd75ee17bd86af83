// Softmax cross-entropy over a chunk of logit rows, with the gradient made in place.
#pragma once

#include <cstdint>

#include "core/work.h"
#include "kernels/rows.h"

namespace fm::kernels {

inline constexpr std::int32_t kIgnoredLabel = -100;

// Rows of logits lie `stride` numbers apart, on a card so that products are fast. What lies between
// them is neither read nor written.
struct LogitRows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = width;

  // The same numbers in one row, where nothing lies between them.
  [[gnu::always_inline]] constexpr LogitRows joined() const {
    return stride == width ? LogitRows{1, rows * width} : *this;
  }
};

// Logits that the loss and the sampler read: softcap tanh(l scale / softcap) of the head's products
// l (Gemma 2), or l scale where softcap is 0.
struct LogitForm {
  float scale = 1.0F;
  float softcap = 0.0F;
};
// logits [rows, vocab], in place.
void form_logits(const core::Work& work, LogitRows shape, const LogitForm& form, float* logits);

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
void cross_entropy(const core::Work& work, LogitRows shape, float* logits,
                   const std::int32_t* labels, const LogitGradient& gradient, double* sum);

// The same sum, bit for bit, without the gradient.
void cross_entropy_loss(const core::Work& work, LogitRows shape, const float* logits,
                        const std::int32_t* labels, double* sum);

// For rows whose logits several ranks have parts of: logits [rows, width] become e^(x - max) of
// their row here, and max, sum [rows] are that maximum and their sum. With a softcap they are
// multiplied by 1 - (x / softcap)^2 when they are summed.
void exponentials(const core::Work& work, LogitRows shape, float softcap, float* logits,
                  double* max, double* sum);

// The columns of a vocabulary that a rank has begin at `first`. numbers [rows]: the logit of each
// row's label where that is here, else 0.
void label_logits(const core::Work& work, LogitRows shape, const float* logits,
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
void cross_entropy_of_parts(const core::Work& work, LogitRows shape, float* logits,
                            const std::int32_t* labels, const VocabParts& parts,
                            const LogitGradient& gradient, double* sum);

// Logits whose gradients lie apart from them, as products read them: of type T, rounded once.
template <class T>
struct RoundedGradients {
  float* logits = nullptr;               // [rows, vocab]; what they hold afterwards is of no use
  const std::int32_t* labels = nullptr;  // [rows]
  T* gradients = nullptr;                // [rows, vocab]
  VocabParts parts = {};                 // without numbers: this rank has whole rows
};
// cross_entropy, or with parts cross_entropy_of_parts, and a cast of the gradients: the same bits.
template <class T>
void rounded_cross_entropy(const core::Work& work, LogitRows shape, const RoundedGradients<T>& at,
                           const LogitGradient& gradient, double* sum);

// For rows whose logits come in tiles of columns, of a multiple of kVocabTile each but the last:
// one pass over the tiles for the maxima, one for the sums, one for the gradients. All have the
// bits of cross_entropy over the whole row. Tiles come in ascending order.
inline constexpr std::int64_t kVocabTile = 4096;

// Columns [first, first + width) of a vocabulary.
struct TileRows {
  RowShape shape;
  std::int64_t first = 0;
  const std::int32_t* labels = nullptr;  // [rows]
};
// What is known of every row of logits.
struct LogitSums {
  float* max = nullptr;
  float* label_logit = nullptr;
  double* sum = nullptr;  // of e^(x - max)
};

// The first tile assigns the maxima, the others raise them.
void tile_maxima(const core::Work& work, RowShape shape, const float* logits, bool first_tile,
                 float* max);
// The first tile assigns the sums, the others add to them. The label's logit is taken where it is.
void tile_sums(const core::Work& work, const TileRows& tile, const float* logits,
               const LogitSums& rows);
// The logits become their gradients.
void tile_gradients(const core::Work& work, const TileRows& tile, float* logits,
                    const LogitSums& rows, const LogitGradient& gradient);
// Adds the losses of the rows to `sum`, in their order.
void tiled_losses(const core::Work& work, std::int64_t count, const std::int32_t* labels,
                  const LogitSums& rows, double* sum);

}  // namespace fm::kernels
