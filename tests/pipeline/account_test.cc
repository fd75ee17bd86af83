// Byte counts worked out by hand for a tiny model on two data ranks (slices are whole blocks of
// 1,024 elements of 4 bytes):
//   unit       elements   slice   padded
//   embedding     3,000   2,048    4,096
//   block         5,000   3,072    6,144
//   head          1,500   1,024    2,048
//   together      9,500   6,144   12,288
#include "pipeline/account.h"

#include <gtest/gtest.h>

#include "tests/pipeline/built_programs.h"

namespace fm::pipeline {
namespace {

using core::Bytes;
using core::Elements;
using core::SumOrder;

// Everything in fp32 elements.
UnitFootprint footprint(std::int64_t own, std::int64_t kept, std::int64_t parked,
                        std::int64_t scratch) {
  UnitFootprint out;
  out.own = Elements(own);
  out.kept = Bytes(4 * kept);
  out.parked = Bytes(4 * parked);
  out.scratch = Bytes(4 * scratch);
  return out;
}

AccountInput input_of(const BuildShape& shape, int dp_size = 2) {
  AccountInput input;
  input.units = placement_of(shape);
  input.plan = core::plan_of(shape.zero_stage, shape.order);
  input.order = shape.order;
  input.dp_size = dp_size;
  input.micros = shape.micros;
  input.recompute = shape.recompute;
  input.hidden = Elements(100);
  input.footprints.push_back(footprint(3000, 0, 0, 50));
  for (int i = 0; i < shape.blocks; ++i) input.footprints.push_back(footprint(5000, 700, 300, 200));
  input.footprints.push_back(footprint(1500, 0, 0, 900));
  if (shape.tied) input.footprints.back().tied = Elements(3000);
  return input;
}

MemoryForecast forecast(const BuildShape& shape, int pipe_rank = 0, int dp_size = 2) {
  const auto programs = built(shape);
  return forecast_memory(programs[static_cast<std::size_t>(pipe_rank)], input_of(shape, dp_size),
                         pipe_rank);
}

// "R 49152 p 24576 ": bytes on the wire, pictures that send nothing left out.
std::string wire(const BuildShape& shape, int pipe_rank = 0, int dp_size = 2) {
  const auto programs = built(shape);
  std::string out;
  for (const auto& [picture, bytes] : wire_bytes(programs[static_cast<std::size_t>(pipe_rank)],
                                                 input_of(shape, dp_size), pipe_rank)) {
    if (bytes.count() > 0) out += picture + " " + std::to_string(bytes.count()) + " ";
  }
  return out;
}

void expect_state(const MemoryForecast& out, std::int64_t params, std::int64_t grads,
                  std::int64_t optimizer) {
  EXPECT_EQ(out.params, Bytes(params));
  EXPECT_EQ(out.grads, Bytes(grads));
  EXPECT_EQ(out.optimizer, Bytes(optimizer));
}

BuildShape tiny(int zero_stage, SumOrder order = SumOrder::kFast) {
  return {.micros = 3, .blocks = 1, .zero_stage = zero_stage, .order = order};
}

constexpr std::int64_t kWhole = 4 * 12288;   // every rank
constexpr std::int64_t kSlices = 4 * 6144;   // one slice each
constexpr std::int64_t kBlock = 4 * 6144;    // largest unit, padded
constexpr std::int64_t kHeadWork = 4 * 900;  // largest scratch

TEST(Account, OwnedStateFallsWithTheZeroStage) {
  expect_state(forecast(tiny(0)), kWhole, kWhole, 2 * kWhole);
  expect_state(forecast(tiny(1)), kWhole, kWhole, 2 * kSlices);
  expect_state(forecast(tiny(2)), kWhole, kSlices, 2 * kSlices);
  expect_state(forecast(tiny(3)), kSlices, kSlices, 2 * kSlices);
}

TEST(Account, SlotsHoldOneGradientAndUnderZero3OneUnit) {
  EXPECT_EQ(forecast(tiny(0)).slots, Bytes(0));
  EXPECT_EQ(forecast(tiny(1)).slots, Bytes(0));
  EXPECT_EQ(forecast(tiny(2)).slots, Bytes(kBlock));
  EXPECT_EQ(forecast(tiny(3)).slots, Bytes(2 * kBlock));
}

TEST(Account, ScratchHoldsAReducedGradientOnItsWayToTheSum) {
  EXPECT_EQ(forecast(tiny(0)).scratch, Bytes(kHeadWork));
  EXPECT_EQ(forecast(tiny(1)).scratch, Bytes(kHeadWork));
  EXPECT_EQ(forecast(tiny(2)).scratch, Bytes(kHeadWork + 4 * 3072));
  EXPECT_EQ(forecast(tiny(3)).scratch, Bytes(kHeadWork + 4 * 3072));
  BuildShape one_micro = tiny(2);
  one_micro.micros = 1;  // nothing to add to
  EXPECT_EQ(forecast(one_micro).scratch, Bytes(kHeadWork));
}

TEST(Account, ASecondGradientSlotIsChargedWithWhatArrivesMeanwhile) {
  AccountInput input = input_of(tiny(2));
  const auto of = [&] { return forecast_memory(built(tiny(2))[0], input, 0); };
  const MemoryForecast one = of();
  input.gradient_slots = 2;
  EXPECT_EQ(of().slots - one.slots, Bytes(kBlock));
  EXPECT_EQ(of().scratch - one.scratch, Bytes(4 * 3072));
}

TEST(Account, CanonicalOrderAddsItsCounter) {
  // Three micros: one level beside the gradient itself. Whole gradients are added in their slot.
  const MemoryForecast zero0 = forecast(tiny(0, SumOrder::kCanonical));
  EXPECT_EQ(zero0.slots, Bytes(kBlock));
  EXPECT_EQ(zero0.scratch, Bytes(kHeadWork + kWhole));
  const MemoryForecast zero2 = forecast(tiny(2, SumOrder::kCanonical));
  EXPECT_EQ(zero2.scratch, Bytes(kHeadWork + 4 * 3072 + kSlices));
}

TEST(Account, CounterLevelsAreTheLogarithmOfTheMicros) {
  constexpr int kLevels[] = {0, 1, 1, 2, 2, 2, 2, 3, 3};  // micros 1 to 9
  for (int micros = 1; micros <= 9; ++micros) {
    BuildShape shape = tiny(1, SumOrder::kCanonical);
    shape.micros = micros;
    EXPECT_EQ(pool_sizes(built(shape)[0], input_of(shape), 0).counter_levels, kLevels[micros - 1]);
    shape.order = SumOrder::kFast;
    EXPECT_EQ(pool_sizes(built(shape)[0], input_of(shape), 0).counter_levels, 0);
  }
}

TEST(Account, StateIsOneNthWithinPadding) {
  const std::int64_t whole = 4 * 9500;
  for (const int dp_size : {1, 2, 4, 8}) {
    const MemoryForecast out = forecast(tiny(3), 0, dp_size);
    for (const Bytes cut : {out.params, out.grads, out.optimizer / 2}) {
      EXPECT_GE(cut.count() * dp_size, whole);
      EXPECT_LT(cut.count() * dp_size, whole + 3 * 4 * 1024 * dp_size);  // per unit and owner
    }
  }
}

TEST(Account, ActivationsAreHiddenStatesKeptValuesAndOneParkedUnit) {
  // 1F1B alone: two hidden states, one more while the block goes backward; one micro kept.
  EXPECT_EQ(forecast(tiny(0)).activations, Bytes(4 * (3 * 100 + 700 + 300)));
  BuildShape shape = tiny(0);
  shape.schedule = gpipe;  // all three micros wait
  EXPECT_EQ(forecast(shape).activations, Bytes(4 * (7 * 100 + 3 * 700 + 300)));
  shape.recompute = true;
  EXPECT_EQ(forecast(shape).activations, Bytes(4 * (7 * 100 + 700 + 300)));
}

TEST(Account, TheTotalIsTheSumOfTheAccounts) {
  const MemoryForecast out = forecast(tiny(3));
  EXPECT_EQ(out.total(), Bytes(kSlices + kSlices + 2 * kSlices + 2 * kBlock + kHeadWork + 4 * 3072 +
                               4 * (3 * 100 + 700 + 300)));
}

TEST(Account, InBf16ParametersAndHiddenStatesHalveAndTheOptimizerKeepsAMaster) {
  const auto of = [](int zero_stage) {
    AccountInput input = input_of(tiny(zero_stage));
    input.element = core::DType::kBF16;
    return forecast_memory(built(tiny(zero_stage))[0], input, 0);
  };
  expect_state(of(0), kWhole / 2, kWhole, 3 * kWhole);
  expect_state(of(1), kWhole / 2, kWhole, 3 * kSlices);
  expect_state(of(2), kWhole / 2, kSlices, 3 * kSlices);
  expect_state(of(3), kSlices / 2, kSlices, 3 * kSlices);
  EXPECT_EQ(of(3).slots, Bytes(kBlock / 2 + kBlock));  // gathered in bf16, a gradient in fp32
  EXPECT_EQ(of(3).scratch, forecast(tiny(3)).scratch);
  // What units keep and park they say in bytes.
  EXPECT_EQ(of(0).activations, Bytes(2 * 3 * 100 + 4 * (700 + 300)));
}

TEST(Account, ATiedMatrixIsOwnedOnceButHasTwoGradients) {
  BuildShape shape = tiny(0);
  shape.tied = true;
  expect_state(forecast(shape), kWhole, kWhole + 4 * 4096, 2 * kWhole);
}

TEST(Account, OneTiedGradientIsOwnedOnceAndWaitsInASlotOfItsOwn) {
  BuildShape shape = tiny(0);
  shape.tied = shape.one_tied_gradient = true;
  expect_state(forecast(shape), kWhole, kWhole, 2 * kWhole);
  EXPECT_EQ(forecast(shape).slots, Bytes(0));
  shape.zero_stage = 2;
  expect_state(forecast(shape), kWhole, kSlices, 2 * kSlices);
  EXPECT_EQ(forecast(shape).slots, Bytes(kBlock + 4 * 4096));
  // Embedding 4,096, block 6,144 and head 2,048: each reduced once per micro-batch.
  EXPECT_EQ(wire(shape),
            "R " + std::to_string(3 * 4 * 12288 / 2) + " p " + std::to_string(4 * 12288 / 2) + " ");
}

TEST(Account, APartThatIsWrittenInPlaceTakesNoSlot) {
  BuildShape shape = tiny(2);
  for (const int dp_size : {2, 4}) {
    AccountInput input = input_of(shape, dp_size);
    const Elements whole = pool_sizes(built(shape)[0], input, 0).gradient_slot;
    input.plan = core::plan_of(2, SumOrder::kFast, core::ParamSharing::kOneHost);
    EXPECT_EQ(pool_sizes(built(shape)[0], input, 0).gradient_slot, whole - whole / dp_size);
  }
}

TEST(Account, BothEndsOfAPipeOwnTheTiedMatrix) {
  BuildShape shape = tiny(0);
  shape.pipe_ranks = 2;
  shape.blocks = 2;
  expect_state(forecast(shape, 1), 4 * 8192, 4 * 8192, 8 * 8192);  // block and head
  shape.tied = true;
  expect_state(forecast(shape, 1), 4 * 12288, 4 * 12288, 8 * 12288);
  expect_state(forecast(shape, 0), 4 * 10240, 4 * 10240, 8 * 10240);  // embedding and block
  shape.zero_stage = 3;
  expect_state(forecast(shape, 1), 4 * 6144, 4 * 6144, 8 * 6144);
}

TEST(Account, EndsOfAPipeReceiveTheOtherEndsTiedGradient) {
  BuildShape shape{.pipe_ranks = 3, .micros = 1, .blocks = 3, .tied = true};
  EXPECT_EQ(forecast(shape, 0).scratch, Bytes(4 * 200 + 4 * 4096));
  EXPECT_EQ(forecast(shape, 1).scratch, Bytes(4 * 200));
  EXPECT_EQ(forecast(shape, 2).scratch, Bytes(kHeadWork + 4 * 4096));
  shape.zero_stage = 1;  // owners exchange their slices
  EXPECT_EQ(forecast(shape, 2).scratch, Bytes(kHeadWork + 4 * 2048));
}

TEST(Account, AGatheredTiedHeadNeedsBothMatricesInItsSlot) {
  BuildShape shape = tiny(3);
  shape.tied = true;
  AccountInput input = input_of(shape);
  input.footprints[0].own = input.footprints[2].tied = Elements(9000);  // slice 5,120
  const PoolSizes sizes = pool_sizes(built(shape)[0], input, 0);
  EXPECT_EQ(sizes.gather_slot, Elements(10240 + 2048));
  EXPECT_EQ(sizes.gradient_slot, Elements(10240 + 2048));
  EXPECT_EQ(sizes.incoming, Elements(5120));
}

TEST(Account, TheTiedMatrixMayBeTheLargestGradientThatArrives) {
  const BuildShape shape{.pipe_ranks = 2, .micros = 2, .blocks = 2, .tied = true, .zero_stage = 2};
  AccountInput input = input_of(shape);
  input.footprints[3].tied = Elements(9000);
  EXPECT_EQ(pool_sizes(built(shape)[1], input, 1).incoming, Elements(5120));
}

TEST(Account, WithoutGathersThereIsNoSlotToSize) {
  EXPECT_EQ(pool_sizes(built(tiny(2))[0], input_of(tiny(2)), 0).gather_slot, Elements(0));
  EXPECT_EQ(pool_sizes(built(tiny(3))[0], input_of(tiny(3)), 0).gather_slot, Elements(6144));
}

TEST(ActivationPeaks, OneFOneBOverTwoPipeRanksByHand) {
  const BuildShape shape{.pipe_ranks = 2, .micros = 2, .blocks = 2};
  const Placement units = placement_of(shape);
  // L0 F0.0 F0.1 sa0.2 L1 F1.0 rg0.1 F1.1 sa1.2 B0.1 ..: two micros of two hidden states, the sent
  // one held until the next send, a gradient that came early.
  const auto first =
      parse("L0 F0.0 F0.1 sa0.2 L1 F1.0 rg0.1 F1.1 sa1.2 B0.1 B0.0 rg1.1 B1.1 B1.0 O");
  EXPECT_EQ(activation_peaks(first, units, false).hidden, 5);
  EXPECT_EQ(activation_peaks(first, units, false).kept, 2);
  const auto last = parse("L0 ra0.2 F0.2 X0 B0.2 sg0.1 ra1.2 L1 F1.2 X1 B1.2 sg1.1 O");
  EXPECT_EQ(activation_peaks(last, units, false).hidden, 4);
  EXPECT_EQ(activation_peaks(last, units, false).kept, 1);
}

TEST(ActivationPeaks, KeptMicrosFollowTheScheduleAndRecomputationKeepsOne) {
  constexpr int kBlocksPerRank = 2;
  for (int pipe_ranks = 1; pipe_ranks <= 4; ++pipe_ranks) {
    for (const int micros : {1, 3, 6}) {
      BuildShape shape{one_f_one_b, pipe_ranks, micros, pipe_ranks * kBlocksPerRank};
      for (int rank = 0; rank < pipe_ranks; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        shape.schedule = one_f_one_b;
        EXPECT_EQ(activation_peaks(lowered(shape)[at], placement_of(shape), false).kept,
                  kBlocksPerRank * std::min(pipe_ranks - rank, micros));
        shape.schedule = gpipe;
        EXPECT_EQ(activation_peaks(lowered(shape)[at], placement_of(shape), false).kept,
                  kBlocksPerRank * micros);
        const Program again = insert_recompute(lowered(shape)[at], placement_of(shape));
        EXPECT_EQ(activation_peaks(again, placement_of(shape), true).kept, 1);
      }
    }
  }
}

TEST(ActivationPeaks, EvaluationKeepsTwoHiddenStatesAndNothingElse) {
  const ActivationPeaks peaks =
      activation_peaks(parse("L0 F0.0 F0.1 F0.2 X0 L1 F1.0 F1.1 F1.2 X1 O"), split(2, 1), false);
  EXPECT_EQ(peaks.hidden, 2);
  EXPECT_EQ(peaks.kept, 1);  // work space of the block that runs
}

TEST(ActivationPeaks, WhatIsParkedWaitsForItsWeightHalf) {
  const Placement units = split(2, 1);
  const auto parked = [&](const char* backward) {
    const Program program = parse(std::string("L0 F0.0 F0.1 F0.2 X0 ") + backward);
    return activation_peaks(program, units, false).parked;
  };
  EXPECT_EQ(parked("B0.2 B0.1 B0.0"), 1);
  EXPECT_EQ(parked("I0.2 W0.2 I0.1 W0.1 I0.0 W0.0"), 1);
  EXPECT_EQ(parked("I0.2 I0.1 W0.2 W0.1 I0.0 W0.0"), 2);
  EXPECT_EQ(parked("I0.2 I0.1 I0.0 W0.2 W0.1 W0.0"), 3);
  EXPECT_EQ(activation_peaks(parse("L0 F0.0 F0.1 F0.2 X0 O"), units, false).parked, 0);
}

TEST(ActivationPeaks, RecomputedValuesWaitForTheWeightHalf) {
  const Program program = parse("L0 F0.0 F0.1 F0.2 X0 C0.2 I0.2 C0.1 I0.1 I0.0 W0.2 W0.1 W0.0 O");
  EXPECT_EQ(activation_peaks(program, split(2, 1), true).kept, 2);
}

TEST(GatherPeak, CountsUnitsWholeAtOnce) {
  EXPECT_EQ(gather_peak(parse("g.0 F0.0 r.0 g.1 F0.1 r.1")), 1);
  EXPECT_EQ(gather_peak(parse("g.0 g.1 F0.0 r.0 g.2 F0.1 r.1 r.2")), 2);
  EXPECT_EQ(gather_peak(parse("F0.0 F0.1")), 0);
}

TEST(Wire, BytesOfOneStepByZeroStage) {
  // A reduce-scatter or gather of a unit costs its slice once on two ranks, an all-reduce twice.
  EXPECT_EQ(wire(tiny(0)), "R 49152 ");
  EXPECT_EQ(wire(tiny(1)), "R 24576 p 24576 ");
  EXPECT_EQ(wire(tiny(2)), "R 73728 p 24576 ");  // each of three micros
  // Per micro: embedding, block twice, head = 4 (2048 + 2 x 3072 + 1024).
  EXPECT_EQ(wire(tiny(3)), "R 73728 g 110592 ");
}

TEST(Wire, InBf16WeightsAndHiddenStatesAreHalfAsWideAndGradientsAreNot) {
  BuildShape shape = tiny(3);
  shape.pipe_ranks = 2;
  shape.blocks = 2;
  AccountInput input = input_of(shape);
  const auto wide = wire_bytes(built(shape)[0], input, 0);
  input.element = core::DType::kBF16;
  const auto narrow = wire_bytes(built(shape)[0], input, 0);
  for (const char* picture : {"g", "sa"}) {
    EXPECT_GT(wide.at(picture).count(), 0);
    EXPECT_EQ(narrow.at(picture) * 2, wide.at(picture)) << picture;
  }
  EXPECT_EQ(narrow.at("R"), wide.at("R"));
  shape.zero_stage = 2;
  input.plan = core::plan_of(2, SumOrder::kFast);
  EXPECT_EQ(wire_bytes(built(shape)[0], input, 0).at("p") * 2,
            wire_bytes(built(shape)[0], input_of(shape), 0).at("p"));
}

TEST(Wire, CanonicalOrderCostsZero01EveryMicro) {
  EXPECT_EQ(wire(tiny(0, SumOrder::kCanonical)), "R 147456 ");
  EXPECT_EQ(wire(tiny(1, SumOrder::kCanonical)), "R 147456 p 24576 ");
  EXPECT_EQ(wire(tiny(2, SumOrder::kCanonical)), wire(tiny(2)));
}

TEST(Wire, MoreDataRanksSendToMore) {
  // Slices of 1024, 2048 and 1024 elements to three others.
  EXPECT_EQ(wire(tiny(1), 0, 4), "R 49152 p 49152 ");
  EXPECT_EQ(wire(tiny(3), 0, 1), "");
}

TEST(Wire, PipeNeighboursExchangeOneHiddenStatePerMicro) {
  BuildShape shape = tiny(0);
  shape.pipe_ranks = 3;
  shape.blocks = 3;
  EXPECT_EQ(wire(shape, 0, 1), "sa 1200 ");
  EXPECT_EQ(wire(shape, 1, 1), "sa 1200 sg 1200 ");
  EXPECT_EQ(wire(shape, 2, 1), "sg 1200 ");
}

TEST(Wire, EndsOfAPipeExchangeTheTiedGradientOnce) {
  BuildShape shape{.pipe_ranks = 2, .micros = 1, .blocks = 2, .tied = true};
  EXPECT_EQ(wire(shape, 0, 1), "Rt 12288 sa 400 ");  // 3,000 elements padded to 3,072
  EXPECT_EQ(wire(shape, 1, 1), "Rt 12288 sg 400 ");
  shape.zero_stage = 1;  // own slice of 2,048 only; embedding and block: 5,120 elements of slices
  EXPECT_EQ(wire(shape, 0), "R 20480 Rt 8192 p 20480 sa 400 ");
}

TEST(Wire, OnePipeRankKeepsItsTiedMatrixToItself) {
  BuildShape shape = tiny(1);
  shape.tied = true;
  // Two gradients of the matrix are reduced, one matrix is published.
  EXPECT_EQ(wire(shape), "R 32768 p 24576 ");
}

}  // namespace
}  // namespace fm::pipeline
