// Bytes of a plan worked out by hand from the sizes of its layout and its pools.
#include "engine/plan/run_plan.h"

#include <gtest/gtest.h>

#include <fstream>

#include "comm/meet/world.h"
#include "comm/nccl/nccl.h"
#include "core/check.h"
#include "engine/plan/plan_simulation.h"
#include "engine/plan/run_model.h"
#include "engine/plan/schedule_account.h"
#include "engine/plan/zero_prices.h"
#include "engine/step/rank_state.h"
#include "kernels/attention/head_group.h"
#include "kernels/threads.h"
#include "small_run.h"

namespace fm::engine {
namespace {

using core::Bytes;
using Wire = std::map<std::string, Bytes>;

class Plans : public testing::Test {
 protected:
  Plans() : options_(small_options(testing::TempDir() + "/fm_run_plan", false)) {
    options_.batch = {std::nullopt, 2, 3};  // rows of a micro-batch, micro-batches
  }
  RunPlan plan(int ranks, int tp_rank = 0) {
    opened_ = part_of(open_run_model(options_), options_, tp_rank);
    return make_run_plan(options_, opened_.model, {ranks});
  }
  // Of one hidden state in fp32: rows x tokens x 96.
  Bytes hidden() const { return Bytes(4 * 2 * options_.max_seq_len * 96); }

  TrainOptions options_;
  model::OpenedModel opened_;
};

TEST_F(Plans, PipeNeighboursExchangeOneHiddenStatePerMicro) {
  options_.pipe_parallel_size = 3;
  const auto of = [&](int rank) { return plan(3).wire_bytes(rank); };
  // One data rank reduces with nobody, and its sums stay where they are.
  EXPECT_EQ(of(0), (Wire{{"R", Bytes(0)}, {"sa", hidden() * 3}}));
  EXPECT_EQ(of(1), (Wire{{"R", Bytes(0)}, {"sa", hidden() * 3}, {"sg", hidden() * 3}}));
  EXPECT_EQ(of(2), (Wire{{"R", Bytes(0)}, {"sg", hidden() * 3}}));
}

// 64 MiB in rows of each other rank, of multiples of 64 numbers.
TEST_F(Plans, OfCardsCountTheMemoryOfCanonicalSums) {
  options_.device.kind = DeviceKind::kCuda;
  options_.sum_order = core::SumOrder::kCanonical;
  const auto scratch = [&](int ranks, bool shared) {
    options_.device.shared = shared;
    return plan(ranks).memory(0).scratch;
  };
  EXPECT_EQ(scratch(4, false) - scratch(4, true), Bytes(3 * 4 * 5'592'384));
  EXPECT_EQ(scratch(1, false), scratch(1, true)) << "one rank adds nothing";
}

// What the group of data ranks would refuse at the start.
TEST_F(Plans, OfMoreCardsThanTheCanonicalSumAddsAreRefused) {
  options_.device.kind = DeviceKind::kCuda;
  options_.sum_order = core::SumOrder::kCanonical;
  EXPECT_EQ(plan(comm::kMostCanonicalRanks).mesh.data, 64);
  try {
    plan(65);
    FAIL();
  } catch (const core::UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "\"communication_order\": \"canonical\" needs at most 64 ranks with cards in a group; "
        "use \"fast\" (group dp, 65 ranks)");
  }
  options_.pipe_parallel_size = 2;
  EXPECT_EQ(plan(128).mesh.data, 64);
  options_.pipe_parallel_size = 1;
  options_.device.shared = true;  // they add on the host
  EXPECT_EQ(plan(65).mesh.data, 65);
  options_.device = {};
  EXPECT_EQ(plan(65).mesh.data, 65);
  options_.device.kind = DeviceKind::kCuda;
  options_.sum_order = core::SumOrder::kFast;
  EXPECT_EQ(plan(65).mesh.data, 65);
}

TEST_F(Plans, OfDevicesRoundHiddenStatesToWholeAlignments) {
  options_.max_seq_len = 7;
  options_.element = core::DType::kBF16;
  EXPECT_EQ(plan(1).hidden_slot(), Bytes(2 * 2 * 7 * 96));  // 2688
  options_.device.kind = DeviceKind::kFake;
  EXPECT_EQ(plan(1).hidden_slot(), Bytes(2816));
}

TEST_F(Plans, InBf16WeightsAndHiddenStatesAreHalfAsWideAndGradientsAreNot) {
  options_.pipe_parallel_size = 2;
  options_.zero_stage = 3;
  const Wire wide = plan(4).wire_bytes(0);
  options_.element = core::DType::kBF16;
  const Wire narrow = plan(4).wire_bytes(0);
  for (const char* picture : {"g", "sa"}) {
    EXPECT_GT(wide.at(picture).count(), 0);
    EXPECT_EQ(narrow.at(picture) * 2, wide.at(picture)) << picture;
  }
  EXPECT_EQ(narrow.at("R"), wide.at("R"));
  options_.zero_stage = 2;
  const Bytes published = plan(4).wire_bytes(0).at("p");
  options_.element = core::DType::kF32;
  EXPECT_EQ(published * 2, plan(4).wire_bytes(0).at("p"));
}

// Blocks of 1 + 1 + 1, a head of 9 and messages of 0.5: 4 | 1 and the head are 12 each. By hand:
// rank 0 has F 0-4 4-8, B 17-25, F 25-29, B 29-37 42-50; rank 1 F 4.5-5.5, X -14.5, B -16.5,
// F 16.5-17.5, X -26.5, B -28.5, F 29.5-30.5, X -39.5, B -41.5.
TEST_F(Plans, MeasuredTimesDecideCutCostsAndMakespan) {
  options_.pipe_parallel_size = 2;
  options_.unit_times = {.embedding = {}, .block = {1, 1, 1}, .head = 9, .message = 0.5};
  const RunPlan measured = plan(2);
  EXPECT_EQ(measured.units().owner_of(4), 0);
  EXPECT_EQ(measured.units().owner_of(5), 1);
  const auto expect = [&](int rank, double forward, double input, double weight) {
    const pipeline::PhaseCosts costs = measured.pipe.costs_of(rank);
    EXPECT_EQ(costs.forward, forward);
    EXPECT_EQ(costs.input, input);
    EXPECT_EQ(costs.weight, weight);
    EXPECT_EQ(costs.comm, 0.5);
  };
  expect(0, 4, 4, 4);
  expect(1, 1, 10, 1);
  EXPECT_EQ(simulate_plan(measured).makespan, 50.0);
  options_.recompute = true;
  EXPECT_EQ(plan(2).pipe.costs_of(0).input, 8.0);
}

// One Llama block sums the products of attention and MLP and two gradients of what they read, all
// tokens x 96 fp32; to sum n bytes over two ranks, each sends n. The embedding sums its rows, the
// head its gradient and gathers three doubles of every row.
TEST_F(Plans, TensorRanksSendTheirSums) {
  options_.model_parallel_size = 2;
  options_.pipe_parallel_size = 1;
  const std::int64_t micros = 3;
  const Wire wire = plan(2).wire_bytes(0);
  const std::int64_t blocks = plan(2).units().unit_count() - 2;
  const Bytes each = hidden() * micros;
  EXPECT_EQ(wire.at("F"), each * (2 * blocks + 1));
  EXPECT_EQ(wire.at("B"), each * (2 * blocks));
  EXPECT_EQ(wire.at("X"), each + Bytes(2 * options_.max_seq_len * 3 * 8 * micros));
  // Each rank has half of the tokens: gathers of 2 and 2 + 2 inputs of products, half of the bytes
  // of a sum, which halves too; two norms of 96 are summed whole.
  options_.megatron_sequence_parallel = true;
  const Wire split = plan(2).wire_bytes(0);
  const Bytes half = Bytes(each.count() / 2);
  EXPECT_EQ(split.at("F"), half * (4 * blocks) + each);
  EXPECT_EQ(split.at("B"), half * (6 * blocks + 1) + Bytes(2 * 96 * 4 * micros * blocks));
  EXPECT_EQ(split.at("X"), wire.at("X") + half);
}

// hidden 96, FFN 250 and 6 heads are halved, and so is the vocabulary but for half a row; norms,
// 11 of 96, are not. Gaps and the ends of blocks of 1,024 take some more.
TEST_F(Plans, TwoTensorRanksHaveHalfOfTheParameters) {
  const MemoryForecast alone = plan(1).memory(0);
  options_.model_parallel_size = 2;
  const MemoryForecast half = plan(2).memory(0);
  const std::int64_t norms = 4 * 11 * 96;
  const std::int64_t rows = 2 * 4 * 96;
  const std::int64_t most = 7 * 4 * 1024;
  for (const auto member : {&MemoryForecast::params, &MemoryForecast::grads}) {
    const std::int64_t expected = ((alone.*member).count() + norms + rows) / 2;
    EXPECT_NEAR(static_cast<double>((half.*member).count()), static_cast<double>(expected),
                static_cast<double>(most));
  }
  EXPECT_LT(half.activations.count(), alone.activations.count());
  options_.megatron_sequence_parallel = true;
  EXPECT_LT(plan(2).memory(0).activations.count(), half.activations.count());
  EXPECT_EQ(plan(2).hidden.count() * 2, 2 * 16 * 96);
}

// 777 rows of the vocabulary are 389 and 388: a rank that went by its own part could cut the model
// elsewhere, or search another order, than the ranks that it computes with.
TEST_F(Plans, TensorRanksOfUnequalPartsDecideAlike) {
  options_.pipe_parallel_size = 2;
  options_.model_parallel_size = 2;
  for (const char* schedule : {"1f1b", "zb-2p"}) {
    options_.schedule = &schedule_named(schedule);
    const RunPlan first = plan(4, 0);
    const RunPlan second = plan(4, 1);
    EXPECT_EQ(first.train, second.train);
    for (int rank = 0; rank < 2; ++rank) {
      const auto costs = [rank](const RunPlan& of) {
        const pipeline::PhaseCosts at = of.pipe.costs_of(rank);
        return std::vector<double>{at.forward, at.input, at.weight, at.held, at.parked};
      };
      EXPECT_EQ(costs(first), costs(second)) << rank;
    }
  }
}

TEST_F(Plans, ActivationsAreHiddenStatesKeptValuesAndParkedOnes) {
  const auto activations = [&](int hidden_count, int kept, int parked) {
    const RunPlan made = plan(1);
    const pipeline::PoolSizes sizes = made.pools(0);
    EXPECT_GT(sizes.kept.count(), 0);
    EXPECT_GT(sizes.parked.count(), 0);
    EXPECT_EQ(made.memory(0).activations,
              hidden() * hidden_count + sizes.kept * kept + sizes.parked * parked);
  };
  // Five blocks, 1F1B alone: a state per unit, one more while a block goes backward.
  activations(7, 5, 1);
  options_.recompute = true;
  activations(7, 1, 1);
}

// A head of 96 / 6 elements: 8 cosines and 8 sines at each position of a row, whoever shares it.
TEST_F(Plans, RopesTablesHaveARowsPositions) {
  EXPECT_EQ(plan(1).memory(0).tables, Bytes(4 * 16 * 16));
  options_.max_seq_len = 64;
  EXPECT_EQ(plan(1).memory(0).tables, Bytes(4 * 16 * 64));
  options_.sequence_parallel_size = 2;
  EXPECT_EQ(plan(2).memory(0).tables, Bytes(4 * 16 * 64));
}

TEST_F(Plans, TheTotalIsTheSumOfTheAccounts) {
  options_.zero_stage = 3;
  const MemoryForecast out = plan(2).memory(0);
  for (const Bytes part : {out.params, out.grads, out.optimizer, out.slots, out.scratch,
                           out.activations, out.tables}) {
    EXPECT_GT(part.count(), 0);
  }
  EXPECT_EQ(out.total(), out.params + out.grads + out.optimizer + out.slots + out.scratch +
                             out.activations + out.tables);
}

// Two data ranks on two hosts: a gather and a reduction of a unit send one slice in fp32.
TEST_F(Plans, WhatIsReducedAndGatheredOnceIsSentOnce) {
  options_.zero_stage = 3;
  Bytes once;
  {
    const RunPlan often = plan(2);
    const zero::Layout layout = often.layout(0, 0);
    for (int flat_param = 0; flat_param < layout.count(); ++flat_param) {
      once += core::bytes_of(layout.at(flat_param).map.slice(), core::DType::kF32);
    }
    EXPECT_EQ(often.wire_bytes(0).at("R"), once * 3);
    EXPECT_GT(often.wire_bytes(0).at("g"), once * 3);
  }
  options_.reductions = core::Reductions::kOncePerStep;
  options_.regather = core::Regather::kPhase;
  EXPECT_EQ(plan(2).wire_bytes(0), (Wire{{"R", once}, {"g", once}}));

  const std::vector<ZeroPrice> prices = zero_prices(options_, opened_.model, {2});
  ASSERT_EQ(prices.size(), 4U);
  EXPECT_TRUE(prices[3].chosen);
  EXPECT_FALSE(prices[0].chosen);
  EXPECT_EQ(prices[3].sent, once * 2);
  EXPECT_EQ(prices[1].sent, once * 4);  // reduces three times, gathers once
  EXPECT_GT(prices[3].memory, prices[0].memory);
  EXPECT_TRUE(zero_prices(options_, opened_.model, {1}).empty());
}

// Every unit once forward, blocks and head once backward, whatever the number of micro-batches.
TEST_F(Plans, LayerMajorGathersOncePerPhase) {
  options_.zero_stage = 3;
  options_.schedule = &schedule_named("layer-major");
  for (const int micros : {1, 3, 8}) {
    options_.batch = {std::nullopt, 2, micros};
    const RunPlan made = plan(2);
    Bytes once;
    for (const zero::FlatParam& each : made.layout(0, 0).flat_params) {
      const bool block = made.units().is_block(each.unit);
      once += core::bytes_of(each.map.slice(), core::DType::kF32) * (block ? 2 : 1);
    }
    EXPECT_EQ(made.wire_bytes(0).at("g"), once) << micros;
    EXPECT_EQ(made.pools(0).gather_slots, options_.overlap && made.overlap ? 2 : 1) << micros;
  }
}

// Two rows of two key/value heads are four pieces of work; a thread that computes one has scratch
// of its own, whatever this process has. A head of 64 in rows of 64 takes more than all else here.
TEST_F(Plans, ScratchIsForTheThreadsOfTheWorld) {
  options_.model_config = testing::TempDir() + "/fm_run_plan/wide_heads.json";
  std::ofstream(options_.model_config) << R"({"model_type": "llama", "hidden_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64,
    "intermediate_size": 8, "vocab_size": 64, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": false})";
  options_.max_seq_len = 64;
  opened_ = open_run_model(options_);
  const Bytes each = core::Arena::aligned<float>(kernels::group_attention_backward_scratch(
      {.seq_len = 64, .heads = 1, .head_dim = 64, .q_stride = 128, .k_stride = 128}));
  const int here = kernels::kernel_threads();
  const auto scratch = [&](int threads) {
    return make_run_plan(options_, opened_.model, {.threads = threads}).memory(0).scratch;
  };
  for (const int others : {1, 3}) {
    kernels::set_kernel_threads(others);
    EXPECT_EQ(scratch(4) - scratch(1), each * 3);
    EXPECT_EQ(scratch(2) - scratch(1), each);
    EXPECT_EQ(scratch(9), scratch(4));
  }
  kernels::set_kernel_threads(here);
}

TEST_F(Plans, ARankComputesWithTheThreadsThatItsScratchIsFor) {
  opened_ = open_run_model(options_);
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const RunPlan made = make_run_plan(options_, opened_.model, {.threads = 3});
    core::Ledger ledger;
    const RankState state(options_, made, opened_.model, world, ledger);
    EXPECT_EQ(state.work.threads, 3);
  });
}

// Five blocks in segments of two: 1 2 | 3 4 | 5. Three inputs and the head's stay; while the last
// segment goes backward, one gradient more. In segments 3 4 and 1 2 an inner input is there, but
// one segment's input less. Two blocks are kept.
TEST_F(Plans, SegmentsKeepFewerInputsAndMoreBlocks) {
  options_.recompute = true;
  options_.checkpoint_segments = 3;
  const RunPlan made = plan(1);
  EXPECT_EQ(made.units().segment_blocks, 2);
  EXPECT_EQ(made.pools(0).peaks.kept, 2);
  EXPECT_EQ(made.pools(0).peaks.hidden, 5);
}

// 1F1B keeps p - r micro-batches, ZB-H2 2p - 1 of them (docs/schedules.md).
TEST(StudiedSchedules, KeepNoMoreThanTheLimitOrAreRefused) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_limit", false);
  options.pipe_parallel_size = 4;
  const auto study = [&](const char* name, std::optional<double> limit) {
    options.auto_schedule = std::string_view(name) == "auto";
    if (!options.auto_schedule) options.schedule = &schedule_named(name);
    options.activation_limit = limit;
    return study_schedule(options, 8).account;
  };
  EXPECT_EQ(study("1f1b", 4.0).peak_activations, (std::vector<double>{4, 3, 2, 1}));
  EXPECT_THROW(study("1f1b", 3.5), core::UserError);
  EXPECT_THROW(study("zb-h2", 6.0), core::UserError);
  EXPECT_EQ(study("zb-2p", 6.0).schedule, "zb-2p");
  EXPECT_GT(std::ranges::max(study("auto", std::nullopt).peak_activations), 3.0);
  EXPECT_LE(std::ranges::max(study("auto", 3.0).peak_activations), 3.0);
}

}  // namespace
}  // namespace fm::engine
