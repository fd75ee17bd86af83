// Orders and properties of GPipe and 1F1B: arXiv 1811.06965 (GPipe), 1806.03377 and 2006.09503
// (1F1B), and deepspeed/runtime/pipe/schedule.py as an independent generator.
#include "pipeline/schedules/schedules.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/schedules/linear.h"

namespace fm::pipeline {
namespace {

// "F0 F1 B0 ": what computes, without units.
std::string compute_order(const Program& program) {
  std::string out;
  for (const Instruction& at : program) {
    if (at.op == Op::kForward || at.op == Op::kBackward) {
      out += (at.op == Op::kForward ? "F" : "B") + std::to_string(at.micro) + " ";
    }
  }
  return out;
}

std::string order_of(Schedule schedule, int pipe_ranks, int micros, int pipe_rank) {
  return compute_order(schedule({.pipe_ranks = pipe_ranks, .micros = micros}, pipe_rank));
}

// TrainSchedule of DeepSpeed: a machine of 2 (m + S - 1) slots; in even slots even pipe stages go
// forward and odd ones backward, in odd slots the other way round.
std::string slot_machine(int stages, int micros, int pipe_stage) {
  std::string out;
  for (int slot = 0; slot < 2 * (micros + stages - 1); ++slot) {
    const bool even_slot = slot % 2 == 0;
    const bool even_stage = pipe_stage % 2 == 0;
    const bool forward = even_slot == even_stage;
    int micro = 0;
    if (even_slot && even_stage) micro = slot / 2 - pipe_stage / 2;
    if (!even_slot && !even_stage) micro = (slot - 1) / 2 - pipe_stage / 2;
    if (even_slot && !even_stage) micro = slot / 2 - stages + (pipe_stage + 1) / 2;
    if (!even_slot && even_stage) micro = (slot - 1) / 2 - stages + 1 + pipe_stage / 2;
    if (micro >= 0 && micro < micros) out += (forward ? "F" : "B") + std::to_string(micro) + " ";
  }
  return out;
}

struct Lives {
  int peak = 0;
  int at_end = 0;
  bool never_negative = true;
};
Lives lives_of(const Program& program) {
  Lives lives;
  for (const Instruction& at : program) {
    if (at.op == Op::kForward) ++lives.at_end;
    if (at.op == Op::kBackward) --lives.at_end;
    lives.peak = std::max(lives.peak, lives.at_end);
    lives.never_negative = lives.never_negative && lives.at_end >= 0;
  }
  return lives;
}

std::vector<int> micros_of(const Program& program, Op op) {
  std::vector<int> out;
  for (const Instruction& at : program) {
    if (at.op == op) out.push_back(at.micro);
  }
  return out;
}

std::vector<int> ascending(int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(i);
  return out;
}

// Every (pipe ranks, micros, pipe rank) up to 8 x 32 x 8.
template <class Body>
void for_all_shapes(Body body) {
  for (int pipe_ranks = 1; pipe_ranks <= 8; ++pipe_ranks) {
    for (int micros = 1; micros <= 32; ++micros) {
      for (int rank = 0; rank < pipe_ranks; ++rank) body(pipe_ranks, micros, rank);
    }
  }
}

TEST(OneFOneB, LastPipeRankAlternatesFromTheFirstMicro) {
  EXPECT_EQ(print(one_f_one_b({.pipe_ranks = 2, .micros = 3}, 1)),
            "L0 F0.0 X0 B0.0 L1 F1.0 X1 B1.0 L2 F2.0 X2 B2.0 O ");
}

TEST(OneFOneB, OnlyTheEndsOfThePipeLoadAndOnlyTheLastHasTheLoss) {
  EXPECT_EQ(print(one_f_one_b({.pipe_ranks = 3, .micros = 2}, 0)), "L0 F0.0 L1 F1.0 B0.0 B1.0 O ");
  EXPECT_EQ(print(one_f_one_b({.pipe_ranks = 3, .micros = 2}, 1)), "F0.0 F1.0 B0.0 B1.0 O ");
  EXPECT_EQ(print(one_f_one_b({.pipe_ranks = 3, .micros = 2}, 2)),
            "L0 F0.0 X0 B0.0 L1 F1.0 X1 B1.0 O ");
}

TEST(OneFOneB, GoldenOrdersOfTwoPipeRanks) {
  EXPECT_EQ(order_of(one_f_one_b, 2, 4, 0), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(order_of(one_f_one_b, 2, 4, 1), "F0 B0 F1 B1 F2 B2 F3 B3 ");
}

TEST(OneFOneB, GoldenOrdersOfFourPipeRanks) {
  EXPECT_EQ(order_of(one_f_one_b, 4, 8, 0), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7 ");
  EXPECT_EQ(order_of(one_f_one_b, 4, 8, 1), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7 ");
  EXPECT_EQ(order_of(one_f_one_b, 4, 8, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 ");
}

TEST(OneFOneB, FewerMicrosThanPipeRanks) {
  EXPECT_EQ(order_of(one_f_one_b, 4, 2, 0), "F0 F1 B0 B1 ");
  EXPECT_EQ(order_of(one_f_one_b, 4, 2, 1), "F0 F1 B0 B1 ");
  EXPECT_EQ(order_of(one_f_one_b, 4, 2, 2), "F0 F1 B0 B1 ");
  EXPECT_EQ(order_of(one_f_one_b, 4, 2, 3), "F0 B0 F1 B1 ");
}

TEST(OneFOneB, EqualsTheSlotMachineOfDeepSpeed) {
  for_all_shapes([](int pipe_ranks, int micros, int rank) {
    EXPECT_EQ(order_of(one_f_one_b, pipe_ranks, micros, rank),
              slot_machine(pipe_ranks, micros, rank))
        << pipe_ranks << " pipe ranks, " << micros << " micros, pipe rank " << rank;
  });
}

TEST(OneFOneB, KeepsAtMostItsDistanceToTheEndLive) {
  for_all_shapes([](int pipe_ranks, int micros, int rank) {
    const Program program = one_f_one_b({.pipe_ranks = pipe_ranks, .micros = micros}, rank);
    EXPECT_EQ(lives_of(program).peak, std::min(pipe_ranks - rank, micros));
  });
}

TEST(GPipe, AllForwardsThenAllBackwardsFirstInFirstOut) {
  EXPECT_EQ(order_of(gpipe, 2, 3, 0), "F0 F1 F2 B0 B1 B2 ");
  EXPECT_EQ(print(gpipe({.pipe_ranks = 2, .micros = 2}, 1)), "L0 F0.0 L1 F1.0 X0 B0.0 X1 B1.0 O ");
}

TEST(GPipe, KeepsEveryMicroLive) {
  for_all_shapes([](int pipe_ranks, int micros, int rank) {
    EXPECT_EQ(lives_of(gpipe({.pipe_ranks = pipe_ranks, .micros = micros}, rank)).peak, micros);
  });
}

TEST(ForwardOnly, LoadsRunsAndMeasuresEachMicro) {
  EXPECT_EQ(print(forward_only({.pipe_ranks = 2, .micros = 2}, 0)), "L0 F0.0 L1 F1.0 O ");
  EXPECT_EQ(print(forward_only({.pipe_ranks = 2, .micros = 2}, 1)), "L0 F0.0 X0 L1 F1.0 X1 O ");
}

TEST(ForwardOnly, RunsThroughEveryChunkOfTheRank) {
  const PipeShape shape{.pipe_ranks = 2, .micros = 2, .chunks = 2};
  EXPECT_EQ(print(forward_only(shape, 0)), "L0 F0.0 F0.1 L1 F1.0 F1.1 O ");
  EXPECT_EQ(print(forward_only(shape, 1)), "F0.0 L0 F0.1 X0 F1.0 L1 F1.1 X1 O ");
}

TEST(AllSchedules, HaveNamesOfTheirOwnAndTheDefaultIsFirst) {
  std::set<std::string_view> names;
  for (const ScheduleRow& row : all_schedules()) names.insert(row.name);
  EXPECT_EQ(names.size(), all_schedules().size());
  EXPECT_EQ(default_schedule().name, "1f1b");
}

// Names of torch.distributed.pipelining (schedules.py: get_schedule_class), which torchtitan takes,
// and of nanotron and picotron.
TEST(AllSchedules, AreFoundByTheNamesOfOtherProjects) {
  const std::pair<std::string_view, std::string_view> names[] = {
      {"1F1B", "1f1b"},
      {"GPipe", "gpipe"},
      {"afab", "gpipe"},
      {"layer_major", "layer-major"},
      {"Interleaved1F1B", "interleaved-1f1b"},
      {"LoopedBFS", "looped-bfs"},
      {"InterleavedZeroBubble", "interleaved-zb"},
      {"ZBVZeroBubble", "zb-v"},
      {"ScheduleZBVZeroBubble", "zb-v"},
      {"ScheduleDualPipeV", "dualpipe-v"},
      {"ZB_H1", "zb-h1"}};
  for (const auto& [other, ours] : names) {
    const ScheduleRow* const row = find_schedule(other);
    ASSERT_NE(row, nullptr) << other;
    EXPECT_EQ(row->name, ours);
  }
  for (const ScheduleRow& row : all_schedules()) EXPECT_EQ(find_schedule(row.name), &row);
  for (const char* none : {"", "schedule", "zb", "auto", "1f1b2"}) {
    EXPECT_EQ(find_schedule(none), nullptr) << none;
  }
}

class TrainingSchedules : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(Both, TrainingSchedules, ::testing::Values(gpipe, one_f_one_b),
                         [](const auto& each) { return each.index == 0 ? "GPipe" : "OneFOneB"; });

TEST_P(TrainingSchedules, RunEachMicroOnceForwardAndOnceBackwardInOrder) {
  for_all_shapes([](int pipe_ranks, int micros, int rank) {
    const Program program = GetParam()({.pipe_ranks = pipe_ranks, .micros = micros}, rank);
    const bool last = rank == pipe_ranks - 1;
    EXPECT_EQ(micros_of(program, Op::kForward), ascending(micros));
    EXPECT_EQ(micros_of(program, Op::kBackward), ascending(micros));
    EXPECT_EQ(micros_of(program, Op::kLoad), ascending(rank == 0 || last ? micros : 0));
    EXPECT_EQ(micros_of(program, Op::kLoss), ascending(last ? micros : 0));
    EXPECT_EQ(program.back(), Instruction{});  // Report
  });
}

TEST_P(TrainingSchedules, NeverRunABackwardBeforeItsForward) {
  for_all_shapes([](int pipe_ranks, int micros, int rank) {
    const Program program = GetParam()({.pipe_ranks = pipe_ranks, .micros = micros}, rank);
    const Lives lives = lives_of(program);
    EXPECT_TRUE(lives.never_negative);
    EXPECT_EQ(lives.at_end, 0);
  });
}

}  // namespace
}  // namespace fm::pipeline
