#include "observe/report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/check.h"

namespace fm::report {
namespace {

const std::string kRow =
    R"({"step": 3, "samples": 12, "epoch": 0.5, "loss": 2.25, "lr": 1e-3, "grad_norm": null, )"
    R"("tokens": 256, "tokens_per_second": 1849, "gflops": 1.5, "step_time": 0.138453, )"
    R"("phases": {"forward": 59.5, "wait": 0.25}, "skipped": true, "loss_scale": 65536, )"
    R"("mem_peak_bytes": 78176256, "minor_faults": 1126, "eval_loss": 2, "perplexity": 7.389, )"
    R"("time": 1700000000.5})";

TEST(Metrics, ARowHasItsNumbers) {
  const Metrics got = parse_metrics(kRow + "\n");
  ASSERT_EQ(got.rows(), 1U);
  EXPECT_EQ(got[Field::kStep][0], 3);
  EXPECT_EQ(got[Field::kSamples][0], 12);
  EXPECT_EQ(got[Field::kEpoch][0], 0.5);
  EXPECT_EQ(got[Field::kLoss][0], 2.25);
  EXPECT_EQ(got[Field::kLearningRate][0], 0.001);
  EXPECT_TRUE(std::isnan(got[Field::kGradNorm][0]));
  EXPECT_EQ(got[Field::kTokens][0], 256);
  EXPECT_EQ(got[Field::kTokensPerSecond][0], 1849);
  EXPECT_EQ(got[Field::kGflops][0], 1.5);
  EXPECT_EQ(got[Field::kStepTime][0], 0.138453);
  EXPECT_EQ(got[Field::kSkipped][0], 1);
  EXPECT_EQ(got[Field::kLossScale][0], 65536);
  EXPECT_EQ(got[Field::kMemPeak][0], 78176256);
  EXPECT_EQ(got[Field::kEvalLoss][0], 2);
  EXPECT_EQ(got[Field::kPerplexity][0], 7.389);
  EXPECT_EQ(got[Field::kTime][0], 1700000000.5);
  EXPECT_EQ(got.phases, (std::vector<std::string>{"forward", "wait"}));
  EXPECT_EQ(got.phase_ms[0][0], 59.5F);
  EXPECT_EQ(got.phase_ms[1][0], 0.25F);
  EXPECT_EQ(got.damaged_lines, 0);
}

TEST(Metrics, OldRowsLackFieldsAndNewOnesHaveMore) {
  const Metrics got = parse_metrics(
      "{\"step\": 1, \"loss\": 4}\n"
      "{\"step\": 2, \"loss\": 3, \"new\": \"word\", \"list\": [1, {\"loss\": 9}], "
      "\"phases\": {\"data\": 1}}\n"
      "{\"saved\": 2}\n\n{\"start\": 5}");
  ASSERT_EQ(got.rows(), 2U);
  EXPECT_EQ(got[Field::kLoss], (Column{4, 3}));
  EXPECT_TRUE(std::isnan(got[Field::kSamples][1]));
  EXPECT_EQ(got.phase_ms[0], (std::vector<float>{0, 1}));
  EXPECT_EQ(got.damaged_lines, 0);
  EXPECT_TRUE(got.starts.empty());
}

TEST(Metrics, LinesOfDeepBracketsAreLeftOutAndCounted) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const Metrics got = parse_metrics("{\"start\": {\"facts\": {\"a\": " + deep + "}}}\n" +
                                    "{\"start\": {\"version\": " + deep + "}}\n" +
                                    "{\"step\": 1, \"loss\": 2, \"x\": " + deep + "}\n" + deep +
                                    "\n{\"step\": 2, \"loss\": 4}\n");
  EXPECT_EQ(got[Field::kStep], (Column{2}));
  EXPECT_TRUE(got.starts.empty());
  EXPECT_EQ(got.damaged_lines, 4);
}

TEST(Metrics, DamagedLinesAreCounted) {
  const Metrics got = parse_metrics(
      "{\"step\": 1, \"loss\": 4}\nrubbish\n{\"step\": 2, \"loss\": \"low\"}\n{\"step\": 2.5}\n"
      "{\"step\": -1}\n{\"step\": 3, \"loss\": 01}\n[1]\n{\"step\": 4, \"loss\": 2}\n{\"step\": "
      "5, ");
  EXPECT_EQ(got[Field::kStep], (Column{1, 4}));
  EXPECT_EQ(got.damaged_lines, 7);
  EXPECT_EQ(got.first_damaged_line, 2);
}

TEST(Metrics, TheLastRowOfAStepCounts) {
  const Metrics got = parse_metrics(
      "{\"step\": 1, \"loss\": 4}\n{\"step\": 2, \"loss\": 3}\n{\"step\": 3, \"loss\": 9}\n"
      "{\"step\": 2, \"loss\": 2, \"phases\": {\"data\": 7}}\n{\"step\": 3, \"loss\": 1}\n");
  EXPECT_EQ(got[Field::kStep], (Column{1, 2, 3}));
  EXPECT_EQ(got[Field::kLoss], (Column{4, 2, 1}));
  EXPECT_EQ(got.phase_ms[0], (std::vector<float>{0, 7, 0}));
  EXPECT_EQ(got.replaced_rows, 2);
}

TEST(Metrics, AStartHasItsFacts) {
  const Metrics got = parse_metrics(
      R"({"start": {"time": 1700000000, "version": "0.1.0", "from_step": 40, "ranks": 8, )"
      R"("facts": {"lr": 0.002, "model": "tiny", "more": [1, "a"], "none": null}}})"
      "\n{\"start\": {}}\n");
  ASSERT_EQ(got.starts.size(), 2U);
  const Start& start = got.starts[0];
  EXPECT_EQ(start.time, 1700000000);
  EXPECT_EQ(start.version, "0.1.0");
  EXPECT_EQ(start.from_step, 40);
  EXPECT_EQ(start.ranks, 8);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"lr", "0.002"}, {"model", "tiny"}, {"more", "[1,\"a\"]"}, {"none", "null"}};
  EXPECT_EQ(start.facts, facts);
  EXPECT_TRUE(std::isnan(got.starts[1].time));
}

TEST(Metrics, NamesOfPhasesWithoutEndCostNoMemoryWithoutEnd) {
  std::string text;
  for (int step = 1; step <= 100; ++step) {
    const std::string number = std::to_string(step);
    text += "{\"step\": " + number + ", \"phases\": {\"p" + number + "\": 1}}\n";
  }
  const Metrics got = parse_metrics(text);
  ASSERT_EQ(got.phases.size(), 16U);
  EXPECT_EQ(got.phases.back(), "further");
  EXPECT_EQ(got.phase_ms.back().back(), 1);
}

TEST(Metrics, AFileIsReadInPieces) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "fm_metrics.jsonl";
  {
    std::ofstream file(path);
    for (int step = 1; step <= 20'000; ++step) {
      file << "{\"step\": " << step << ", \"loss\": " << step << ", \"note\": \""
           << std::string(static_cast<std::size_t>(step % 211), 'x') << "\"}\n";
    }
  }
  const Metrics got = read_metrics(path);
  std::filesystem::remove(path);
  ASSERT_EQ(got.rows(), 20'000U);
  EXPECT_EQ(got[Field::kStep], got[Field::kLoss]);
  EXPECT_EQ(got.damaged_lines, 0);
}

TEST(Metrics, AMissingFileIsAnErrorOfTheUser) {
  try {
    read_metrics("/nowhere/metrics.jsonl");
    FAIL() << "it must throw";
  } catch (const core::UserError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kDataError);
    EXPECT_NE(std::string(error.what()).find("/nowhere/metrics.jsonl"), std::string::npos);
  }
  EXPECT_THROW(read_metrics("/dev/zero"), core::UserError);
}

}  // namespace
}  // namespace fm::report
