// Token embedding: gather of table rows, and its backward. T is float or core::Bf16.
#pragma once

#include <cstdint>
#include <span>

namespace fm::kernels {

// out [tokens, width] = rows of table [vocab, width]; ids must be in [0, vocab).
template <class T>
void embedding(std::span<const std::int32_t> tokens, const T* table, std::int64_t width, T* out);

// dtable [vocab, width] += rows of dout [tokens, width], in token order (the caller zeroes dtable
// for an assignment). The sums are fp32.
template <class T>
void embedding_backward(std::span<const std::int32_t> tokens, const T* dout, std::int64_t width,
                        float* dtable);

}  // namespace fm::kernels
