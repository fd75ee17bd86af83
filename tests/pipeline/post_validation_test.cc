// The places of the validation, and of the norm in parts.
#include "pipeline/post_validation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pipeline/schedule_study.h"
#include "pipeline/simulate.h"
#include "tests/pipeline/built_programs.h"
#include "tests/pipeline/named_schedules.h"

namespace fm::pipeline {
namespace {

struct Built {
  Placement units;
  std::vector<Program> meeting;  // N
  std::vector<Program> ahead;    // Np rn sn
  ProgramRules rules;
};

// One block per chunk.
Built built_with_validation(std::string_view schedule, int pipe_ranks, int micros,
                            int zero_stage = 0, bool tied = false, int chunks = 0,
                            int first_backward = 0) {
  Named made = named(schedule, pipe_ranks, micros, chunks);
  made.shape.gradients_in_order = true;
  made.programs = make_programs(row_named(schedule), made.shape);
  Built out{split_evenly(made.shape.chunk_count(), made.shape, tied), {}, {}, {}};
  out.units.first_backward = first_backward;
  std::vector<Program> programs;
  for (int rank = 0; rank < pipe_ranks; ++rank) {
    programs.push_back(
        expand_units(made.programs[static_cast<std::size_t>(rank)], out.units, rank));
  }
  programs = insert_p2p(insert_validation(programs, out.units), out.units);
  out.rules = {.units = out.units,
               .micros = micros,
               .plan = core::plan_of(zero_stage, core::SumOrder::kFast),
               .validates = true};
  for (int rank = 0; rank < pipe_ranks; ++rank) {
    Program& program = programs[static_cast<std::size_t>(rank)];
    program = zero::insert_zero(program, out.rules.plan, out.units, rank);
  }
  out.meeting = programs;
  out.ahead = with_norm_in_parts(programs);
  return out;
}

// Rank 1 has nothing but the forward of micro-batch 0 before its first loss; rank 0 computes two
// forwards before it needs a gradient. Messages stand in the order of time: a block's forward takes
// 1 and its backward 2, and at one time rank 0's go first (F2.1 and B1.2 both end 5 behind V).
TEST(PostValidation, StandsBeforeTheFirstBackwardOfOneFOneB) {
  const Built built = built_with_validation("1f1b", 2, 3);
  EXPECT_EQ(print(built.ahead[0]),
            "L0 F0.0 F0.1 sa0.2 L1 F1.0 F1.1 sa1.2 V rg0.1 B0.1 B0.0 L2 F2.0 F2.1 sa2.2 rg1.1 "
            "B1.1 B1.0 rg2.1 B2.1 R.1 B2.0 R.0 Np sn u.0 u.1 O ");
  EXPECT_EQ(print(built.ahead[1]),
            "K L0 ra0.2 F0.2 ra1.2 V X0 B0.2 sg0.1 L1 F1.2 X1 B1.2 ra2.2 sg1.1 L2 F2.2 X2 R.3 "
            "B2.2 R.2 sg2.1 Np rn u.2 u.3 O ");
  EXPECT_EQ(print(built.meeting[1]).substr(0, 30), print(built.ahead[1]).substr(0, 30));
  EXPECT_NE(print(built.meeting[1]).find("sg2.1 N u.2"), std::string::npos);
}

// Forwards before V by rank, counted in chunks.
std::vector<int> forwards_before(const std::vector<Program>& programs, const Placement& units) {
  std::vector<int> out;
  for (const Program& program : programs) {
    const auto end = std::ranges::find(program, Op::kValidate, &Instruction::op);
    out.push_back(static_cast<int>(std::count_if(program.begin(), end, [&](const Instruction& at) {
      return at.op == Op::kForward && units.is_block(at.unit);
    })));
  }
  return out;
}

// Warm-up of ZB-H2 is 2 (p - 1 - r) + 1 forwards. In the V of ZB-V the first loss begins after 2 p
// forwards of a chunk, of which rank r idles r.
TEST(PostValidation, LeavesTheWarmUpInFrontOfIt) {
  const Built straight = built_with_validation("zb-h2", 4, 12);
  EXPECT_EQ(forwards_before(straight.ahead, straight.units), (std::vector<int>{7, 5, 3, 1}));
  const Built turned = built_with_validation("zb-v", 4, 12);
  EXPECT_EQ(forwards_before(turned.ahead, turned.units), (std::vector<int>{8, 7, 6, 5}));
}

// Ranks 0 and 1 have no backward. Rank 2 begins its first one after 6 forwards' time (two ranks'
// before it, its own, and rank 3's forward and backward) and has taken 2 micro-batches by then:
// rank 1 has sent two more and computed a third. Rank 0 had time for 6. Without the bound both run
// to the end of the step.
TEST(PostValidation, LeavesRanksWithoutABackwardTwoAhead) {
  const Built built = built_with_validation("1f1b", 4, 12, 0, false, 0, 3);
  EXPECT_EQ(forwards_before(built.ahead, built.units), (std::vector<int>{6, 5, 2, 1}));
}

// Rank 0 wants F1.3 before its first backward, but what that reads comes from behind the loss of
// rank 1: V stands before it.
TEST(PostValidation, StandsBeforeWhatNeedsAForwardBehindAnotherOne) {
  const Placement units({{{0, 2}, 0}, {{2, 3}, 1}, {{3, 4}, 0}, {{4, 6}, 1}}, 2);
  const std::vector<Program> programs = {
      parse("L0 F0.0 F0.1 L1 F1.0 F1.1 F0.3 F1.3 B0.3 B0.1 B0.0 B1.3 B1.1 B1.0 O"),
      parse("L0 F0.2 F0.4 X0 B0.4 F1.2 L1 F1.4 X1 B1.4 B0.2 B1.2 O")};
  const std::vector<Program> out = insert_validation(programs, units);
  EXPECT_EQ(print(out[0]),
            "L0 F0.0 F0.1 L1 F1.0 F1.1 F0.3 V F1.3 B0.3 B0.1 B0.0 B1.3 B1.1 B1.0 O ");
  EXPECT_EQ(print(out[1]), "L0 F0.2 F0.4 V X0 B0.4 F1.2 L1 F1.4 X1 B1.4 B0.2 B1.2 O ");
  EXPECT_EQ(deadlock_of(out, units), "");
}

class EveryPostValidation : public testing::TestWithParam<const ScheduleRow*> {};
std::vector<const ScheduleRow*> rows() {
  std::vector<const ScheduleRow*> out;
  for (const ScheduleRow& row : all_schedules()) out.push_back(&row);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, EveryPostValidation, testing::ValuesIn(rows()), [](const auto& each) {
  std::string name(each.param->name);
  std::erase(name, '-');
  return name;
});

TEST_P(EveryPostValidation, IsProvenForEveryShape) {
  for (int pipe_ranks = 2; pipe_ranks <= 5; ++pipe_ranks) {
    for (const int micros : {1, 2, 3, 5, 8, 13}) {
      const PipeShape shape{.pipe_ranks = pipe_ranks, .micros = micros};
      const auto holds = GetParam()->constraint.holds;
      if (holds != nullptr && !holds(shape)) continue;
      for (int zero_stage = 0; zero_stage < 4; ++zero_stage) {
        const Built built = built_with_validation(GetParam()->name, pipe_ranks, micros, zero_stage,
                                                  zero_stage % 2 == 1);
        for (const auto* programs : {&built.meeting, &built.ahead}) {
          const auto refusal = validate(*programs, built.rules);
          ASSERT_FALSE(refusal) << describe(*refusal, *programs) << "; " << pipe_ranks
                                << " pipe ranks, " << micros << " micros, ZeRO " << zero_stage;
        }
      }
    }
  }
}

// Time of a step between others, F = I = W = 1 for each rank.
double step_time(const std::vector<Program>& programs, const Placement& units, int chunks) {
  const auto cost = [&](const Instruction& at, int) {
    return units.is_block(at.unit) ? row_of(at.op).forwards / chunks : 0.0;
  };
  constexpr int kSteps = 9;
  const double all = simulate(programs, units, cost, 0.0, kSteps).makespan;
  return (all - simulate(programs, units, cost, 0.0, 1).makespan) / (kSteps - 1);
}

// Meeting costs the makespan of one step: 3 m + p - 1 for ZB-H2, (p - 1) / 2 less for chunks of a
// half. In parts the steps follow each other without a bubble: 3 m (arXiv 2401.10241, section 4).
TEST(PostValidation, ClosesTheBubbleBetweenSteps) {
  struct Case {
    const char* schedule;
    int chunks;
    double meeting;
  };
  for (const auto& [schedule, chunks, meeting] : {Case{"zb-h2", 1, 39.0}, Case{"zb-v", 2, 37.5}}) {
    const Built built = built_with_validation(schedule, 4, 12);
    EXPECT_NEAR(step_time(built.meeting, built.units, chunks), meeting, 1e-9) << schedule;
    EXPECT_NEAR(step_time(built.ahead, built.units, chunks), 36.0, 1e-9) << schedule;
  }
  // The gradients of a tied matrix meet at the step's end all the same.
  const Built tied = built_with_validation("zb-h2", 4, 12, 0, true);
  EXPECT_NEAR(step_time(tied.ahead, tied.units, 1), 39.0, 1e-9);
  // 1F1B begins with the rank that ends last: nothing is won.
  const Built built = built_with_validation("1f1b", 4, 12);
  EXPECT_NEAR(step_time(built.meeting, built.units, 1), 45.0, 1e-9);
  EXPECT_NEAR(step_time(built.ahead, built.units, 1), 45.0, 1e-9);
}

std::string verdict(const std::string& first, const std::string& second) {
  Built built = built_with_validation("1f1b", 2, 1);
  if (!first.empty()) built.ahead[0] = parse(first);
  if (!second.empty()) built.ahead[1] = parse(second);
  const auto refusal = validate(built.ahead, built.rules);
  return refusal ? describe(*refusal, built.ahead) : "";
}

TEST(PostValidation, EveryRuleHasItsOffence) {
  EXPECT_EQ(verdict("L0 F0.0 F0.1 sa0.2 V rg0.1 B0.1 R.1 B0.0 R.0 Np sn u.0 u.1 O",
                    "K ra0.2 L0 F0.2 V X0 R.3 B0.2 R.2 sg0.1 Np rn u.2 u.3 O"),
            "");
  EXPECT_EQ(verdict("L0 F0.0 F0.1 sa0.2 rg0.1", ""),
            "pipe rank 0, instruction 4 (rg0.1): it cannot be undone, and the last step is not "
            "validated yet");
  EXPECT_EQ(verdict("L0 V V", ""),
            "pipe rank 0, instruction 2 (V): the last step is validated already");
  const std::string first = "L0 F0.0 F0.1 sa0.2 V rg0.1 B0.1 R.1 B0.0 R.0 ";
  EXPECT_EQ(verdict("L0 F0.0 F0.1 sa0.2 V rg0.1 B0.1 B0.0 R.0 Np", ""),
            "pipe rank 0, instruction 9 (Np): the gradient of unit 1 is not reduced");
  EXPECT_EQ(verdict(first + "N Np", ""),
            "pipe rank 0, instruction 11 (Np): the norm is known already");
  EXPECT_EQ(verdict(first + "Np N", ""),
            "pipe rank 0, instruction 11 (N): the norm is known already");
  EXPECT_EQ(verdict(first + "Np u.0", ""),
            "pipe rank 0, instruction 11 (u.0): the clipping factor needs the norm");
  EXPECT_EQ(verdict(first + "sn", ""),
            "pipe rank 0, instruction 10 (sn): what it sends is not known yet");
  EXPECT_EQ(verdict(first + "Np sn sn", ""),
            "pipe rank 0, instruction 12 (sn): this was sent already");
  EXPECT_EQ(verdict(first + "Np rn", ""),
            "pipe rank 0, instruction 11 (rn): there is no pipe rank before this one");
  const std::string second = "K ra0.2 L0 F0.2 V X0 R.3 B0.2 R.2 sg0.1 ";
  EXPECT_EQ(verdict("", second + "rn"),
            "pipe rank 1, instruction 10 (rn): this pipe rank's own part of the norm is not known");
  EXPECT_EQ(verdict("", second + "Np rn rn"),
            "pipe rank 1, instruction 12 (rn): this was received already");
  EXPECT_EQ(verdict("", second + "Np rn sn"),
            "pipe rank 1, instruction 12 (sn): there is no pipe rank behind this one");
  EXPECT_EQ(verdict("", second + "Np u.2"),
            "pipe rank 1, instruction 11 (u.2): the clipping factor needs the norm");
}

// What is sent before a validation is received before one, or it would meet a message of the step
// that begins again.
TEST(PostValidation, NoMessagePassesIt) {
  EXPECT_EQ(verdict("", "K V ra0.2 L0 F0.2 X0 R.3 B0.2 R.2 sg0.1 Np rn u.2 u.3 O"),
            "pipe rank 0, instruction 3 (sa0.2): waits for ra0.2 of pipe rank 1, which waits in V");
}

TEST(PostValidation, IsRefusedWhereNothingValidates) {
  Built built = built_with_validation("1f1b", 2, 1);
  built.rules.validates = false;
  EXPECT_EQ(validate(built.ahead, built.rules)->reason, "this plan validates nothing");
  for (Program& program : built.ahead) {
    std::erase_if(program, [](const Instruction& at) { return at.op == Op::kValidate; });
  }
  EXPECT_EQ(validate(built.ahead, built.rules)->reason,
            "no step behind this one would validate it");
}

}  // namespace
}  // namespace fm::pipeline
