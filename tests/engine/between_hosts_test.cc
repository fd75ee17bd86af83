// Runs whose data ranks are on two hosts: what is off has the bits of one host; what is on is
// deterministic, near, the same on every rank, and sends the bytes that the plan predicts.
#include "engine/plan/between_hosts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/check.h"
#include "core/text.h"
#include "engine/plan/run_plan.h"
#include "kernels/pointwise/quantize.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using comm::Travel;
using core::Bytes;

const std::vector<int> kTwoByTwo = {0, 0, 1, 1};

class BetweenHostsRuns : public testing::Test {
 protected:
  BetweenHostsRuns() : options_(small_options(testing::TempDir() + "/fm_between_hosts", true)) {
    options_.zero_stage = 3;
    options_.batch = {8, 1, {}};  // two micro-batches on each of four ranks
  }
  void use(Travel gradients, Travel weights, int hpz_ranks) {
    options_.gradient_travel = gradients;
    options_.weight_travel = weights;
    options_.hpz_ranks = hpz_ranks;
  }
  void use_all() { use(Travel::kInt4, Travel::kInt8, 2); }
  OnHosts run(const std::vector<int>& host_of = kTwoByTwo) const {
    return run_small_on_hosts(options_, host_of, kSteps);
  }
  // That data rank 0 is predicted to send in one step.
  Bytes predicted(const std::vector<int>& host_of) const {
    const model::OpenedModel opened = open_run_model(options_);
    const RunPlan plan = make_run_plan(
        options_, opened.model, {.ranks = static_cast<int>(host_of.size()), .host_of = host_of});
    Bytes sum;
    for (const auto& [picture, bytes] : plan.wire_bytes(0)) sum += bytes;
    return sum;
  }
  // Losses and norms travel, too: what is left when they are taken away on both sides.
  void expect_predicted_bytes(const OnHosts& wide, Bytes wide_step,
                              const std::vector<int>& host_of) const {
    const OnHosts narrow = run(host_of);
    EXPECT_EQ((wide.sent[0] - narrow.sent[0]).count(),
              kSteps * (wide_step - predicted(host_of)).count());
    EXPECT_LT(predicted(host_of).count(), wide_step.count());
  }
  static void expect_near(const RunTrace& a, const RunTrace& b, double of_loss) {
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (std::size_t i = 0; i < a.losses.size(); ++i)
      EXPECT_NEAR(a.losses[i], b.losses[i], of_loss * b.losses[i]) << "step " << i + 1;
  }

  static constexpr int kSteps = 3;
  TrainOptions options_;
};

TEST_F(BetweenHostsRuns, OffHasTheBitsOfOneHost) {
  options_.sum_order = core::SumOrder::kCanonical;
  EXPECT_EQ(first_difference(run_small(options_, 4, kSteps), run().trace), "");
}

// The copy has the same numbers: nothing is rounded for it.
TEST_F(BetweenHostsRuns, ASecondCopyChangesNoBitAndSendsLess) {
  for (const auto order : {core::SumOrder::kFast, core::SumOrder::kCanonical}) {
    options_.sum_order = order;
    use(Travel::kWhole, Travel::kWhole, 1);
    const OnHosts without = run();
    const Bytes step = predicted(kTwoByTwo);
    use(Travel::kWhole, Travel::kWhole, 2);
    EXPECT_EQ(first_difference(without.trace, run().trace), "");
    expect_predicted_bytes(without, step, kTwoByTwo);
  }
}

TEST_F(BetweenHostsRuns, EachIsDeterministicNearAndSendsThePredictedBytes) {
  const OnHosts wide = run();
  const Bytes step = predicted(kTwoByTwo);
  const struct {
    Travel gradients, weights;
    int hpz_ranks;
  } kinds[] = {{Travel::kBF16, Travel::kWhole, 1},
               {Travel::kF16, Travel::kWhole, 1},
               {Travel::kInt4, Travel::kWhole, 1},
               {Travel::kWhole, Travel::kInt8, 1},
               {Travel::kInt4, Travel::kInt8, 2}};
  for (const auto& kind : kinds) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(kind.gradients) << ' '
                                    << static_cast<int>(kind.weights) << ' ' << kind.hpz_ranks);
    use(kind.gradients, kind.weights, kind.hpz_ranks);
    const OnHosts narrow = run();
    EXPECT_EQ(first_difference(narrow.trace, run().trace), "");
    EXPECT_NE(first_difference(narrow.trace, wide.trace), "");
    expect_near(narrow.trace, wide.trace, 0.01);
    expect_predicted_bytes(wide, step, kTwoByTwo);
  }
}

// In the canonical order, on hosts of unequal and of single ranks.
TEST_F(BetweenHostsRuns, OtherLayoutsAreDeterministicAndPredictedToo) {
  options_.sum_order = core::SumOrder::kCanonical;
  for (const std::vector<int>& host_of : {std::vector{0, 1}, {0, 0, 0, 1}, {0, 1, 0, 1}}) {
    use(Travel::kWhole, Travel::kWhole, 1);
    const OnHosts wide = run(host_of);
    const Bytes step = predicted(host_of);
    use(Travel::kInt4, Travel::kInt8, 1);
    EXPECT_EQ(first_difference(run(host_of).trace, run(host_of).trace), "");
    expect_predicted_bytes(wide, step, host_of);
  }
}

// All ranks read the same weights, which are as far from the owners' as blocks of 8 bits may be.
TEST_F(BetweenHostsRuns, EveryRankReadsTheSameWeightsAndOwnersKeepTheirs) {
  use(Travel::kWhole, Travel::kInt8, 1);
  const OnHosts rounded = run();
  for (const std::vector<float>& read : rounded.gathered) ASSERT_EQ(read, rounded.gathered[0]);
  const std::vector<float>& exact = rounded.trace.weights.at("model.embed_tokens.weight");
  double largest = 0.0;
  for (const float weight : exact) largest = std::max(largest, std::abs(double{weight}));
  bool all_exact = true;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_NEAR(rounded.gathered[0][i], exact[i], largest / 254.0 * (1.0 + 1e-6));
    all_exact = all_exact && rounded.gathered[0][i] == exact[i];
  }
  EXPECT_FALSE(all_exact);
}

TEST_F(BetweenHostsRuns, ZeRO1SumsInBf16AndPublishesWhole) {
  options_.zero_stage = 1;
  const OnHosts wide = run();
  const Bytes step = predicted(kTwoByTwo);
  use(Travel::kBF16, Travel::kWhole, 1);
  expect_near(run().trace, wide.trace, 0.01);
  expect_predicted_bytes(wide, step, kTwoByTwo);
  options_.zero_stage = 0;
  use(Travel::kWhole, Travel::kWhole, 1);
  const OnHosts whole = run();
  const Bytes whole_step = predicted(kTwoByTwo);
  use(Travel::kBF16, Travel::kWhole, 1);
  expect_near(run().trace, whole.trace, 0.01);
  expect_predicted_bytes(whole, whole_step, kTwoByTwo);
}

TEST_F(BetweenHostsRuns, OnOneHostNothingIsRounded) {
  const std::vector<int> one = {0, 0, 0, 0};
  const OnHosts off = run(one);
  use_all();
  const OnHosts asked = run(one);
  EXPECT_EQ(first_difference(off.trace, asked.trace), "");
  const model::OpenedModel opened = open_run_model(options_);
  const RunPlan plan =
      make_run_plan(options_, opened.model, {4, core::ParamSharing::kOneHost, 1, one});
  const std::vector<std::string> words = between_hosts_words(options_, plan);
  ASSERT_EQ(words.size(), 1U);
  EXPECT_NE(words[0].find("nothing travels between hosts"), std::string::npos);
}

TEST_F(BetweenHostsRuns, Bf16WeightsTravelInBlocksToo) {
  options_.element = core::DType::kBF16;
  const OnHosts wide = run();
  const Bytes step = predicted(kTwoByTwo);
  use_all();
  const OnHosts narrow = run();
  expect_near(narrow.trace, wide.trace, 0.02);
  EXPECT_EQ(first_difference(narrow.trace, run().trace), "");
  expect_predicted_bytes(wide, step, kTwoByTwo);
}

// A device's ranks are staged through their hosts.
TEST_F(BetweenHostsRuns, ADeviceHasTheBitsOfTheCpu) {
  use_all();
  const RunTrace cpu = run().trace;
  options_.device.kind = DeviceKind::kFake;
  EXPECT_EQ(first_difference(cpu, run().trace), "");
}

// Weights change between a forward and its validation; the ranks of a pipe have other hosts.
TEST_F(BetweenHostsRuns, ASecondCopyFollowsAnUpdateThatIsUndone) {
  options_.pipe_parallel_size = 2;
  options_.post_validation = true;
  const std::vector<int> hosts = {0, 0, 1, 1, 0, 0, 1, 1};
  const RunTrace without = run(hosts).trace;
  use(Travel::kWhole, Travel::kWhole, 2);
  EXPECT_EQ(first_difference(without, run(hosts).trace), "");
}

TEST_F(BetweenHostsRuns, WhatDoesNotFitTheHostsIsRefusedWithTheNumberThatFits) {
  const auto refusal = [&](const std::vector<int>& host_of) -> std::string {
    try {
      predicted(host_of);
    } catch (const core::UserError& error) {
      return error.what();
    }
    return "accepted";
  };
  use(Travel::kWhole, Travel::kWhole, 4);
  EXPECT_NE(refusal(kTwoByTwo).find("set it to 2 (zero_hpz_partition_size=4"), std::string::npos)
      << refusal(kTwoByTwo);
  EXPECT_NE(refusal({0, 1, 2, 3}).find("set it to 1, which turns it off"), std::string::npos);
  EXPECT_NE(refusal({0, 0, 0, 1}).find("equally many data ranks on every host"), std::string::npos);
  options_.device.kind = DeviceKind::kCuda;
  EXPECT_NE(refusal(kTwoByTwo).find("ranks that compute on CPUs"), std::string::npos);
  use(Travel::kBF16, Travel::kWhole, 1);
  EXPECT_EQ(refusal(kTwoByTwo), "accepted");
  const model::OpenedModel opened = open_run_model(options_);
  const RunPlan plan = make_run_plan(options_, opened.model, {.ranks = 4, .host_of = kTwoByTwo});
  EXPECT_EQ(between_hosts_words(options_, plan),
            std::vector<std::string>{
                "between GPUs gradients travel in fp32; communication_data_type has no effect"});
}

TEST_F(BetweenHostsRuns, TheWordsHaveTheBounds) {
  use_all();
  const model::OpenedModel opened = open_run_model(options_);
  const RunPlan plan = make_run_plan(options_, opened.model, {.ranks = 4, .host_of = kTwoByTwo});
  const std::string words = core::join(between_hosts_words(options_, plan), "\n");
  for (const char* bound : {"1/14 of the largest", "1/254 of the largest", "blocks of 512",
                            "the 2 data ranks of a host"}) {
    EXPECT_NE(words.find(bound), std::string::npos) << words;
  }
  use(Travel::kWhole, Travel::kWhole, 1);
  const RunPlan off = make_run_plan(options_, opened.model, {.ranks = 4, .host_of = kTwoByTwo});
  EXPECT_TRUE(between_hosts_words(options_, off).empty());
}

// Slices are whole blocks: 4 bytes of a number become 1 + 4/512, or 1/2 + 4/512.
TEST_F(BetweenHostsRuns, PlannedBytesAreThoseOfBlocks) {
  const model::OpenedModel opened = open_run_model(options_);
  const auto wire = [&] {
    return make_run_plan(options_, opened.model, {.ranks = 4, .host_of = kTwoByTwo}).wire_bytes(0);
  };
  auto wide = wire();
  use(Travel::kInt4, Travel::kInt8, 1);
  auto narrow = wire();
  EXPECT_EQ(narrow.at("g").count() * 512, wide.at("g").count() * 129);
  EXPECT_EQ(narrow.at("R").count() * 512, wide.at("R").count() * 65);
  use(Travel::kBF16, Travel::kWhole, 1);
  EXPECT_EQ(wire().at("R") * 2, wide.at("R"));
  EXPECT_EQ(wire().at("g"), wide.at("g"));
}

// Each rank keeps half of every unit.
TEST_F(BetweenHostsRuns, TheSecondCopyIsCharged) {
  const model::OpenedModel opened = open_run_model(options_);
  const auto params = [&] {
    return make_run_plan(options_, opened.model, {.ranks = 4, .host_of = kTwoByTwo})
        .memory(0)
        .params.count();
  };
  const std::int64_t slices = params();
  use(Travel::kWhole, Travel::kWhole, 2);
  EXPECT_EQ(params(), slices + 2 * slices);  // a slice is a fourth
}

}  // namespace
}  // namespace fm::engine
