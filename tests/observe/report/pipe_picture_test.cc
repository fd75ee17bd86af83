#include "observe/report/pipe_picture.h"

#include <gtest/gtest.h>

#include <random>

#include "core/check.h"

namespace fm::report {
namespace {

// 1F1B, 2 pipe ranks, 2 micro-batches, F 1 and B 2 by arithmetic: the last one ends at 9, each rank
// works 6. Unit 1 and 2 are blocks of pipe rank 0, 3 of pipe rank 1.
const std::string kTwoRanks = R"({"schedule": "1f1b", "micros": 2, "data_ranks": 1,
"unit": "GFLOP", "chunk_of_unit": [0, 0, 0, 0, 0], "ranks": [
[["gather", -1, 1, 0, 0], ["forward", 0, 1, 0, 0.5], ["forward", 0, 2, 0.5, 1],
 ["send_act", 0, 3, 1, 1], ["forward", 1, 1, 1, 1.5], ["forward", 1, 2, 1.5, 2],
 ["backward", 0, 2, 4, 5], ["backward", 0, 1, 5, 6], ["backward", 1, 2, 7, 8],
 ["backward", 1, 1, 8, 9]],
[["forward", 0, 3, 1, 2], ["backward", 0, 3, 2, 4], ["send_grad", 0, 2, 4, 4],
 ["forward", 1, 3, 4, 5], ["backward", 1, 3, 5, 7]]]})";

// Tags are closed in order and attributes are quoted: the text is XML in that respect.
bool is_balanced(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at + 1)) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.starts_with("?") || tag.ends_with("/")) continue;
    if (!tag.starts_with("/")) {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PipePanel, UnitsOfAMicroBatchAreOneBox) {
  const auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  ASSERT_EQ(got->panel.rows.size(), 2U);
  const std::vector<PipeBox>& boxes = got->panel.rows[0].boxes;
  ASSERT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[0].work, PipeWork::kForward);
  EXPECT_EQ(boxes[0].micro, 0);
  EXPECT_DOUBLE_EQ(boxes[0].end, 1.0);
  EXPECT_EQ(boxes[3].work, PipeWork::kBackward);
  EXPECT_DOUBLE_EQ(boxes[3].begin, 7.0);
  EXPECT_DOUBLE_EQ(boxes[3].end, 9.0);
  EXPECT_EQ(got->panel.rows[0].marks.size(), 2U);
}

TEST(PipePanel, ChunksAreBoxesOfTheirOwn) {
  const auto got = read_prediction(
      R"({"schedule": "v", "micros": 1, "data_ranks": 1, "unit": "ms", "chunk_of_unit": [0, 0, 1],
          "ranks": [[["forward", 0, 0, 0, 1], ["forward", 0, 1, 1, 2],
                     ["forward", 0, 2, 2, 3]]]})");
  ASSERT_TRUE(got);
  ASSERT_EQ(got->panel.rows[0].boxes.size(), 2U);
  EXPECT_EQ(got->panel.rows[0].boxes[1].chunk, 1U);
}

TEST(PipePanel, TheBubbleIsTheIdleShareOfAllRanks) {
  const auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  EXPECT_NEAR(got->panel.bubble(), 1.0 - 12.0 / 18.0, 1e-12);
  EXPECT_TRUE(holds(svg_file(pipe_picture(&*got, nullptr)), "bubble 33.3 %"));
}

TEST(PipePicture, IsXmlWhateverTheWordsAre) {
  auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  got->schedule = "a<b>&\"'\x01";
  const std::string svg = svg_file(pipe_picture(&*got, nullptr));
  EXPECT_TRUE(is_balanced(svg)) << svg;
  EXPECT_TRUE(holds(svg, "a&lt;b&gt;&amp;&quot;&#39;\uFFFD"));
  EXPECT_FALSE(holds(svg, "href"));
}

TEST(PipePicture, SaysWhatCannotBeDrawn) {
  auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  PipeRow& row = got->panel.rows[0];
  row.boxes.clear();
  for (int at = 0; at < 4'000; ++at) {
    row.boxes.push_back({PipeWork::kForward, at, 0, 1.0 * at, at + 0.5});
    row.marks.push_back({PipeMark::kGather, 1.0 * at});
  }
  got->panel.length = 4'000;
  const std::string svg = svg_file(pipe_picture(&*got, nullptr));
  // 1,040 columns of the drawing hold 520 boxes of two.
  EXPECT_TRUE(holds(svg, "the picture is cut after 13.0 % of the step"));
  EXPECT_TRUE(holds(svg, "not drawn, because there are too many: gathers (4001 on a rank)"));
  EXPECT_LT(svg.size(), 200'000U);
}

// One rank computes 3 of 6 ms, of which it waits for the first: 2 ms are work. As much work, 2 ms
// over 12 units of the prediction, makes its step 9 units long or 1.5 ms.
TEST(PipePicture, PredictedTimesAreScaledToTheMeasuredWork) {
  const auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  TraceStep trace{.step = 7, .length_us = 6'000, .ranks = {}, .prediction = ""};
  trace.ranks[0] = {{"forward", 0, 1, 1'000, 4'000, 2'000}, {"norm", -1, -1, 4'000, 6'000, 4'000}};
  const PipePicture picture = pipe_picture(&*got, &trace);
  ASSERT_EQ(picture.panels.size(), 2U);
  EXPECT_NEAR(picture.panels[0].length, 1.5, 1e-12);
  EXPECT_NEAR(picture.panels[1].rows[0].boxes[0].begin, 2.0, 1e-12);
  EXPECT_NEAR(picture.panels[1].bubble(), 0.0, 1e-12);
  EXPECT_EQ(picture.unit, "ms");
  EXPECT_TRUE(holds(svg_file(picture), "measured, step 7: bubble 0.0 %"));
}

TEST(PipePicture, SaysWhereThePredictedTimesAreFrom) {
  auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  const auto title = [&] { return pipe_picture(&*got, nullptr).panels.at(0).title; };
  EXPECT_EQ(title(), "predicted; a rank's time is counted in its FLOPs");
  for (const char* unit : {"--plan_times", "ms"}) {
    got->unit = unit;
    EXPECT_EQ(title(), "predicted from --plan_times") << unit;
  }
}

TEST(PipePicture, APageShowsNoneOfOneRank) {
  auto got = read_prediction(kTwoRanks);
  ASSERT_TRUE(got);
  EXPECT_TRUE(holds(figure_of(pipe_picture(&*got, nullptr)), "<figure id=\"pipeline\""));
  got->panel.rows.pop_back();
  EXPECT_EQ(figure_of(pipe_picture(&*got, nullptr)), "");
}

TEST(PipePicture, DamagedPredictionsAreDrawnOrLeftOut) {
  std::mt19937 random(5);
  int drawn = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string text = kTwoRanks;
    for (int change = 0; change < 2; ++change) {
      text[random() % text.size()] = "{}[]\":,019-e.s"[random() % 14];
    }
    const auto got = read_prediction(text);
    if (!got) continue;
    EXPECT_TRUE(is_balanced(svg_file(pipe_picture(&*got, nullptr)))) << text;
    ++drawn;
  }
  EXPECT_GT(drawn, 200);
}

}  // namespace
}  // namespace fm::report
