#include "engine/shown/step_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr core::TraceForm kProduct = {"gemm", core::TraceKind::kKernel, {"m", "n", "k", "flops"}};
constexpr core::TraceForm kMove = {"forward", core::TraceKind::kInstruction, {"micro", "bytes"}};

// 3 x 5 x 7: 210 operations in 1,500 ns are 0.14 GFLOP/s.
TEST(TraceText, AnEventKeepsEveryNanosecondAndTellsItsRate) {
  const core::TraceEvent event{
      &kProduct, 9'000'000'001'234'567, 9'000'000'001'236'067, {3, 5, 7, 210}};
  const json read = json::parse(json_of(event, 4, 9'000'000'000'000'000));
  EXPECT_EQ(read,
            (json{{"name", "gemm"},
                  {"cat", "kernel"},
                  {"ph", "X"},
                  {"pid", 4},
                  {"tid", 0},
                  {"ts", 1234.567},
                  {"dur", 1.5},
                  {"args", {{"m", 3}, {"n", 5}, {"k", 7}, {"flops", 210}, {"GFLOP/s", 0.14}}}}));
}

TEST(TraceText, WhatHasNoValueIsLeftOut) {
  const core::TraceEvent none{&kMove, 0, 4, {core::kNoValue, core::kNoValue}};
  EXPECT_FALSE(json::parse(json_of(none, 0, 0)).contains("args"));
  const core::TraceEvent some{&kMove, 2'000'005, 2'000'009, {core::kNoValue, 8}};
  const json read = json::parse(json_of(some, 0, 2'000'007));  // begins before the zero
  EXPECT_EQ(read.at("args"), (json{{"bytes", 8}, {"GB/s", 2.0}}));
  EXPECT_EQ(read.at("ts"), -0.002);
}

TEST(TraceText, ARanksNameIsSafeInJson) {
  const json read = json::parse("[" + json_of_rank(3, "rank 3 (\"a\\b\")") + "]");
  EXPECT_EQ(read.at(0).at("args").at("name"), "rank 3 (\"a\\b\")");
  EXPECT_EQ(read.at(0).at("pid"), 3);
  EXPECT_EQ(read.at(1).at("args").at("sort_index"), 3);
}

// A rank that is woken late at some barriers does not move the result.
TEST(StepTraceClock, IsTheMedianOfTheDifferencesAtBarriers) {
  const std::int64_t zero[] = {100, 200, 300, 400, 500};
  const std::int64_t mine[] = {1100, 1200, 9300, 1399, 1501};
  EXPECT_EQ(clock_ahead(mine, zero), 1000);
  EXPECT_EQ(clock_ahead(zero, zero), 0);
}

using Steps = std::map<int, std::vector<int>>;  // by rank

class TracedRun : public TrainerCase {
 protected:
  std::string trace_name() const { return (folder() / "trace.json").string(); }
  // Unfinished files of the folder.
  std::vector<fs::path> drafts() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder())) {
      if (core::is_leftover(entry.path().filename().string())) found.push_back(entry.path());
    }
    return found;
  }
  json trace() const { return json::parse(std::ifstream(trace_name())); }

  // The steps that each rank wrote, in the order of the file.
  Steps steps_by_rank() const {
    Steps steps;
    const json read = trace();
    for (const json& event : read.at("traceEvents")) {
      if (event.at("ph") != "X" || event.at("cat") != "step") continue;
      steps[event.at("pid")].push_back(event.at("args").at("step"));
    }
    return steps;
  }
};

TEST_F(TracedRun, ChangesNoBitAndHoldsTheStepsOfEveryRank) {
  const TrainOptions plain = options("plain", 4);
  ASSERT_EQ(run(plain, 2), 0);
  TrainOptions watched = options("watched", 4);
  watched.trace = trace_name();
  watched.trace_steps = {2, 3};
  ASSERT_EQ(run(watched, 2), 0);
  for (const auto& [step, line] : metrics(plain)) {
    EXPECT_EQ(metrics(watched).at(step).loss, line.loss) << step;
    EXPECT_EQ(metrics(watched).at(step).grad_norm, line.grad_norm) << step;
  }
  const std::vector<int> both = {2, 3};
  EXPECT_EQ(steps_by_rank(), (Steps{{0, both}, {1, both}}));
  EXPECT_EQ(trace().at("otherData").at("dropped_events"), json({0, 0}));
  const json predicted = trace().at("otherData").at("prediction");
  EXPECT_EQ(predicted.at("data_ranks"), 2);
  ASSERT_EQ(predicted.at("ranks").size(), 1U);
  EXPECT_EQ(predicted.at("ranks").at(0).at(0), (json{"forward", 0, 0, 0.0, 0.0}));
}

TEST_F(TracedRun, ARunThatEndsEarlyWritesWhatItHas) {
  TrainOptions watched = options("watched", 2);
  watched.trace = trace_name();
  watched.trace_steps = {2, 5};
  ASSERT_EQ(run(watched), 0);
  EXPECT_EQ(steps_by_rank(), (Steps{{0, {2}}}));
}

TEST_F(TracedRun, StepsCountFromThisStart) {
  ASSERT_EQ(run(options("watched", 2)), 0);
  TrainOptions more = options("watched", 4);
  more.trace = trace_name();
  more.trace_steps = {2, 2};
  ASSERT_EQ(run(more), 0);
  EXPECT_EQ(steps_by_rank(), (Steps{{0, {4}}}));
}

TEST_F(TracedRun, StepsBeyondTheRunAndPlacesThatCannotBeAreRefusedBeforeTheFirstStep) {
  TrainOptions watched = options("watched", 2);
  watched.trace = trace_name();
  expect_error(core::ExitCode::kConfigError, "--trace_steps must begin within",
               [&] { run(watched, 2); });
  watched.trace_steps = {1, 1};
  watched.trace = folder().string();
  expect_error(core::ExitCode::kConfigError, "(" + watched.trace + ": Is a directory)",
               [&] { run(watched); });
  watched.trace = (folder() / "nowhere" / "t.json").string();
  expect_error(core::ExitCode::kConfigError, "choose one with --trace FILE", [&] { run(watched); });
  EXPECT_TRUE(metrics(watched).empty());
  EXPECT_FALSE(fs::exists(trace_name()));
  EXPECT_TRUE(drafts().empty());
}

// A file that cannot get its name costs the trace, not the run.
TEST_F(TracedRun, GoesOnWithoutTheFile) {
  TrainOptions watched = options("watched", 3);
  watched.trace = trace_name();
  watched.trace_steps = {1, 1};
  comm::run_ranks(1, [&](comm::Communicator& world) {
    StepTrace trace(watched, world);
    {
      const core::Recording recording(trace.recorder_of(1));
      const core::TraceScope scope(kMove);
    }
    ASSERT_EQ(drafts().size(), 1U);
    fs::remove(drafts().front());
    const StepTrace::Outcome outcome = trace.write();
    EXPECT_TRUE(outcome.failed);
    EXPECT_NE(outcome.text.find("training goes on"), std::string::npos) << outcome.text;
  });
}

}  // namespace
}  // namespace fm::engine
