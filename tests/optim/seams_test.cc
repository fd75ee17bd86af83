// What stores hand to the update rules, once wrong.
#include <gtest/gtest.h>

#include <vector>

#include "core/check.h"
#include "optim/loss_scaler.h"
#include "optim/lr_schedule.h"
#include "optim/newton_schulz.h"
#include "optim/optimizer.h"

namespace fm::optim {
namespace {

using core::BugError;
using core::Elements;

TEST(OptimizerSeams, ARuleGetsTheMomentsThatItNames) {
  float numbers[4] = {};
  for (const OptimizerRow* rule : {&kAdamW, &kSgd, &kLion, &kAdagrad, &kLamb, &kMuon}) {
    const OptimizerOptions options{.rule = rule, .momentum = 0.9};
    const auto named = moments_of(options).size();
    UpdateSlice slice{&numbers[0], &numbers[1], {}, Elements(1)};
    EXPECT_THROW(update({}, options, {}, slice), BugError) << rule->name;
    for (std::size_t at = 0; at < named; ++at) slice.moment[at] = &numbers[2 + at];
    EXPECT_NO_THROW(update({}, options, {}, slice)) << rule->name;
    slice.moment[named - 1] = nullptr;
    EXPECT_THROW(update({}, options, {}, slice), BugError) << rule->name;
  }
}

TEST(OptimizerSeams, AnUpdateHasParametersAGradientAndANumber) {
  float number = 0.0F;
  const OptimizerOptions plain{.rule = &kSgd};
  EXPECT_NO_THROW(update({}, plain, {}, {&number, &number, {}, Elements(1)}));
  EXPECT_THROW(update({}, plain, {}, {nullptr, &number, {}, Elements(1)}), BugError);
  EXPECT_THROW(update({}, plain, {}, {&number, nullptr, {}, Elements(1)}), BugError);
  EXPECT_THROW(update({}, plain, {.step = 0}, {&number, &number, {}, Elements(1)}), BugError);
}

TEST(OptimizerSeams, AMatrixHasTwoDims) {
  const core::ParamEntry vector{.name = "v", .shape = {4}};
  EXPECT_THROW(kMuon.by_matrix->move({}, {}, {}, vector, {}), BugError);
}

TEST(NewtonSchulzSeams, AMatrixAndItsRoomHaveTheirSizes) {
  core::Work work;
  std::vector<float> matrix(6, 1.0F);
  std::vector<float> room(static_cast<std::size_t>(newton_schulz_room(2, 3).count()));
  const std::span all(room);
  EXPECT_THROW(newton_schulz(work, 3, 3, matrix, all), BugError);
  EXPECT_THROW(newton_schulz(work, 2, 3, matrix, all.first(room.size() - 1)), BugError);
  EXPECT_THROW(newton_schulz_room(0, 3), BugError);
}

TEST(ScheduleSeams, ARateFollowsFromUpdatesThatWereApplied) {
  EXPECT_THROW(rates({}, 0.1, -1), BugError);
}

TEST(LossScaleSeams, ADynamicScaleHasAWindow) {
  LossScaleOptions options{.window = 0};
  EXPECT_THROW(next_state(options, first_state(options), false), BugError);
  options.fixed = 8.0;
  EXPECT_EQ(next_state(options, first_state(options), false).scale, 8.0);
}

}  // namespace
}  // namespace fm::optim
