#include "observe/report/timeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "core/check.h"

namespace fm::report {
namespace {

// Steps 3 and 4 of two ranks; rank 1 is 10 us later. Only the instructions of step 4 count.
const std::string kTrace = R"({"displayTimeUnit": "ms", "traceEvents": [
{"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
{"name": "step", "cat": "step", "ph": "X", "pid": 0, "ts": 0, "dur": 90, "args": {"step": 3}},
{"name": "forward", "cat": "instruction", "ph": "X", "pid": 0, "ts": 5, "dur": 20},
{"name": "step", "cat": "step", "ph": "X", "pid": 0, "ts": 100, "dur": 100, "args": {"step": 4}},
{"name": "forward", "cat": "instruction", "ph": "X", "pid": 0, "ts": 110, "dur": 30},
{"name": "gemm", "cat": "kernel", "ph": "X", "pid": 0, "ts": 112, "dur": 20},
{"name": "backward_weight", "cat": "instruction", "ph": "X", "pid": 0, "ts": 140, "dur": 50},
{"name": "step", "cat": "step", "ph": "X", "pid": 0, "ts": 210, "dur": 9, "args": {"step": 5}},
{"name": "step", "cat": "step", "ph": "X", "pid": 1, "ts": 10, "dur": 90, "args": {"step": 3}},
{"name": "step", "cat": "step", "ph": "X", "pid": 1, "ts": 110, "dur": 100, "args": {"step": 4}},
{"name": "new_op", "cat": "instruction", "ph": "X", "pid": 1, "ts": 115, "dur": 95}
]})";

class Traces : public testing::Test {
 protected:
  Traces() : path_(std::filesystem::path(testing::TempDir()) / "fm_timeline_trace.json") {}
  ~Traces() override { std::filesystem::remove(path_); }
  Timeline read(const std::string& text) const {
    std::ofstream(path_) << text;
    return timeline_of(read_trace_step(path_));
  }
  std::filesystem::path path_;
};

TEST_F(Traces, TheLastStepOfAllRanksIsShown) {
  const Timeline got = read(kTrace);
  EXPECT_EQ(got.step, 4);
  EXPECT_DOUBLE_EQ(got.length_us, 110);
  EXPECT_EQ(got.kinds, (std::vector<std::string>{"forward", "backward", "other"}));
  ASSERT_EQ(got.ranks.size(), 2U);
  ASSERT_EQ(got.ranks.at(0).size(), 2U);
  EXPECT_DOUBLE_EQ(got.ranks.at(0)[0].begin_us, 10);
  EXPECT_DOUBLE_EQ(got.ranks.at(0)[0].end_us, 40);
  ASSERT_EQ(got.ranks.at(1).size(), 1U);
  EXPECT_DOUBLE_EQ(got.ranks.at(1)[0].begin_us, 15);
  EXPECT_DOUBLE_EQ(got.ranks.at(1)[0].end_us, 110);
}

// 220 us of two ranks: 30 forward, 50 backward, 95 other.
TEST_F(Traces, ThePictureHasRanksAndShares) {
  const std::string svg = draw(read(kTrace));
  for (const char* part : {"Timeline of step 4, 0.11 ms", ">rank 0<", ">rank 1<", "forward 13.6 %",
                           "backward 22.7 %", "other 43.2 %"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part << svg;
  }
}

// Rank 1's new_op of 95 us begins with two messages, until 20 us and 45 us; one in its middle is
// part of its work.
TEST_F(Traces, MessagesAtTheBeginOfAnInstructionAreItsWait) {
  std::string text = kTrace;
  text.replace(text.rfind("\n]}"), 3, R"(,
{"name": "receive", "cat": "collective", "ph": "X", "pid": 1, "ts": 115.5, "dur": 4.5},
{"name": "all_gather", "cat": "collective", "ph": "X", "pid": 1, "ts": 121, "dur": 24},
{"name": "all_reduce", "cat": "collective", "ph": "X", "pid": 1, "ts": 170, "dur": 9}
], "otherData": {"prediction": {"a": [1, 2]}}})");
  std::ofstream(path_) << text;
  const TraceStep got = read_trace_step(path_);
  ASSERT_EQ(got.ranks.at(1).size(), 1U);
  EXPECT_DOUBLE_EQ(got.ranks.at(1)[0].begin_us, 15);
  EXPECT_DOUBLE_EQ(got.ranks.at(1)[0].ready_us, 45);
  EXPECT_DOUBLE_EQ(got.ranks.at(0)[0].ready_us, 10);
  EXPECT_EQ(got.prediction, R"({"a":[1,2]})");
}

TEST_F(Traces, ManyEventsMakeASmallPicture) {
  std::string text = R"({"traceEvents": [{"cat": "step", "ph": "X", "pid": 0, "ts": 0, )"
                     R"("dur": 1e5, "args": {"step": 1}})";
  for (int at = 0; at < 50'000; ++at) {
    text += ",\n{\"cat\": \"instruction\", \"name\": \"" +
            std::string(at % 3 == 0 ? "forward" : "reduce") +
            "\", \"ph\": \"X\", \"pid\": 0, \"ts\": " + std::to_string(2 * at) + ", \"dur\": 1}";
  }
  EXPECT_LT(draw(read(text + "]}")).size(), 200'000U);
}

TEST_F(Traces, WhatIsNoTraceIsAnErrorOfTheUser) {
  EXPECT_THROW(read_trace_step("/nowhere.json"), core::UserError);
  EXPECT_THROW(read(""), core::UserError);
  EXPECT_THROW(read("{\"traceEvents\": []}"), core::UserError);
  EXPECT_THROW(read(kTrace.substr(0, 700)), core::UserError);
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& text :
       {deep, R"({"otherData":{"prediction":)" + deep + "}}",
        R"({"traceEvents":[{"ph":"X","args":)" + deep + "}]}", R"({"x":)" + deep + "}"}) {
    EXPECT_THROW(read(text), core::UserError) << text.substr(0, 60);
  }
}

TEST_F(Traces, DamagedOnesAreDrawnOrRefused) {
  std::mt19937 random(3);
  int drawn = 0;
  for (int round = 0; round < 1'500; ++round) {
    std::string text = kTrace;
    for (int change = 0; change < 2; ++change) {
      text[random() % text.size()] = "{}[]\":,019-e.s"[random() % 14];
    }
    try {
      drawn += draw(read(text)).empty() ? 0 : 1;
    } catch (const core::UserError&) {  // fine
    }
  }
  EXPECT_GT(drawn, 200);
}

}  // namespace
}  // namespace fm::report
