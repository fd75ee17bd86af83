// Every single deletion, duplication and swap of two dependent neighbours, in every program of
// both schedules, all ZeRO stages and both orders of sums, must be refused by name; every valid
// program must pass.
#include <gtest/gtest.h>

#include <cstdio>

#include "core/text.h"
#include "tests/pipeline/built_programs.h"
#include "tests/pipeline/dependence.h"

namespace fm::pipeline {
namespace {

struct Counts {
  long valid = 0;
  long deleted = 0;
  long doubled = 0;
  long swapped = 0;
  long independent = 0;           // neighbours whose order means nothing: not mutated
  long independent_accepted = 0;  // of those, how many the validator lets pass
  long escaped = 0;
};

class Mutator {
 public:
  Mutator(const BuildShape& shape, Counts& counts)
      : shape_(shape), rules_(rules_of(shape)), programs_(built(shape)), counts_(counts) {}

  void run() {
    const auto refusal = validate(programs_, rules_);
    ++counts_.valid;
    if (refusal) escaped("valid program refused: " + describe(*refusal, programs_));
    for (int rank = 0; rank < shape_.pipe_ranks; ++rank) mutate(rank);
  }

 private:
  Program& program(int rank) { return programs_[static_cast<std::size_t>(rank)]; }

  void mutate(int rank) {
    const StepForm form{rules_.units, shape_.micros, rules_.plan.reduce_every_micro, rules_.ring(),
                        rules_.gradients.places};
    std::vector<Effects> effects;
    for (const Instruction& at : program(rank)) effects.push_back(effects_of(at, form, rank));
    for (std::size_t index = 0; index < effects.size(); ++index) {
      remove(rank, index);
      repeat(rank, index);
      if (index + 1 == effects.size()) continue;
      swap(rank, index, dependence(effects[index], effects[index + 1]));
    }
  }

  void remove(int rank, std::size_t index) {
    Program& here = program(rank);
    const auto at = here.begin() + static_cast<std::ptrdiff_t>(index);
    const Instruction taken = *at;
    here.erase(at);
    expect_refused(rank, index, "deleted");
    here.insert(here.begin() + static_cast<std::ptrdiff_t>(index), taken);
    ++counts_.deleted;
  }

  void repeat(int rank, std::size_t index) {
    Program& here = program(rank);
    const Instruction twice = here[index];
    here.insert(here.begin() + static_cast<std::ptrdiff_t>(index), twice);
    expect_refused(rank, index, "doubled");
    here.erase(here.begin() + static_cast<std::ptrdiff_t>(index));
    ++counts_.doubled;
  }

  void swap(int rank, std::size_t index, Dependence dependence) {
    Program& here = program(rank);
    std::swap(here[index], here[index + 1]);
    switch (dependence) {
      case Dependence::kHere:
        expect_refused(rank, index, "swapped with its successor");
        ++counts_.swapped;
        break;
      case Dependence::kThroughOtherRanks:
        expect_refused_somewhere(rank, index);
        ++counts_.swapped;
        break;
      case Dependence::kNone:
        ++counts_.independent;
        if (!validate(programs_, rules_)) ++counts_.independent_accepted;
        break;
    }
    std::swap(here[index], here[index + 1]);
  }

  // The offence shows on the mutated rank, at or behind the place of the mutation.
  void expect_refused(int rank, std::size_t index, const char* what) {
    const auto refusal = validate(programs_, rules_);
    if (!refusal) return escaped(mutant(rank, index, what) + " was accepted");
    const bool here = refusal->pipe_rank == rank && refusal->index >= static_cast<int>(index) &&
                      refusal->index <= static_cast<int>(program(rank).size());
    if (!here || !names_place(*refusal)) {
      escaped(mutant(rank, index, what) + ": " + describe(*refusal, programs_));
    }
  }

  void expect_refused_somewhere(int rank, std::size_t index) {
    const auto refusal = validate(programs_, rules_);
    if (!refusal) return escaped(mutant(rank, index, "swapped across ranks") + " was accepted");
    const bool named = refusal->pipe_rank >= 0 && refusal->pipe_rank < shape_.pipe_ranks;
    if (!named || !names_place(*refusal)) escaped(describe(*refusal, programs_));
  }

  bool names_place(const Refusal& refusal) const {
    const std::string place = "pipe rank " + std::to_string(refusal.pipe_rank) + ", instruction " +
                              std::to_string(refusal.index) + " (";
    return describe(refusal, programs_).starts_with(place) && !refusal.reason.empty();
  }

  std::string mutant(int rank, std::size_t index, const char* what) {
    return "pipe rank " + std::to_string(rank) + ", instruction " + std::to_string(index) + " " +
           what + " in " + print(program(rank));
  }

  void escaped(const std::string& text) {
    if (++counts_.escaped > 20) return;  // the first ones tell enough
    ADD_FAILURE() << (shape_.schedule == gpipe ? "gpipe" : "1f1b") << ", " << shape_.pipe_ranks
                  << " pipe ranks, " << shape_.micros << " micros, ZeRO " << shape_.zero_stage
                  << (shape_.order == core::SumOrder::kCanonical ? " canonical" : " fast")
                  << (shape_.tied ? ", tied" : "") << (shape_.recompute ? ", recompute" : "")
                  << ": " << text;
  }

  BuildShape shape_;
  ProgramRules rules_;
  std::vector<Program> programs_;
  Counts& counts_;
};

// ZeRO 2 and 3 reduce every micro-batch in either order of sums: their programs are the same.
constexpr struct {
  int zero_stage;
  core::SumOrder order;
} kPlans[] = {{0, core::SumOrder::kFast},      {1, core::SumOrder::kFast},
              {2, core::SumOrder::kFast},      {3, core::SumOrder::kFast},
              {0, core::SumOrder::kCanonical}, {1, core::SumOrder::kCanonical}};

// All plans of one schedule up to 4 pipe ranks x 6 micros x 3 blocks per pipe rank.
Counts mutate_all(Schedule schedule, bool tied, bool recompute) {
  Counts counts;
  for (const auto& plan : kPlans) {
    for (int pipe_ranks = 1; pipe_ranks <= 4; ++pipe_ranks) {
      for (int micros = 1; micros <= 6; ++micros) {
        for (int blocks = 1; blocks <= 3; ++blocks) {
          Mutator({schedule, pipe_ranks, micros, pipe_ranks * blocks, tied, recompute,
                   plan.zero_stage, plan.order},
                  counts)
              .run();
        }
      }
    }
  }
  return counts;
}

using Case = std::tuple<Schedule, bool, bool>;  // schedule, tied, recompute

std::string name_of(const ::testing::TestParamInfo<Case>& each) {
  const auto& [schedule, tied, recompute] = each.param;
  return std::string(schedule == gpipe ? "GPipe" : "OneFOneB") + (tied ? "Tied" : "Untied") +
         (recompute ? "Recompute" : "");
}

class ValidateMutations : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Programs, ValidateMutations,
                         ::testing::Combine(::testing::Values(gpipe, one_f_one_b),
                                            ::testing::Bool(), ::testing::Bool()),
                         name_of);

TEST_P(ValidateMutations, AreAllRefusedByName) {
  const auto& [schedule, tied, recompute] = GetParam();
  const Counts counts = mutate_all(schedule, tied, recompute);
  std::printf(
      "%ld valid programs; mutants: %ld deleted, %ld doubled, %ld swapped; %ld accepted wrongly; "
      "%ld of %ld independent swaps accepted\n",
      counts.valid, counts.deleted, counts.doubled, counts.swapped, counts.escaped,
      counts.independent_accepted, counts.independent);
  EXPECT_EQ(counts.escaped, 0);
  EXPECT_EQ(counts.valid, 6 * 4 * 6 * 3);
  EXPECT_GT(counts.swapped, 10000);
}

TEST(ValidateMutationsOfPostValidation, AreAllRefusedByName) {
  Counts counts;
  for (const Schedule schedule : {gpipe, one_f_one_b}) {
    for (const auto& plan : kPlans) {
      for (int pipe_ranks = 2; pipe_ranks <= 4; ++pipe_ranks) {
        for (int micros = 1; micros <= 5; ++micros) {
          for (const bool in_parts : {false, true}) {
            BuildShape shape{schedule,        pipe_ranks, micros,          pipe_ranks,
                             micros % 2 == 0, false,      plan.zero_stage, plan.order};
            shape.validates = true;
            shape.in_parts = in_parts;
            Mutator(shape, counts).run();
          }
        }
      }
    }
  }
  EXPECT_EQ(counts.escaped, 0);
  EXPECT_EQ(counts.valid, 2 * 6 * 3 * 5 * 2);
  EXPECT_GT(counts.swapped, 5000);
}

TEST(ValidateMutationsOfOffload, AreAllRefusedByName) {
  Counts counts;
  for (const Schedule schedule : {gpipe, one_f_one_b}) {
    for (const int zero_stage : {1, 2, 3}) {
      for (int pipe_ranks = 1; pipe_ranks <= 3; ++pipe_ranks) {
        for (int micros = 1; micros <= 3; ++micros) {
          for (int awake = 2; awake <= 5; ++awake) {
            BuildShape shape{schedule,       pipe_ranks, micros,    3 * pipe_ranks,
                             awake % 2 == 0, false,      zero_stage};
            shape.awake = awake;
            shape.end_blocks = micros;
            Mutator(shape, counts).run();
          }
        }
      }
    }
  }
  EXPECT_EQ(counts.escaped, 0);
  EXPECT_EQ(counts.valid, 2 * 3 * 3 * 3 * 4);
  EXPECT_GT(counts.swapped, 2000);
}

TEST(ValidateMutationsOfGradientsAtRest, AreAllRefusedByName) {
  Counts counts;
  for (const bool tied : {false, true}) {
    for (const int zero_stage : {1, 2, 3}) {
      for (int pipe_ranks = 1; pipe_ranks <= 3; ++pipe_ranks) {
        for (int micros = 1; micros <= 3; ++micros) {
          for (int places = 2; places <= 4; ++places) {
            BuildShape shape{gpipe, pipe_ranks, micros, 3 * pipe_ranks, tied, false, zero_stage};
            shape.awake = places;
            shape.gradients = {.places = places, .rests = true};
            shape.units = UnitOrder::kUnitMajor;
            Mutator(shape, counts).run();
          }
        }
      }
    }
  }
  EXPECT_EQ(counts.escaped, 0);
  EXPECT_EQ(counts.valid, 2 * 3 * 3 * 3 * 3);
  EXPECT_GT(counts.swapped, 2000);
}

}  // namespace
}  // namespace fm::pipeline
