// The parts of Muon that are no products (optim/optimizer.h, optim/newton_schulz.h).
#pragma once

#include <cstdint>
#include <span>

#include "core/work.h"

namespace fm::kernels {

struct MuonStep {
  float keep = 0.0F;  // b
  float take = 0.0F;  // 1 - b
  float grad_scale = 1.0F;
};
// Nesterov's momentum, `count` elements: g = grad * grad_scale; m = b m + (1 - b) g;
// grad = (1 - b) g + b m. Pure per element.
void muon_begin(const core::Work& work, const MuonStep& step, std::int64_t count, float* grad,
                float* momentum);

// param = keep param - rate direction. Pure per element.
void muon_move(const core::Work& work, float keep, float rate, std::int64_t count,
               const float* direction, float* param);

// values /= their norm + 1e-7. Squares are added in fp64, in the tree of core/tree.h over blocks;
// blocks.size() = norm_blocks(values.size()) (sums.h).
void divide_by_norm(const core::Work& work, std::span<float> values, std::span<double> blocks);

// Matrices [side, side], where S is `squared`: factor holds S S, and becomes a I + b S + c S S.
struct Quintic {
  float a = 0.0F;
  float b = 0.0F;
  float c = 0.0F;
};
void quintic_factor(const core::Work& work, const Quintic& by, std::int64_t side,
                    const float* squared, float* factor);

}  // namespace fm::kernels
