// Update rules of CUDA devices and the parts of Muon: the bits of this CPU's.
#include "kernels/pointwise/optimizers.h"

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/pointwise/muon.h"
#include "kernels/pointwise/sums.h"
#include "tests/emulated/emulated_case.h"

namespace fm::emulated {
namespace {

using kernels::Doubles;
using kernels::Floats;
using kernels::random_values;

const core::Work kHere;
constexpr std::int64_t kCounts[] = {0, 1, 3, 4, 7, 129, 1000, 6151};

// The same bits, but a NaN is any NaN.
void expect_same(const Floats& expected, const Floats& got, const char* which) {
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(expected[i]), std::bit_cast<std::uint32_t>(got[i]))
        << which << " " << i << ": " << expected[i] << " and " << got[i];
  }
}

// Numbers of many magnitudes, and a few that rules must not spoil: infinities, NaN, zeros, those
// whose squares are subnormal or infinite.
Floats difficult(std::int64_t count, std::uint32_t seed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats special = {kInfinity, -kInfinity, NAN,    0.0F,   -0.0F,
                          1e-21F,    -3e-42F,    2e+20F, 3e+38F, 1e-38F};
  Floats values = random_values(count, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i * 7 % 41) - 20);
    if (i % 11 == seed % 11) values[i] = special[(i / 11 + seed) % special.size()];
  }
  return values;
}

// What a rule reads and writes. Some elements have no gradient and no average.
struct State {
  Floats param, grad, first, second;
  State(std::int64_t count, std::uint32_t seed)
      : param(difficult(count, seed)),
        grad(difficult(count, seed + 1)),
        first(difficult(count, seed + 2)),
        second(difficult(count, seed + 3)) {
    for (float& value : second) value = std::abs(value);
    for (std::size_t i = 2; i < grad.size(); i += 29) grad[i] = first[i] = 0.0F;
  }
};

// rule(table or null for this CPU's, count, off, state): whether both leave the same in all arrays,
// from an aligned element on and from one that is not.
template <class Rule>
void expect_bits_of_the_cpu(const Rule& rule) {
  for (const std::int64_t count : kCounts) {
    for (const std::size_t off : {0U, 1U}) {
      const State before(count + static_cast<std::int64_t>(off), 20);
      State expected = before;
      State got = before;
      rule(nullptr, count, off, expected);
      rule(&table(), count, off, got);
      expect_same(expected.param, got.param, "param");
      expect_same(expected.grad, got.grad, "grad");
      expect_same(expected.first, got.first, "first");
      expect_same(expected.second, got.second, "second");
    }
  }
}

// The kernel of the table, or this CPU's. A macro: `name` is a member there and a function here.
#define FM_EITHER(all, name) ((all) != nullptr ? (all)->name : &kernels::name)

using Kernels = kernels::DeviceKernels;

TEST(EmulatedOptimizers, AdamwHasTheBitsOfTheCpu) {
  using kernels::WeightDecay;
  for (const WeightDecay mode : {WeightDecay::kDecoupled, WeightDecay::kL2}) {
    for (const int step : {1, 2, 1000}) {
      const kernels::AdamwStep rule{.lr = 0.013,
                                    .beta1 = 0.9,
                                    .beta2 = 0.98,
                                    .eps = 1e-8,
                                    .weight_decay = 0.1,
                                    .mode = mode,
                                    .correction1 = 1.0 - std::pow(0.9, step),
                                    .correction2 = 1.0 - std::pow(0.98, step),
                                    .grad_scale = 0.7F};
      expect_bits_of_the_cpu(
          [&](const Kernels* all, std::int64_t count, std::size_t off, State& state) {
            FM_EITHER(all, adamw)
            (kHere, rule,
             {state.param.data() + off, state.grad.data() + off, state.first.data() + off,
              state.second.data() + off, count});
          });
    }
  }
}

TEST(EmulatedOptimizers, SgdHasTheBitsOfTheCpu) {
  using kernels::Lookahead;
  for (const double momentum : {0.0, 0.9}) {
    for (const Lookahead lookahead : {Lookahead::kPlain, Lookahead::kNesterov}) {
      for (const bool first : {false, true}) {
        const kernels::SgdStep rule{.lr = 0.013,
                                    .momentum = momentum,
                                    .dampening = 0.3,
                                    .weight_decay = 0.1,
                                    .lookahead = lookahead,
                                    .first = first,
                                    .grad_scale = 0.7F};
        expect_bits_of_the_cpu(
            [&](const Kernels* all, std::int64_t count, std::size_t off, State& state) {
              float* const buffer = momentum == 0.0 ? nullptr : state.first.data() + off;
              FM_EITHER(all, sgd)
              (kHere, rule, {state.param.data() + off, state.grad.data() + off, buffer, count});
            });
      }
    }
  }
}

TEST(EmulatedOptimizers, AdagradHasTheBitsOfTheCpu) {
  const kernels::AdagradStep rule{.lr = 0.013, .weight_decay = 0.1, .grad_scale = 0.7F};
  expect_bits_of_the_cpu(
      [&](const Kernels* all, std::int64_t count, std::size_t off, State& state) {
        FM_EITHER(all, adagrad)
        (kHere, rule,
         {state.param.data() + off, state.grad.data() + off, state.second.data() + off, count});
      });
}

TEST(EmulatedOptimizers, LambHasTheBitsOfTheCpu) {
  for (const bool inside : {false, true}) {
    const kernels::LambStep rule{
        .eps = 1e-6, .eps_inside_sqrt = inside, .weight_decay = 0.1, .grad_scale = 0.7F};
    expect_bits_of_the_cpu(
        [&](const Kernels* all, std::int64_t count, std::size_t off, State& state) {
          FM_EITHER(all, lamb_direction)
          (kHere, rule,
           {state.param.data() + off, state.grad.data() + off, state.first.data() + off,
            state.second.data() + off, count});
          FM_EITHER(all, lamb_move)
          (kHere, 0.013F, count, state.grad.data() + off, state.param.data() + off);
        });
  }
}

TEST(EmulatedOptimizers, LionHasTheBitsOfTheCpu) {
  const kernels::LionStep rule{.lr = 0.013, .beta2 = 0.99, .weight_decay = 0.1, .grad_scale = 0.7F};
  expect_bits_of_the_cpu(
      [&](const Kernels* all, std::int64_t count, std::size_t off, State& state) {
        FM_EITHER(all, lion)
        (kHere, rule,
         {state.param.data() + off, state.grad.data() + off, state.first.data() + off, count});
      });
}

TEST(EmulatedOptimizers, MuonBeginsAndMovesWithTheBitsOfTheCpu) {
  const kernels::MuonStep rule{.keep = 0.95F, .take = 0.05F, .grad_scale = 0.7F};
  expect_bits_of_the_cpu(
      [&](const Kernels* all, std::int64_t count, std::size_t off, State& state) {
        FM_EITHER(all, muon_begin)
        (kHere, rule, count, state.grad.data() + off, state.first.data() + off);
        FM_EITHER(all, muon_move)
        (kHere, 0.9F, 0.013F, count, state.grad.data() + off, state.param.data() + off);
      });
}

// Sizes up to groups of more than one level of the tree, and a leftover at each.
TEST(EmulatedOptimizers, DivisionByANormHasTheBitsOfTheCpu) {
  constexpr std::int64_t kBlock = kernels::kNormBlock;
  table().divide_by_norm(kHere, {}, {});
  for (const std::int64_t count :
       {std::int64_t{1}, kBlock, kBlock + 1, 5 * kBlock, 37 * kBlock - 3, 1025 * kBlock - 7}) {
    const Floats values = random_values(count, 5, 3.0F);
    Floats expected = values;
    Doubles blocks(static_cast<std::size_t>(kernels::norm_blocks(count)));
    kernels::divide_by_norm(kHere, expected, blocks);
    const auto divided = [&] {
      Floats got = values;
      Doubles scratch = poisoned<double>(kernels::norm_blocks(count));
      table().divide_by_norm(kHere, got, scratch);
      return got;
    };
    if (count > 100 * kBlock) {
      expect_same(expected, divided(), "divided");
    } else {
      expect_same(expected, in_every_order(divided), "divided");
    }
  }
}

TEST(EmulatedOptimizers, DivisionByANormNeedsItsBarrier) {
  const Floats values = random_values(40 * kernels::kNormBlock, 5, 3.0F);
  expect_every_barrier_needed([&] {
    Floats got = values;
    Doubles scratch = poisoned<double>(kernels::norm_blocks(std::ssize(values)));
    table().divide_by_norm(kHere, got, scratch);
    return got;
  });
}

TEST(EmulatedOptimizers, AnInfiniteNormAndNanGoWhereTheCpuPutsThem) {
  for (const float value : {INFINITY, NAN, 3e38F}) {
    Floats expected = random_values(3000, 6);
    expected[1700] = value;
    Floats got = expected;
    Doubles blocks(3);
    kernels::divide_by_norm(kHere, expected, blocks);
    table().divide_by_norm(kHere, got, blocks);
    expect_same(expected, got, "divided");
  }
}

TEST(EmulatedOptimizers, AQuinticFactorHasTheBitsOfTheCpu) {
  const kernels::Quintic by{.a = 3.4445F, .b = -4.7750F, .c = 2.0315F};
  for (const std::int64_t side : {0, 1, 2, 5, 8, 33, 64}) {
    for (const std::size_t off : {0U, 1U}) {
      const Floats squared = difficult(side * side + static_cast<std::int64_t>(off), 1);
      Floats expected = difficult(side * side + static_cast<std::int64_t>(off), 2);
      Floats got = expected;
      kernels::quintic_factor(kHere, by, side, squared.data() + off, expected.data() + off);
      table().quintic_factor(kHere, by, side, squared.data() + off, got.data() + off);
      expect_same(expected, got, "factor");
    }
  }
}

}  // namespace
}  // namespace fm::emulated
