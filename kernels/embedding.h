// Token embedding: gather of table rows, and its backward.
#pragma once

#include <cstdint>
#include <span>

namespace fm::kernels {

// out [tokens, width] = rows of table [vocab, width]; ids must be in [0, vocab).
void embedding(std::span<const std::int32_t> tokens, const float* table, std::int64_t width,
               float* out);

// dtable [vocab, width] += rows of dout [tokens, width], in token order (the caller zeroes dtable
// for an assignment).
void embedding_backward(std::span<const std::int32_t> tokens, const float* dout, std::int64_t width,
                        float* dtable);

}  // namespace fm::kernels
