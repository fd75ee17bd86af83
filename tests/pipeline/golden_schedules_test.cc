// Published orders, bubbles and peaks of every schedule: arXiv 2104.04473 (interleaved 1F1B),
// 2211.05953 (looped BFS), 2401.10241 (ZB), 2405.15362 (V schedules), deepseek-ai/DualPipe, and the
// orders of torch.distributed.pipelining.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "pipeline/schedule_study.h"
#include "tests/pipeline/named_schedules.h"

namespace fm::pipeline {
namespace {

constexpr std::string_view kTwoByFour[][3] = {
    {"1f1b", "0F0 0F1 0B0 0F2 0B1 0F3 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"},
    {"zb-h1", "0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3",
     "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1F3 1I3 1W2 1W3"},
    {"zb-h2", "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
     "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3"},
    {"interleaved-1f1b", "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
     "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"},
    {"looped-bfs", "0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3 2B3 2B2 2B1 2B0 0B3 0B2 0B1 0B0",
     "1F0 1F1 1F2 1F3 3F0 3F1 3F2 3F3 3B3 3B2 3B1 3B0 1B3 1B2 1B1 1B0"},
    {"zb-v",
     "0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 "
     "0W3",
     "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 "
     "1W3"},
    {"v-min",
     "0F0 0F1 3F0 3I0 3W0 0I0 0W0 3F1 3I1 3W1 0F2 0I1 0W1 3F2 3I2 3W2 0F3 0I2 0W2 3F3 3I3 3W3 0I3 "
     "0W3",
     "1F0 2F0 2I0 1I0 1F1 2F1 2W0 1W0 2I1 1I1 1F2 2F2 2W1 1W1 2I2 1I2 1F3 2F3 2W2 1W2 2I3 1I3 2W3 "
     "1W3"}};

TEST(GoldenSchedules, OrdersOfTwoPipeRanksAndFourMicros) {
  for (const auto& [name, first, second] : kTwoByFour) {
    const Named made = named(name, 2, 4);
    EXPECT_EQ(stage_actions(made.programs[0], made.shape, 0), first) << name;
    EXPECT_EQ(stage_actions(made.programs[1], made.shape, 1), second) << name;
  }
}

TEST(GoldenSchedules, OrdersOfFourPipeRanksAndEightMicros) {
  const Named h1 = named("zb-h1", 4, 8);
  EXPECT_EQ(stage_actions(h1.programs[0], h1.shape, 0),
            "0F0 0F1 0F2 0F3 0I0 0W0 0F4 0I1 0W1 0F5 0I2 0W2 0F6 0I3 0W3 0F7 0I4 0W4 0I5 0W5 0I6 "
            "0W6 0I7 0W7");
  EXPECT_EQ(stage_actions(h1.programs[3], h1.shape, 3),
            "3F0 3I0 3F1 3I1 3F2 3I2 3F3 3I3 3W0 3F4 3I4 3W1 3F5 3I5 3W2 3F6 3I6 3W3 3F7 3I7 3W4 "
            "3W5 3W6 3W7");
  const Named v = named("zb-v", 4, 8);
  EXPECT_EQ(stage_actions(v.programs[0], v.shape, 0),
            "0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 0F7 0I0 "
            "0W0 7F4 7I4 7W4 0I1 0W1 7F5 7I5 7W5 0I2 0W2 7F6 7I6 7W6 0I3 0W3 7F7 7I7 7W7 0I4 0W4 "
            "0I5 0W5 0I6 0W6 0I7 0W7");
}

// Makespan and longest stage above 3m, and the peak of rank r, at F = I = W = 1.
struct Unit {
  std::string_view name;
  int chunks;
  double (*makespan)(int p, int v);
  double (*longest)(int p, int v);
  double (*peak)(int p, int v, int r, int m);
};
double three(int p, int v) { return 3.0 * (p - 1) / v; }
double one(int p, int v) { return 1.0 * (p - 1) / v; }
double none(int, int) { return 0.0; }
double all(int, int, int, int m) { return m; }
double ranks(int p, int, int, int) { return p; }
constexpr Unit kUnits[] = {
    {"gpipe", 1, three, three, all},
    {"1f1b", 1, three, three, [](int p, int, int r, int) { return 1.0 * (p - r); }},
    {"zb-h1", 1, one, one, ranks},
    {"zb-h2", 1, one, none, [](int p, int, int, int) { return 2.0 * p - 1; }},
    {"looped-bfs", 2, three, three, all},
    {"interleaved-1f1b", 2, three, three,
     [](int p, int v, int r, int) { return (2.0 * (p - 1 - r) + (v - 1) * p + 1) / v; }},
    {"interleaved-1f1b", 4, three, three,
     [](int p, int v, int r, int) { return (2.0 * (p - 1 - r) + (v - 1) * p + 1) / v; }},
    {"interleaved-zb", 2, one, one, ranks},
    {"interleaved-zb", 4, one, one, ranks},
    {"zb-v", 2, one, none, ranks},
    {"zb-v-auto", 2, one, none, ranks},
    {"dualpipe-v", 2, one, one, [](int p, int, int, int) { return p + 0.5; }},
};

TEST(GoldenSchedules, BubblesAndPeaksAtUnitTimes) {
  for (const Unit& unit : kUnits) {
    for (const int p : {2, 4, 8}) {
      const int m = 4 * p;
      SCOPED_TRACE(core::concat(unit.name, ", p ", p, ", v ", unit.chunks));
      const Named made = named(unit.name, p, m, unit.chunks);
      const Simulation run = simulate_schedule(made.programs, made.shape);
      EXPECT_NEAR(run.makespan - 3 * m, unit.makespan(p, unit.chunks), 1e-9);
      EXPECT_NEAR(run.longest_stage() - 3 * m, unit.longest(p, unit.chunks), 1e-9);
      const std::vector<double> peaks = peak_activations(made.programs, made.shape);
      for (int r = 0; r < p; ++r) {
        EXPECT_EQ(peaks[static_cast<std::size_t>(r)], unit.peak(p, unit.chunks, r, m)) << r;
      }
    }
  }
}

struct Block {
  std::string_view name;
  int p;
  double bubble, peak;
};
constexpr Block kBlocks[] = {{"v-half", 2, 0.5, 2}, {"v-half", 4, 2.5, 3}, {"v-half", 8, 8.5, 5},
                             {"v-min", 2, 1.5, 2},  {"v-min", 4, 5.5, 2},  {"v-min", 8, 13.5, 4},
                             {"1f1b-v", 2, 2, 2},   {"1f1b-v", 3, 4, 3},   {"1f1b-v", 4, 7.5, 3},
                             {"1f1b-v", 6, 11, 5},  {"1f1b-v", 8, 16.5, 6}};

TEST(GoldenSchedules, BubblesAndPeaksOfBuildingBlocks) {
  for (const Block& block : kBlocks) {
    for (const int m : {2 * block.p, 32}) {
      const Named made = named(block.name, block.p, m);
      const Simulation run = simulate_schedule(made.programs, made.shape);
      EXPECT_NEAR(run.makespan - 3 * m, block.bubble, 1e-9) << block.name << ", p " << block.p;
      EXPECT_NEAR(run.longest_stage() - 3 * m, block.bubble, 1e-9) << block.name << block.p;
      EXPECT_EQ(std::ranges::max(peak_activations(made.programs, made.shape)), block.peak);
    }
  }
}

TEST(GoldenSchedules, TheFirstRankOfVMinMayKeepHalfAMicroBatchLess) {
  for (const int p : {2, 8}) {
    const Named made = named("v-min", p, 4 * p);
    const std::vector<double> peaks = peak_activations(made.programs, made.shape);
    EXPECT_EQ(peaks.front(), p == 2 ? 1.5 : 3.5);
    for (int r = 1; r < p; ++r) EXPECT_EQ(peaks[static_cast<std::size_t>(r)], (p + 4) / 3);
  }
}

TEST(GoldenSchedules, PeaksOfBuildingBlocksForEveryNumberOfRanks) {
  for (int p = 2; p <= 8; ++p) {
    const auto peak = [&](std::string_view name) {
      const Named made = named(name, p, 3 * p);
      return std::ranges::max(peak_activations(made.programs, made.shape));
    };
    EXPECT_EQ(peak("v-half"), (p + 2) / 2) << p;
    EXPECT_EQ(peak("v-min"), (p + 4) / 3) << p;
    EXPECT_EQ(peak("1f1b-v"), 2 * p / 3 + 1) << p;
  }
}

TEST(GoldenSchedules, MakespansOfFourPipeRanksAndEightMicros) {
  struct Row {
    std::string_view name;
    int chunks;
    double makespan, longest;
  };
  constexpr Row kRows[] = {{"gpipe", 1, 33, 33},
                           {"1f1b", 1, 33, 33},
                           {"zb-h1", 1, 27, 27},
                           {"zb-h2", 1, 27, 24},
                           {"looped-bfs", 2, 28.5, 28.5},
                           {"looped-bfs", 4, 26.25, 26.25},
                           {"interleaved-1f1b", 2, 28.5, 28.5},
                           {"interleaved-1f1b", 4, 26.25, 26.25},
                           {"interleaved-zb", 2, 25.5, 25.5},
                           {"interleaved-zb", 4, 24.75, 24.75},
                           {"zb-v", 2, 25.5, 24},
                           {"v-half", 2, 26.5, 26.5},
                           {"v-min", 2, 29.5, 29.5},
                           {"dualpipe-v", 2, 25.5, 25.5}};
  for (const Row& row : kRows) {
    const Named made = named(row.name, 4, 8, row.chunks);
    const Simulation run = simulate_schedule(made.programs, made.shape);
    EXPECT_NEAR(run.makespan, row.makespan, 1e-9) << row.name;
    EXPECT_NEAR(run.longest_stage(), row.longest, 1e-9) << row.name;
  }
}

// Tables 5 and 6 of the paper. Memory of a layer: 34 h + 5 a s held, 32 h of it parked.
TEST(GoldenSchedules, BubbleRatesOfTheZeroBubblePaper) {
  struct Row {
    int m;
    double forward, input, weight, comm;
    double h, a;
    int v;
    double rates[6];
  };
  constexpr Row kRows[] = {
      {24, 18.522, 18.086, 9.337, .601, 2304, 24, 3, {.2431, .1055, .1585, .1083, .1585, .0433}},
      {64, 18.546, 18.097, 9.321, .762, 2304, 24, 3, {.1240, .0443, .0674, .0444, .0674, .0026}},
      {24, 29.718, 29.444, 19.927, .527, 4096, 32, 4, {.2347, .0808, .1323, .0698, .1323, .0029}},
      {32, 29.802, 29.428, 19.530, .577, 4096, 32, 4, {.1898, .0628, .1045, .0559, .1045, .0022}}};
  constexpr std::string_view kNames[] = {"1f1b", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-1p",
                                         "zb-2p"};
  for (const Row& row : kRows) {
    const double held = 34 * row.h + 5 * row.a * 1024;
    const PhaseCosts costs{row.forward, row.input, row.weight, row.comm, held, 32 * row.h};
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      const bool interleaved = i == 1;
      const Named made = named(kNames[i], 8, row.m, interleaved ? row.v : 1, costs);
      double cost = simulate_schedule(made.programs, made.shape).longest_stage();
      if (interleaved) cost -= 8 * row.comm;  // the paper counts p messages fewer
      const double rate = 1 - row.m * costs.whole() / cost;
      EXPECT_NEAR(rate, row.rates[i], interleaved ? 4e-3 : 5.1e-5) << kNames[i] << ", m " << row.m;
    }
  }
}

}  // namespace
}  // namespace fm::pipeline
