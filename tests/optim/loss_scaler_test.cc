#include "optim/loss_scaler.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace fm::optim {
namespace {

using Scales = std::vector<double>;

// The scale behind each step; x: overflow, .: none.
Scales trace(const LossScaleOptions& options, const std::string& steps) {
  Scales out;
  LossScaleState state = first_state(options);
  for (const char step : steps) {
    state = next_state(options, state, step == 'x');
    out.push_back(state.scale);
  }
  return out;
}

// The golden traces of DeepSpeed's scaler (runtime/fp16/loss_scaler.py).
TEST(LossScaler, FollowsDeepSpeed) {
  LossScaleOptions options{.first = 256, .window = 2, .hysteresis = 2};
  EXPECT_EQ(trace(options, "........"), (Scales{256, 256, 512, 512, 1024, 1024, 2048, 2048}));
  EXPECT_EQ(trace(options, "xx....x.x."),
            (Scales{256, 128, 128, 128, 256, 256, 256, 256, 128, 128}));
  options.refills_when_clean = true;
  EXPECT_EQ(trace(options, "x.x.x.xx"), (Scales{256, 256, 256, 256, 256, 256, 256, 128}));
  options = {.first = 256, .window = 2, .hysteresis = 1};
  EXPECT_EQ(trace(options, "xxxx...."), (Scales{128, 64, 32, 16, 16, 16, 32, 32}));
}

TEST(LossScaler, EndsTheRunAtItsLeastScale) {
  LossScaleOptions options{.first = 8, .window = 2, .hysteresis = 1};
  LossScaleState state = first_state(options);
  for (const double scale : {4.0, 2.0, 1.0}) {
    EXPECT_FALSE(is_at_its_end(options, state));
    state = next_state(options, state, true);
    EXPECT_EQ(state.scale, scale);
  }
  EXPECT_TRUE(is_at_its_end(options, state));
  options.ends_at_least = false;
  EXPECT_FALSE(is_at_its_end(options, state));
  EXPECT_EQ(next_state(options, state, true).scale, 1.0);
}

TEST(LossScaler, AFixedScaleStays) {
  const LossScaleOptions options{.fixed = 128};
  EXPECT_EQ(trace(options, "x.x."), (Scales{128, 128, 128, 128}));
  EXPECT_FALSE(is_at_its_end(options, first_state(options)));
}

// The rule once more, as a search through the whole history of overflows: after step i without
// overflow the scale doubles when the steps since the last overflow, that step left out, are a
// multiple of the window; an overflow halves it unless hysteresis swallows it.
double by_history(const LossScaleOptions& options, const std::string& steps) {
  double scale = options.first;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t last = steps.rfind('x', i);
    if (last != i) {
      const std::size_t since = last == std::string::npos ? i : i - last - 1;
      if (since > 0 && since % static_cast<std::size_t>(options.window) == 0) scale *= 2;
      continue;
    }
    // Overflows that were swallowed since hysteresis was full.
    std::int64_t swallowed = 0;
    for (std::size_t j = i; j-- > 0;) {
      if (steps[j] == 'x') {
        ++swallowed;
        continue;
      }
      const std::size_t before = steps.rfind('x', j);
      const std::size_t clean = before == std::string::npos ? j : j - before - 1;
      const bool grew = clean > 0 && clean % static_cast<std::size_t>(options.window) == 0;
      if (grew || options.refills_when_clean) break;
    }
    if (swallowed + 1 >= options.hysteresis) scale = std::max(scale / 2, options.least);
  }
  return scale;
}

TEST(LossScaler, AgreesWithTheHistoryOfTenThousandRandomSequences) {
  std::mt19937 random(22);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<std::uint32_t>(bound));
  };
  for (int sequence = 0; sequence < 10'000; ++sequence) {
    LossScaleOptions options{.first = std::exp2(below(20)),
                             .window = 1 + below(5),
                             .hysteresis = 1 + below(3),
                             .refills_when_clean = below(2) == 0,
                             .least = std::exp2(below(4)),
                             .ends_at_least = false};
    options.first = std::max(options.first, options.least);
    const int rarity = 1 + below(6);
    std::string steps;
    LossScaleState state = first_state(options);
    for (int step = 0; step < 40; ++step) {
      steps += below(rarity) == 0 ? 'x' : '.';
      const LossScaleState saved = state;  // a resume begins with what was saved
      state = next_state(options, saved, steps.back() == 'x');
      ASSERT_EQ(state.scale, by_history(options, steps)) << steps;
    }
  }
}

}  // namespace
}  // namespace fm::optim
