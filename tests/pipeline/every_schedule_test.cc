// Every schedule for every shape it takes: 1 to 8 pipe ranks, 1 to 32 micro-batches, 1 to 4 chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "pipeline/schedule_study.h"
#include "pipeline/validate.h"
#include "tests/pipeline/named_schedules.h"
#include "zero/insert_zero.h"

namespace fm::pipeline {
namespace {

struct Shape {
  int p, m, v;
};

bool fits(const ScheduleRow& row, const Shape& at) {
  const PipeShape shape{.pipe_ranks = at.p, .micros = at.m, .chunks = at.v};
  const int least = row.most_chunks > 0 ? 1 : row.chunks;
  if (at.v < least || at.v > std::max(row.chunks, row.most_chunks)) return false;
  return row.constraint.holds == nullptr || row.constraint.holds(shape);
}

template <class Body>
void for_all_shapes(const ScheduleRow& row, Body body) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      for (int v = 1; v <= 4; ++v) {
        if (fits(row, {p, m, v})) body(Shape{p, m, v});
      }
    }
  }
}

class EverySchedule : public testing::TestWithParam<const ScheduleRow*> {};
std::vector<const ScheduleRow*> rows() {
  std::vector<const ScheduleRow*> out;
  for (const ScheduleRow& row : all_schedules()) out.push_back(&row);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, EverySchedule, testing::ValuesIn(rows()), [](const auto& each) {
  std::string name(each.param->name);
  std::erase(name, '-');
  return name;
});

// The whole order of a chunk: each micro-batch once forward, then once backward or once in halves.
TEST_P(EverySchedule, RunsEachMicroOnceThroughEachChunk) {
  for_all_shapes(*GetParam(), [](const Shape& at) {
    const Named made = named(GetParam()->name, at.p, at.m, at.v);
    for (const Program& program : made.programs) {
      std::map<std::pair<int, int>, std::string> of_chunk;  // by (chunk, micro)
      std::map<int, int> forwards;                          // by chunk
      for (const Instruction& it : program) {
        if (it.unit < 0) continue;
        of_chunk[{it.unit, it.micro}] += row_of(it.op).picture;
        if (it.op != Op::kForward) continue;
        ASSERT_EQ(it.micro, forwards[it.unit]++);
      }
      ASSERT_EQ(of_chunk.size(), static_cast<std::size_t>(at.m * at.v));
      for (const auto& [where, order] : of_chunk) ASSERT_TRUE(order == "FB" || order == "FIW");
      ASSERT_EQ(program.back(), Instruction{});  // Report
    }
  });
}

// With sends, receives and the sums of ZeRO; a rendezvous at every message; and in time.
TEST_P(EverySchedule, IsValidAndEnds) {
  for_all_shapes(*GetParam(), [](const Shape& at) {
    const Named made = named(GetParam()->name, at.p, at.m, at.v);
    const StudiedPrograms studied = lower_for_study(made.programs, made.shape);
    const core::ShardPlan plan = core::plan_of(0, core::SumOrder::kFast);
    std::vector<Program> programs = studied.lowered;
    for (int rank = 0; rank < at.p; ++rank) {
      Program& program = programs[static_cast<std::size_t>(rank)];
      program = zero::insert_zero(program, plan, studied.units, rank);
    }
    const auto refusal = validate(programs, {.units = studied.units, .micros = at.m, .plan = plan});
    ASSERT_FALSE(refusal) << at.p << " " << at.m << " " << at.v << describe(*refusal, programs);
    const Simulation run = simulate_schedule(made.programs, made.shape);
    ASSERT_GE(run.makespan, 3.0 * at.m - 1e-9);
    ASSERT_LE(run.makespan, 3.0 * (at.m + at.p - 1) + 1e-9);  // GPipe's
  });
}

// By the simulation, which is another walk through time: what stands before a receive begins no
// later than its send leaves, and what stands behind it no sooner.
TEST_P(EverySchedule, PostsReceivesInTheOrderOfTime) {
  for_all_shapes(*GetParam(), [](const Shape& at) {
    const Named made = named(GetParam()->name, at.p, at.m, at.v);
    const Simulation run = simulate_schedule(made.programs, made.shape);
    std::map<Instruction, double> sent;  // by receive
    for (const auto& of_rank : run.timeline) {
      for (const TimedInstruction& it : of_rank) {
        if (it.at.op != Op::kSendAct && it.at.op != Op::kSendGrad) continue;
        sent[{row_of(it.at.op).partner, it.at.micro, it.at.unit}] = it.begin;
      }
    }
    for (const auto& of_rank : run.timeline) {
      double begun = 0.0;     // of what takes time
      double received = 0.0;  // the latest send
      for (const TimedInstruction& it : of_rank) {
        if (const auto message = sent.find(it.at); message != sent.end()) {
          ASSERT_LE(begun, message->second + 1e-9) << print(it.at);
          received = std::max(received, message->second);
        }
        if (it.end == it.begin) continue;
        ASSERT_GE(it.begin, received - 1e-9) << at.p << " " << at.m << " " << print(it.at);
        begun = it.begin;
      }
    }
  });
}

// Where gradients are added as they come, as in the canonical order.
TEST_P(EverySchedule, AddsGradientsInTheOrderOfMicrosWhereItMust) {
  for_all_shapes(*GetParam(), [](const Shape& at) {
    PipeShape shape = named(GetParam()->name, at.p, at.m, at.v).shape;
    shape.gradients_in_order = true;
    for (const Program& program : make_programs(*GetParam(), shape)) {
      std::map<int, int> written;  // by chunk
      for (const Instruction& it : program) {
        if (!row_of(it.op).writes_gradient || it.unit < 0) continue;
        ASSERT_EQ(it.micro, written[it.unit]++) << at.p << " " << at.m << " " << at.v;
      }
    }
  });
}

// Ranks that are not alike at all, as where one has a large head.
TEST(SearchedSchedules, AreValidForAnyTimesOfTheRanks) {
  std::mt19937 random(3);
  const auto draw = [&](double most) { return 0.1 + static_cast<double>(random() % 1000) * most; };
  for (int round = 0; round < 300; ++round) {
    const int p = 1 + static_cast<int>(random() % 6);
    const int m = 1 + static_cast<int>(random() % 20);
    for (const std::string_view name : {"zb-1p", "zb-2p", "zb-v-auto"}) {
      Named made = named(name, p, m);
      for (PhaseCosts& costs : made.shape.costs) {
        costs = {draw(0.01), draw(0.05), draw(0.01), draw(0.001), draw(0.01), draw(0.01)};
      }
      made.programs = make_programs(row_named(name), made.shape);
      ASSERT_EQ(deadlock_of(made.programs, made.shape), "") << name << " " << p << " " << m;
      for (const Program& program : made.programs) {
        std::map<Op, int> count;
        for (const Instruction& at : program) ++count[at.op];
        ASSERT_EQ(count[Op::kForward], m * made.shape.chunks);
        ASSERT_EQ(count[Op::kBackwardInput], m * made.shape.chunks);
        ASSERT_EQ(count[Op::kBackwardWeight], m * made.shape.chunks);
      }
    }
  }
}

TEST(ScheduleRefusals, NameTheScheduleAndWhatItNeeds) {
  const auto refusal = [](std::string_view name, int p, int m, int v) -> std::string {
    try {
      named(name, p, m, v);
    } catch (const core::UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("dualpipe-v", 4, 7, 0)
                .find("the schedule dualpipe-v needs at least 2 x pipe "
                      "ranks micro-batches"),
            std::string::npos);
  EXPECT_NE(refusal("1f1b", 4, 8, 2).find("the schedule 1f1b takes 1 chunk per pipe rank"),
            std::string::npos);
  EXPECT_NE(refusal("zb-v", 4, 8, 3).find("the schedule zb-v takes 2 chunks per pipe rank"),
            std::string::npos);
  EXPECT_NE(refusal("looped-bfs", 4, 8, 65).find("takes 1 to 64 chunks"), std::string::npos);
  EXPECT_EQ(refusal("interleaved-zb", 4, 3, 3), "");
}

TEST(ScheduleRefusals, TooLittleMemoryForASearchIsAUserError) {
  for (const std::string_view name : {"zb-1p", "zb-2p", "zb-v-auto"}) {
    Named made = named(name, 4, 8);
    made.shape.activation_limit = 0.5;
    EXPECT_THROW(make_programs(row_named(name), made.shape), core::UserError) << name;
  }
}

// A search keeps what it is told to, and uses more memory to wait less.
TEST(SearchedSchedules, KeepTheirLimit) {
  for (const std::string_view name : {"zb-1p", "zb-2p", "zb-v-auto"}) {
    double before = 1e9;
    for (const double limit : {4.0, 5.0, 6.0, 7.0, 8.0}) {
      Named made = named(name, 4, 16, 0, {1.0, 1.1, 0.7, 0.05});
      made.shape.activation_limit = limit;
      made.programs = make_programs(row_named(name), made.shape);
      EXPECT_LE(std::ranges::max(peak_activations(made.programs, made.shape)), limit) << name;
      const double longest = simulate_schedule(made.programs, made.shape).longest_stage();
      EXPECT_LE(longest, before * 1.02) << name << " " << limit;
      before = longest;
    }
  }
}

}  // namespace
}  // namespace fm::pipeline
