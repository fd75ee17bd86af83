// Kernels over a model's elements, rows of activations above all. T is float, core::Bf16
// or core::F16: sums and products are fp32 for all, and what is stored is rounded once
// (core/element.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/element.h"
#include "core/types.h"
#include "kernels/rows.h"

namespace fm::kernels {

// Between fp32 and bf16 or fp16: to these each element is rounded to the nearest, back is exact.
// Rows of two matrices whose rows begin `from_stride` and `to_stride` elements after each other.
// One of From and To is float; the two do not overlap.
template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride);

// The same as a part of another kernel, which is the event of the trace.
template <class From, class To>
void cast_block(RowShape shape, const From* from, std::int64_t from_stride, To* to,
                std::int64_t to_stride);

// One row.
template <class From, class To>
void cast(std::int64_t count, const From* from, To* to) {
  cast_rows(RowShape{1, count}, from, count, to, count);
}

// Token embedding: gather of table rows, and its backward.

// out [tokens, width] = rows of table [vocab, width]; ids must be in [0, vocab).
template <class T>
void embedding(std::span<const std::int32_t> tokens, const T* table, std::int64_t width, T* out);

// dtable [vocab, width] += rows of dout [tokens, width], in token order (the caller zeroes dtable
// for an assignment). The sums are fp32.
template <class T>
void embedding_backward(std::span<const std::int32_t> tokens, const T* dout, std::int64_t width,
                        float* dtable);

// RMSNorm (arXiv 1910.07467) over rows of D: y = w * x * rstd, rstd = 1 / sqrt(mean(x^2) + eps).

// rstd [rows] of x [rows, width].
template <class T>
void rmsnorm_rstd(RowShape shape, const T* x, double eps, float* rstd);

// What a norm multiplies by: its weight w, or 1 + w.
enum class NormGain : std::uint8_t { kWeight, kOnePlusWeight };
template <class T>
struct NormWeight {
  const T* data = nullptr;  // [width]
  NormGain gain = NormGain::kWeight;
};

// y [rows, width] from x, weight [width] and rstd [rows]; y overlaps no input.
template <class T>
void rmsnorm_apply(RowShape shape, const T* x, NormWeight<T> weight, const float* rstd, T* y);

template <class T>
struct RmsnormBackward {
  const T* x = nullptr;          // [rows, width], the input of the forward
  const T* weight = nullptr;     // [width]
  const float* rstd = nullptr;   // [rows], of the forward
  const float* dy = nullptr;     // [rows, width]; fp32, for it is the sum of up to three products
  const T* residual = nullptr;   // [rows, width] added to dx, or null
  T* dx = nullptr;               // [rows, width]; may be x
  float* dweight_sum = nullptr;  // [width]; added to, row after row in fp32
  NormGain gain = NormGain::kWeight;
};

// With n = x * rstd and g = dy * w:
// dx = rstd * (g - n * mean(g * n)) + residual; dweight_sum += sum over rows of dy * n.
template <class T>
void rmsnorm_backward(RowShape shape, const RmsnormBackward<T>& at);

// Rotary position embedding (arXiv 2104.09864) of the first elements of each head, the rest stays.
// Positions are 0 .. T - 1 in every row.

// Of 2 half_dim elements: i with i + half_dim (Hugging Face's layout), or 2 i with 2 i + 1.
enum class RopePairs : std::uint8_t { kHalves, kNeighbours };

// cos and sin are [positions, inv_freq.size()]. As transformers does: the angle is rounded to
// fp32 (inv_freq x position), then its cosine and sine are taken; here in fp64, rounded once.
void rope_table(std::span<const float> inv_freq, std::int64_t positions, float* cos, float* sin);

struct RopeTable {
  const float* cos = nullptr;  // [>= T, half_dim]
  const float* sin = nullptr;
  std::int64_t half_dim = 0;
  std::int64_t head_dim = 0;  // 2 half_dim or more
  RopePairs pairs = RopePairs::kHalves;

  // Of rows that begin at this position.
  RopeTable from(std::int64_t position) const {
    return {cos + position * half_dim, sin + position * half_dim, half_dim, head_dim, pairs};
  }
};

// In place over x [B, T, heads, head_dim].
template <class T>
void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x);
// The transpose of `rope` (by the negative angle): what backward needs.
template <class T>
void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x);

// SwiGLU (arXiv 2002.05202): y = silu(gate) * up, silu(g) = g * sigmoid(g).

// y [count] overlaps neither input.
template <class T>
void swiglu(std::int64_t count, const T* gate, const T* up, T* y);

template <class T>
struct SwigluBackward {
  const T* gate = nullptr;  // [count], of the forward
  const T* up = nullptr;
  const T* dy = nullptr;
  T* dgate = nullptr;  // may be dy
  T* dup = nullptr;
  T* y = nullptr;  // of the forward, again; may be `up`
};

// dup = dy * silu(gate); dgate = dy * up * s * (1 + gate * (1 - s)) with s = sigmoid(gate).
template <class T>
void swiglu_backward(std::int64_t count, const SwigluBackward<T>& at);

// Softmax cross-entropy over a chunk of logit rows, with the gradient made in place.

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
