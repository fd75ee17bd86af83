// Byte counts worked out by hand for a tiny model on two data ranks (slices are whole blocks of
// 1,024 elements of 4 bytes):
//   unit       elements   slice   padded
//   embedding     3,000   2,048    4,096
//   block         5,000   3,072    6,144
//   head          1,500   1,024    2,048
//   together      9,500   6,144   12,288
#include "zero/layout.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/pipeline/built_programs.h"

namespace fm::zero {
namespace {

using core::Bytes;
using core::Elements;
using core::SumOrder;

using core::Account;
using pipeline::BuildShape;

// Tables of one tensor each, by unit; the embedding's serves the head of a tied model, too.
std::vector<core::ParamTable> tables_of(int blocks, std::int64_t embedding = 3000) {
  std::vector<core::ParamTable> tables;
  const auto add = [&](std::int64_t elements) {
    tables.emplace_back(std::vector<core::ParamEntry>{{.name = "w", .shape = {elements}}},
                        core::NoDecay{});
  };
  add(embedding);
  for (int block = 0; block < blocks; ++block) add(5000);
  add(1500);
  return tables;
}

// Owns what a layout points to.
struct Made {
  explicit Made(const BuildShape& shape, int pipe_rank = 0, int dp_size = 2,
                core::DType element = core::DType::kF32, int gradient_slots = 1,
                std::int64_t embedding = 3000,
                core::ParamSharing sharing = core::ParamSharing::kPrivate)
      : tables(tables_of(shape.blocks, embedding)) {
    LayoutInput input;
    input.units = pipeline::placement_of(shape);
    input.rules.plan = core::plan_of(shape.zero_stage, shape.order, sharing);
    input.rules.order = shape.order;
    input.rules.element = element;
    input.rules.dp_size = dp_size;
    input.rules.micros = shape.micros;
    input.rules.gradient_slots = gradient_slots;
    for (const core::ParamTable& table : tables) input.tables.push_back(&table);
    if (shape.tied) input.tied = &tables.front();
    layout = make_layout(input, pipe_rank, 0);
  }
  std::int64_t bytes(Account account) const { return layout.charged(account).count(); }

  std::vector<core::ParamTable> tables;
  Layout layout;
};

// "R 49152 p 24576 ": bytes on the wire but for hidden states, pictures that send nothing left out.
std::string wire(const BuildShape& shape, int pipe_rank = 0, int dp_size = 2,
                 core::DType element = core::DType::kF32) {
  const Made made(shape, pipe_rank, dp_size, element);
  std::map<std::string, Bytes> sent;
  const std::vector<pipeline::Program> programs = built(shape);
  for (const pipeline::Instruction& at : programs[static_cast<std::size_t>(pipe_rank)]) {
    sent[std::string(pipeline::row_of(at.op).picture)] +=
        made.layout.sent_by(at).value_or(Bytes(0));
  }
  std::string out;
  for (const auto& [picture, bytes] : sent) {
    if (bytes.count() > 0) out += picture + " " + std::to_string(bytes.count()) + " ";
  }
  return out;
}

void expect_state(const Made& made, std::int64_t params, std::int64_t grads,
                  std::int64_t optimizer) {
  EXPECT_EQ(made.bytes(Account::kParams), params);
  EXPECT_EQ(made.bytes(Account::kGrads), grads);
  EXPECT_EQ(made.bytes(Account::kOptimizer), optimizer);
}

BuildShape tiny(int zero_stage, SumOrder order = SumOrder::kFast) {
  return {.micros = 3, .blocks = 1, .zero_stage = zero_stage, .order = order};
}

constexpr std::int64_t kWhole = 4 * 12288;  // every rank
constexpr std::int64_t kSlices = 4 * 6144;  // one slice each
constexpr std::int64_t kBlock = 4 * 6144;   // largest unit, padded

TEST(Layout, OwnedStateFallsWithTheZeroStage) {
  expect_state(Made(tiny(0)), kWhole, kWhole, 2 * kWhole);
  expect_state(Made(tiny(1)), kWhole, kWhole, 2 * kSlices);
  expect_state(Made(tiny(2)), kWhole, kSlices, 2 * kSlices);
  expect_state(Made(tiny(3)), kSlices, kSlices, 2 * kSlices);
}

// The first units stay: the embedding's 2,048 of 6,144 numbers are less than half of them, those of
// the block more. There are a copy of the parameters, two moments and two places for gradients.
TEST(Layout, AShareOfTheStateLiesInTheHostsMemory) {
  const std::vector<core::ParamTable> tables = tables_of(1);
  LayoutInput input;
  input.units = pipeline::placement_of(tiny(1));
  input.rules.plan = core::plan_of(1, SumOrder::kFast);
  input.rules.dp_size = 2;
  input.rules.micros = 3;
  input.rules.tiers.moments = input.rules.tiers.masters = core::Tier::kHost;
  input.rules.beside_device = true;
  for (const core::ParamTable& table : tables) input.tables.push_back(&table);
  const auto made = [&](double share) {
    input.rules.host_share = share;
    return make_layout(input, 0, 0);
  };
  const Layout half = made(0.5);
  EXPECT_FALSE(half.at(0).on_host);
  EXPECT_TRUE(half.at(1).on_host);
  EXPECT_TRUE(half.at(2).on_host);
  EXPECT_FALSE(half.has_master(0));
  EXPECT_TRUE(half.has_master(1));
  EXPECT_EQ(half.charged(Account::kOptimizer), Bytes(2 * 4 * 2048));
  EXPECT_EQ(half.host_bytes(), Bytes(3 * 4 * (3072 + 1024) + 2 * 4 * 3072));
  EXPECT_EQ(made(1.0).charged(Account::kOptimizer), Bytes(0));
  EXPECT_EQ(made(1.0).host_bytes(), Bytes(3 * 4 * 6144 + 2 * 4 * 3072));
  EXPECT_EQ(made(0.0).host_bytes(), Bytes(0));
  input.rules.element =
      core::DType::kBF16;  // gradients come down in fp32, parameters go up in bf16
  EXPECT_EQ(made(1.0).host_bytes(), Bytes(3 * 4 * 6144 + 2 * (4 + 2) * 3072));
}

TEST(Layout, SlotsHoldOneGradientAndUnderZero3AUnitIsGathered) {
  EXPECT_EQ(Made(tiny(0)).bytes(Account::kSlots), 0);
  EXPECT_EQ(Made(tiny(1)).bytes(Account::kSlots), 0);
  EXPECT_EQ(Made(tiny(2)).bytes(Account::kSlots), kBlock);
  EXPECT_EQ(Made(tiny(2)).layout.gather_slot, Elements(0));
  EXPECT_EQ(Made(tiny(3)).bytes(Account::kSlots), kBlock);
  EXPECT_EQ(Made(tiny(3)).layout.gather_slot, Elements(6144));
}

TEST(Layout, ScratchHoldsAReducedGradientOnItsWayToTheSum) {
  EXPECT_EQ(Made(tiny(0)).bytes(Account::kScratch), 0);
  EXPECT_EQ(Made(tiny(1)).bytes(Account::kScratch), 0);
  EXPECT_EQ(Made(tiny(2)).bytes(Account::kScratch), 4 * 3072);
  EXPECT_EQ(Made(tiny(3)).bytes(Account::kScratch), 4 * 3072);
  BuildShape one_micro = tiny(2);
  one_micro.micros = 1;  // nothing to add to
  EXPECT_EQ(Made(one_micro).bytes(Account::kScratch), 0);
}

TEST(Layout, ASecondGradientSlotIsChargedWithWhatArrivesMeanwhile) {
  const Made one(tiny(2));
  const Made two(tiny(2), 0, 2, core::DType::kF32, 2);
  EXPECT_EQ(two.bytes(Account::kSlots) - one.bytes(Account::kSlots), kBlock);
  EXPECT_EQ(two.bytes(Account::kScratch) - one.bytes(Account::kScratch), 4 * 3072);
}

TEST(Layout, CanonicalOrderAddsItsCounter) {
  // Three micros: one level beside the gradient itself. Whole gradients are added in their slot.
  const Made zero0(tiny(0, SumOrder::kCanonical));
  EXPECT_EQ(zero0.bytes(Account::kSlots), kBlock);
  EXPECT_EQ(zero0.bytes(Account::kScratch), kWhole);
  EXPECT_EQ(Made(tiny(2, SumOrder::kCanonical)).bytes(Account::kScratch), 4 * 3072 + kSlices);
}

TEST(Layout, CounterLevelsAreTheLogarithmOfTheMicros) {
  constexpr int kLevels[] = {0, 1, 1, 2, 2, 2, 2, 3, 3};  // micros 1 to 9
  for (int micros = 1; micros <= 9; ++micros) {
    BuildShape shape = tiny(1, SumOrder::kCanonical);
    shape.micros = micros;
    EXPECT_EQ(Made(shape).layout.counter_levels, kLevels[micros - 1]);
    shape.order = SumOrder::kFast;
    EXPECT_EQ(Made(shape).layout.counter_levels, 0);
  }
}

// 8 micro-batches of 3 ranks: the counter has 3 levels beside the gradient, and what all ranks send
// of the largest unit, 6,144 elements, arrives in a place of its own.
TEST(Layout, GradientsThatMeetOneByOneNeedRoomForThoseOfAllRanks) {
  const auto of = [](int zero_stage) {
    LayoutInput input;
    const BuildShape shape = tiny(zero_stage, SumOrder::kCanonical);
    static const std::vector<core::ParamTable> kTables = tables_of(shape.blocks);
    input.units = pipeline::placement_of(shape);
    input.rules = {.plan = core::plan_of(zero_stage, shape.order, core::ParamSharing::kOneHost),
                   .order = shape.order,
                   .dp_size = 3,
                   .micros = 3,
                   .single_slots = 8};
    for (const core::ParamTable& table : kTables) input.tables.push_back(&table);
    return make_layout(input, 0, 0);
  };
  // 3,000, 5,000 and 1,500 elements: slices of 1,024, 2,048 and 1,024.
  constexpr std::int64_t kOwned = 4 * 4096;
  EXPECT_EQ(of(2).counter_levels, 3);
  EXPECT_FALSE(of(2).at(1).slot.own_part_in_place);
  EXPECT_EQ(of(2).charged(Account::kScratch).count(), 3 * kOwned + 4 * 6144);
  EXPECT_EQ(of(0).charged(Account::kScratch).count(), 3 * 3 * kOwned + 3 * 4 * 6144);
  const pipeline::Instruction reduce{.op = pipeline::Op::kReduce, .micro = 0, .unit = 1};
  EXPECT_EQ(of(2).sent_by(reduce), Bytes(2 * 4 * 2048));
  EXPECT_EQ(of(0).sent_by(reduce), Bytes(2 * 4 * 6144));
}

TEST(Layout, StateIsOneNthWithinPadding) {
  const std::int64_t whole = 4 * 9500;
  for (const int dp_size : {1, 2, 4, 8}) {
    const Made made(tiny(3), 0, dp_size);
    for (const std::int64_t cut : {made.bytes(Account::kParams), made.bytes(Account::kGrads),
                                   made.bytes(Account::kOptimizer) / 2}) {
      EXPECT_GE(cut * dp_size, whole);
      EXPECT_LT(cut * dp_size, whole + 3 * 4 * 1024 * dp_size);  // per unit and owner
    }
  }
}

TEST(Layout, InBf16ParametersHalveAndTheOptimizerKeepsAMaster) {
  const auto of = [](int zero_stage) { return Made(tiny(zero_stage), 0, 2, core::DType::kBF16); };
  expect_state(of(0), kWhole / 2, kWhole, 3 * kWhole);
  expect_state(of(1), kWhole / 2, kWhole, 3 * kSlices);
  expect_state(of(2), kWhole / 2, kSlices, 3 * kSlices);
  expect_state(of(3), kSlices / 2, kSlices, 3 * kSlices);
  EXPECT_EQ(of(3).bytes(Account::kSlots), kBlock);  // a gradient is fp32
  EXPECT_EQ(of(3).bytes(Account::kScratch), Made(tiny(3)).bytes(Account::kScratch));
}

TEST(Layout, ParametersThatLieOncePerHostAreChargedBySlice) {
  const Made made(tiny(2), 0, 2, core::DType::kF32, 1, 3000, core::ParamSharing::kOneHost);
  EXPECT_EQ(made.bytes(Account::kParams), kSlices);
  std::int64_t there = 0;
  for (const Reservation& at : made.layout.reservations) {
    if (at.role != Role::kParams) continue;
    EXPECT_EQ(at.where, Reservation::Where::kHost);
    there += 4 * at.count.count();
  }
  EXPECT_EQ(there, kWhole);
}

TEST(Layout, ATiedMatrixIsOwnedOnceButHasTwoGradients) {
  BuildShape shape = tiny(0);
  shape.tied = true;
  const Made made(shape);
  expect_state(made, kWhole, kWhole + 4 * 4096, 2 * kWhole);
  EXPECT_EQ(made.layout.at(3).alias, 0);
  EXPECT_EQ(made.layout.tied.read, 3);
  EXPECT_EQ(made.layout.tied.peer, -1);
}

TEST(Layout, AMatrixWithTwoWritersIsOneFlatParameterAndWaitsInASlotOfItsOwn) {
  BuildShape shape = tiny(0);
  shape.tied = shape.one_tied_gradient = true;
  expect_state(Made(shape), kWhole, kWhole, 2 * kWhole);
  EXPECT_EQ(Made(shape).bytes(Account::kSlots), 0);
  shape.zero_stage = 2;
  const Made made(shape);
  expect_state(made, kWhole, kSlices, 2 * kSlices);
  EXPECT_EQ(made.layout.at(0).writers, 2);
  EXPECT_TRUE(made.layout.at(0).slot.alone);
  EXPECT_EQ(made.layout.tied.read, 0);
  EXPECT_EQ(made.bytes(Account::kSlots), kBlock + 4 * 4096);
  // Embedding 4,096, block 6,144 and head 2,048: each reduced once per micro-batch.
  EXPECT_EQ(wire(shape),
            "R " + std::to_string(3 * 4 * 12288 / 2) + " p " + std::to_string(4 * 12288 / 2) + " ");
}

TEST(Layout, APartThatIsWrittenInPlaceTakesNoSlot) {
  for (const int dp_size : {2, 4}) {
    const Elements whole = Made(tiny(2), 0, dp_size).layout.gradient_slot;
    const Made shared(tiny(2), 0, dp_size, core::DType::kF32, 1, 3000,
                      core::ParamSharing::kOneHost);
    EXPECT_TRUE(shared.layout.at(0).slot.own_part_in_place);
    EXPECT_EQ(shared.layout.gradient_slot, whole - whole / dp_size);
  }
}

TEST(Layout, BothEndsOfAPipeOwnTheTiedMatrix) {
  BuildShape shape = tiny(0);
  shape.pipe_ranks = 2;
  shape.blocks = 2;
  expect_state(Made(shape, 1), 4 * 8192, 4 * 8192, 8 * 8192);  // block and head
  shape.tied = true;
  expect_state(Made(shape, 1), 4 * 12288, 4 * 12288, 8 * 12288);
  expect_state(Made(shape, 0), 4 * 10240, 4 * 10240, 8 * 10240);  // embedding and block
  shape.zero_stage = 3;
  expect_state(Made(shape, 1), 4 * 6144, 4 * 6144, 8 * 6144);
}

TEST(Layout, EndsOfAPipeReceiveTheOtherEndsTiedGradient) {
  BuildShape shape{.pipe_ranks = 3, .micros = 1, .blocks = 3, .tied = true};
  const auto scratch = [&](int rank) { return Made(shape, rank).bytes(Account::kScratch); };
  EXPECT_EQ(scratch(0), 4 * 4096);
  EXPECT_EQ(scratch(1), 0);
  EXPECT_EQ(scratch(2), 4 * 4096);
  EXPECT_EQ(Made(shape, 0).layout.tied.peer, 2);
  EXPECT_EQ(Made(shape, 2).layout.tied.peer, 0);
  shape.zero_stage = 1;  // owners exchange their slices
  EXPECT_EQ(scratch(2), 4 * 2048);
}

TEST(Layout, AGatheredTiedHeadNeedsBothMatricesInItsSlot) {
  BuildShape shape = tiny(3);
  shape.tied = true;
  const Made made(shape, 0, 2, core::DType::kF32, 1, 9000);  // slice 5,120
  EXPECT_EQ(made.layout.gather_slot, Elements(10240 + 2048));
  EXPECT_EQ(made.layout.tied.gathered, Elements(2048));
  EXPECT_EQ(made.layout.gradient_slot, Elements(10240 + 2048));
  EXPECT_EQ(made.layout.incoming, Elements(5120));
  shape.one_tied_gradient = true;  // the matrix is read by both ends all the same
  EXPECT_EQ(Made(shape, 0, 2, core::DType::kF32, 1, 9000).layout.gather_slot,
            Elements(10240 + 2048));
}

TEST(Layout, TheTiedMatrixMayBeTheLargestGradientThatArrives) {
  const BuildShape shape{.pipe_ranks = 2, .micros = 2, .blocks = 2, .tied = true, .zero_stage = 2};
  EXPECT_EQ(Made(shape, 1, 2, core::DType::kF32, 1, 9000).layout.incoming, Elements(5120));
}

TEST(Wire, BytesOfOneStepByZeroStage) {
  // A reduce-scatter or gather of a unit costs its slice once on two ranks, an all-reduce twice.
  EXPECT_EQ(wire(tiny(0)), "R 49152 ");
  EXPECT_EQ(wire(tiny(1)), "R 24576 p 24576 ");
  EXPECT_EQ(wire(tiny(2)), "R 73728 p 24576 ");  // each of three micros
  // Per micro: embedding, block twice, head = 4 (2048 + 2 x 3072 + 1024).
  EXPECT_EQ(wire(tiny(3)), "R 73728 g 110592 ");
}

TEST(Wire, InBf16WeightsAreHalfAsWideAndGradientsAreNot) {
  EXPECT_EQ(wire(tiny(2), 0, 2, core::DType::kBF16), "R 73728 p 12288 ");
  EXPECT_EQ(wire(tiny(3), 0, 2, core::DType::kBF16), "R 73728 g 55296 ");
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

TEST(Wire, EndsOfAPipeExchangeTheTiedGradientOnce) {
  BuildShape shape{.pipe_ranks = 2, .micros = 1, .blocks = 2, .tied = true};
  EXPECT_EQ(wire(shape, 0, 1), "Rt 12288 ");  // 3,000 elements padded to 3,072
  EXPECT_EQ(wire(shape, 1, 1), "Rt 12288 ");
  shape.zero_stage = 1;  // own slice of 2,048 only; embedding and block: 5,120 elements of slices
  EXPECT_EQ(wire(shape, 0), "R 20480 Rt 8192 p 20480 ");
}

TEST(Wire, OnePipeRankKeepsItsTiedMatrixToItself) {
  BuildShape shape = tiny(1);
  shape.tied = true;
  // Two gradients of the matrix are reduced, one matrix is published.
  EXPECT_EQ(wire(shape), "R 32768 p 24576 ");
}

// The embedding and its tied matrix are frozen, of the block 5,000 elements are trained and 9,000
// are not. Slices: an empty table has one block; 9,000 elements are cut into 5,120 each.
TEST(Layout, FrozenParametersTakeTheirElementsAlone) {
  const auto table = [](std::int64_t elements) {
    return core::ParamTable({{.name = "w", .shape = {elements}}}, core::NoDecay{});
  };
  const core::ParamTable none;
  const core::ParamTable block = table(5000);
  const core::ParamTable head = table(1500);
  const core::ParamTable frozen_embedding = table(3000);
  const core::ParamTable frozen_block = table(9000);
  LayoutInput input;
  input.units = pipeline::placement_of({.blocks = 1});
  input.rules.plan = core::plan_of(3, SumOrder::kFast);
  input.rules.element = core::DType::kBF16;
  input.rules.dp_size = 2;
  input.tables = {&none, &block, &head};
  input.frozen = {&frozen_embedding, &frozen_block, nullptr};
  input.frozen_tied = &frozen_embedding;
  const Layout layout = make_layout(input, 0, 0);
  const std::int64_t own = 1024 + 3072 + 1024;
  EXPECT_EQ(layout.charged(Account::kParams), Bytes(2 * (own + 2048 + 5120)));
  EXPECT_EQ(layout.charged(Account::kGrads), Bytes(4 * own));
  EXPECT_EQ(layout.charged(Account::kOptimizer), Bytes(12 * own));
  EXPECT_EQ(layout.trained, 3);
  EXPECT_EQ(layout.at(1).frozen, 4);
  EXPECT_EQ(layout.tied.read, 3);
  EXPECT_EQ(layout.gather_slot, Elements(6144 + 10240));
  EXPECT_EQ(layout.tied.gathered, Elements(2048));
  EXPECT_EQ(layout.sent_by({pipeline::Op::kGather, -1, 1}), Bytes(2 * (3072 + 5120)));
  EXPECT_EQ(layout.sent_by({pipeline::Op::kGather, -1, 2}), Bytes(2 * (1024 + 2048)));
  EXPECT_EQ(layout.sent_by({pipeline::Op::kReduce, 0, 1}), Bytes(4 * 3072));
}

}  // namespace
}  // namespace fm::zero
