#include "engine/run_plan.h"

#include <gtest/gtest.h>

#include "engine/run_model.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

// 2^32 + 1 micro-batches would be one in 32 bits.
TEST(RunPlan, RefusesMoreMicroBatchesThanAnIntCounts) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_run_plan", false);
  options.batch = {(std::int64_t{1} << 32) + 1, 1, {}};
  const RunModel run = open_run_model(options);
  expect_error(core::ExitCode::kConfigError, "gradient_accumulation_steps=4294967297",
               [&] { make_run_plan(options, run.model, 1); });
}

}  // namespace
}  // namespace fm::engine
