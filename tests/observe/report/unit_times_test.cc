// Times of units from a trace, by hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/check.h"
#include "observe/report/trace_step.h"

namespace fm::report {
namespace {

std::string event(const char* name, const char* category, int rank, double begin, double spent,
                  const std::string& arguments) {
  return core::concat(R"({"name": ")", name, R"(", "cat": ")", category, R"(", "ph": "X", "pid": )",
                      rank, R"(, "ts": )", begin, R"(, "dur": )", spent, R"(, "args": {)",
                      arguments, "}}");
}

std::string place(int micro, int unit) {
  return core::concat(R"("micro": )", micro, R"(, "unit": )", unit);
}

// Two pipe ranks, one micro-batch. Rank 0: embedding 0, blocks 1 and 2; rank 1: block 3, the head.
std::vector<std::string> two_ranks() {
  return {
      event("step", "step", 0, 0, 1100, R"("step": 3)"),
      event("forward", "instruction", 0, 0, 4, place(0, 0)),
      event("forward", "instruction", 0, 4, 100, place(0, 1)),
      event("forward", "instruction", 0, 104, 120, place(0, 2)),
      event("send_act", "instruction", 0, 224, 1, place(0, 3)),
      // Waits for the gradient until 700, which left at 680.
      event("backward", "instruction", 0, 300, 590, place(0, 2)),
      event("backward_input", "part", 0, 300, 500, place(0, 2)),
      event("receive", "collective", 0, 300, 400, ""),
      event("backward_weight", "part", 0, 800, 90, place(0, 2)),
      event("backward", "instruction", 0, 890, 145, place(0, 1)),
      event("backward_input", "part", 0, 890, 105, place(0, 1)),
      event("backward_weight", "part", 0, 995, 40, place(0, 1)),
      event("step", "step", 1, 0, 1000, R"("step": 3)"),
      // Waits for the hidden state, which left at 225, from 250 to 258.
      event("forward", "instruction", 1, 250, 118, place(0, 3)),
      event("receive", "collective", 1, 250, 8, ""),
      event("loss", "instruction", 1, 370, 210, R"("micro": 0)"),
      event("backward_input", "instruction", 1, 580, 98, place(0, 3)),
      event("send_grad", "instruction", 1, 678, 2, place(0, 2)),
      event("backward_weight", "instruction", 1, 680, 70, place(0, 3)),
  };
}

class UnitTimesOfATrace : public testing::Test {
 protected:
  UnitTimesOfATrace() : path_(testing::TempDir() + "/fm_unit_times.json") {}
  ~UnitTimesOfATrace() override { std::filesystem::remove(path_); }
  UnitTimes read(const std::vector<std::string>& events) const {
    std::string text;
    for (const std::string& one : events) text += (text.empty() ? "" : ",\n") + one;
    std::ofstream(path_) << R"({"traceEvents": [)" << text << "]}";
    return unit_times(read_trace_step(path_), path_);
  }
  std::string refusal(const std::vector<std::string>& events) const {
    try {
      read(events);
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      return error.what();
    }
    return "";
  }
  // Without the events that hold `words`.
  static std::vector<std::string> without(const char* words) {
    std::vector<std::string> events = two_ranks();
    std::erase_if(events, [&](const std::string& one) { return one.find(words) != one.npos; });
    return events;
  }
  std::string path_;
};

TEST_F(UnitTimesOfATrace, AreMediansWithoutWaits) {
  const UnitTimes times = read(two_ranks());
  EXPECT_DOUBLE_EQ(times.embedding.forward, 4);
  EXPECT_DOUBLE_EQ(times.block.forward, 110);  // of 100, 120, 110 (258 to 368)
  EXPECT_DOUBLE_EQ(times.block.input, 100);    // of 100 (700 to 800), 105, 98
  EXPECT_DOUBLE_EQ(times.block.weight, 70);    // of 90, 40, 70
  EXPECT_DOUBLE_EQ(times.head, 210);
  // Of two numbers the smaller: blocks of rank 0 take 220, 205, 130, those of rank 1 110, 98, 70.
  EXPECT_DOUBLE_EQ(times.rank.forward, 110);
  EXPECT_DOUBLE_EQ(times.rank.input, 98);
  EXPECT_DOUBLE_EQ(times.rank.weight, 70);
  // 258 - 250 (the receiver came late) and 700 - 680 (it waited): the smaller.
  EXPECT_DOUBLE_EQ(times.message, 8);
}

TEST_F(UnitTimesOfATrace, MessagesOfDataRanksPairOffInTheirOrder) {
  // The same on ranks 1 and 3 of 4, where all of pipe rank 0 comes 1 later and of pipe rank 1, 40.
  std::vector<std::string> events = {event("step", "step", 0, 0, 1000, R"("step": 1)"),
                                     event("step", "step", 1, 0, 1000, R"("step": 1)"),
                                     event("step", "step", 2, 0, 1000, R"("step": 1)"),
                                     event("step", "step", 3, 0, 1000, R"("step": 1)")};
  for (const int data : {0, 1}) {
    events.push_back(event("send_act", "instruction", data, 100 + data, 1, place(0, 2)));
    events.push_back(event("forward", "instruction", 2 + data, 50, 200, place(0, 2)));
    events.push_back(event("receive", "collective", 2 + data, 50, 60 + 40 * data, ""));
    events.push_back(event("backward_input", "instruction", 2 + data, 300, 10, place(0, 2)));
    events.push_back(event("backward_weight", "instruction", 2 + data, 310, 10, place(0, 2)));
    events.push_back(event("loss", "instruction", 2 + data, 290, 10, R"("micro": 0)"));
  }
  EXPECT_DOUBLE_EQ(read(events).message, 9);  // 110 - 101; the other takes 150 - 102
}

TEST_F(UnitTimesOfATrace, NameWhatIsMissing) {
  EXPECT_NE(refusal(without("forward")).find("no forward of a block"), std::string::npos);
  EXPECT_NE(refusal(without("backward_input")).find("no backward_input of a block"),
            std::string::npos);
  EXPECT_NE(refusal(without("backward_weight")).find("no backward_weight"), std::string::npos);
  EXPECT_NE(refusal(without("\"loss\"")).find("a trace of all pipe ranks"), std::string::npos);
  EXPECT_NE(refusal({}).find("a step of every rank"), std::string::npos);
}

TEST_F(UnitTimesOfATrace, OneRankSendsNothing) { EXPECT_EQ(read(without("send_")).message, 0.0); }

}  // namespace
}  // namespace fm::report
