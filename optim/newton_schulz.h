// The step of Muon (Jordan and others, 2024, kellerjordan.github.io/posts/muon) that needs a matrix
// as a whole: five Newton-Schulz iterations bring its singular values near to 1.
#pragma once

#include <cstdint>
#include <span>

#include "core/types.h"
#include "core/work.h"

namespace fm::optim {

// Numbers that newton_schulz works in.
core::Elements newton_schulz_room(std::int64_t rows, std::int64_t cols);

// matrix [rows, cols] = U S V^T becomes U S' V^T, S' within about [0.7, 1.2]. With X = matrix /
// (norm + 1e-7), five times: A = X X^T; X = (a I + b A + c A^2) X. A has the shorter side.
// `room`: newton_schulz_room(rows, cols) numbers. Pure: the same matrix gives the same bits.
void newton_schulz(core::Work& work, std::int64_t rows, std::int64_t cols, std::span<float> matrix,
                   std::span<float> room);

}  // namespace fm::optim
