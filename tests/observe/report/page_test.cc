#include "observe/report/page.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/check.h"
#include "observe/report/summary.h"

namespace fm::report {
namespace {

using core::concat;

// Loss falls from 9.9 to 5 by 0.1 a step; steps 10, 20, ... are evaluated, step 7 is skipped.
std::string run_of_fifty() {
  std::string text =
      R"({"start": {"time": 1700000000, "version": "0.1.0", "from_step": 0, "ranks": 2, )"
      R"("facts": {"<model>": "tiny & small", "lr": 0.1}}})"
      "\n";
  for (int step = 1; step <= 50; ++step) {
    if (step == 31) {
      text += R"({"start": {"time": 1700000100, "version": "0.1.1", "from_step": 30, "ranks": 4, )"
              R"("facts": {"<model>": "tiny & small", "lr": 0.2}, )"
              R"("lines": [["model", "Llama <5 M>"], ["batch", "4 samples"]]}})"
              "\n";
    }
    text +=
        concat("{\"step\": ", step, ", \"samples\": ", 4 * step, ", \"epoch\": ", step / 100.0,
               ", \"loss\": ", 10 - 0.1 * step,
               ", \"lr\": 0.001, \"grad_norm\": ", step == 7 ? "null" : "1.5",
               ", \"tokens\": 512, \"tokens_per_second\": ", 1000 + step,
               ", \"gflops\": 20, \"step_time\": 0.5, \"phases\": {\"forward\": 30, ",
               "\"idle <b>\": 10}, \"skipped\": ", step == 7 ? "true" : "false",
               ", \"mem_peak_bytes\": ", 100'000'000 + step, ", \"time\": ", 1'700'000'000 + step);
    if (step % 10 == 0) text += concat(", \"eval_loss\": ", step == 40 ? 4.0 : 5.0);
    text += "}\n";
  }
  return text;
}

const PageWords kWords = {.run = "runs/<first>", .program = "fmengine 0.1.0", .now = 1'700'000'200};

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Headlines, AreTheNumbersOfTheRun) {
  std::string all;
  for (const Headline& line : headlines(parse_metrics(run_of_fifty()))) {
    all += line.id + "|" + line.value + "|" + line.detail + "\n";
  }
  EXPECT_EQ(all,
            "steps|50|1 skipped\n"
            "tokens|25,600|200 samples, epoch 0.5\n"
            "time|25.0 s|50.0 s since the first start\n"
            // 5.0 to 5.9
            "last-loss|5.0000|at step 50; mean of the last 10: 5.4500\n"
            "lowest-loss|5.0000|at step 50\n"
            "best-evaluation|4.0000|at step 40, perplexity 54.6\n"  // e^4 = 54.598
            "speed|1,026|median; 20 GFLOP/s\n"                      // between 1025 and 1026
            "memory|100.0 MB|resident, of rank 0\n");
}

TEST(Headlines, ALossThatIsNotFiniteAnyMoreIsSaid) {
  const auto all =
      headlines(parse_metrics("{\"step\": 1, \"loss\": 4}\n{\"step\": 2, \"loss\": null}\n"));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].detail, "at step 1, then not finite");
}

// Steps without labels: no loss, and a gradient of 0.
TEST(Headlines, AStepThatTrainedNothingHasNoLoss) {
  const auto step = [](int number, const char* loss, const char* more = "") {
    return "{\"step\": " + std::to_string(number) + ", \"loss\": " + loss + ", \"grad_norm\": 0.5" +
           more + "}\n";
  };
  const std::string skipped = step(3, "null", ", \"skipped\": true");
  const std::string rows = step(1, "4") + step(2, "null") + skipped + step(4, "3");
  const auto all = headlines(parse_metrics(rows + step(5, "null")));
  EXPECT_EQ(all[0].detail, "1 skipped, 2 without a loss");
  EXPECT_EQ(all[1].value + " " + all[1].detail, "3.0000 at step 4, then none");
  EXPECT_EQ(all[2].value + " " + all[2].detail, "3.0000 at step 4");
  EXPECT_EQ(headlines(parse_metrics(step(1, "null")))[0].detail, "none skipped, 1 without a loss");
}

TEST(Page, HasEveryChartAndTable) {
  const std::string got = page(parse_metrics(run_of_fifty()), nullptr, kWords);
  expect_parts(
      got, {"id=\"loss\"", "id=\"learning-rate\"", "id=\"gradient-norm\"", "id=\"throughput\"",
            "id=\"memory\"", "id=\"phases\"", "id=\"evaluations\"", "id=\"starts\"", "skipped step",
            "forward 75.0 %", "2023-11-14 22:15:00 UTC",
            "<td>40 (best)</td><td>20,480</td><td>4.0000</td><td>54.60</td><td>-1.0000</td>",
            "2 values, 1 changed", "runs/&lt;first&gt;", "&lt;model&gt;", "tiny &amp; small",
            "idle &lt;b&gt; 25.0 %"});
  EXPECT_EQ(got.find("id=\"loss-scale\""), std::string::npos);
  EXPECT_EQ(got.find("<first>"), std::string::npos);
  EXPECT_EQ(got.find("<model>"), std::string::npos);
}

TEST(Page, BeginsWithWhatTheRunIs) {
  const std::string got = page(parse_metrics(run_of_fifty()), nullptr, kWords);
  expect_parts(got, {"<tr><td>model</td><td class=\"text\">Llama &lt;5 M&gt;</td></tr>",
                     "<tr><td>batch</td><td class=\"text\">4 samples</td></tr>"});
  EXPECT_LT(got.find("<td>model</td>"), got.find("id=\"steps\""));
  const std::string text = summary_text(parse_metrics(run_of_fifty()), "run");
  expect_parts(text, {"model            Llama <5 M>\n", "lowest step      5.0000 (at step 50)\n"});
}

TEST(Page, TakesNothingFromElsewhere) {
  const std::string got = page(parse_metrics(run_of_fifty()), nullptr, kWords);
  for (const char* part : {"<script", "<link", "<img", "@import", "url(", "http:", "https:"}) {
    EXPECT_EQ(got.find(part), got.npos) << part;
  }
}

// By hand: the plot is 1,144 wide with 58 and 14 beside it, so step 50 of 0 to 50 stands at 1130.
TEST(Page, PointsStandWhereTheirNumbersAre) {
  const std::string got = page(parse_metrics(run_of_fifty()), nullptr, kWords);
  const std::size_t hint = got.find("<title>step 50: evaluation 5<");
  ASSERT_NE(hint, got.npos);
  const std::string circle = got.substr(got.rfind("<circle", hint), 60);
  EXPECT_NE(circle.find("cx=\"1130\""), circle.npos) << circle;
}

TEST(Page, SaysWhatIsDamaged) {
  const std::string got = page(
      parse_metrics("x\n{\"step\": 1}\n{\"step\": 1}\n{\"step\": 2, \"loss\""), nullptr, kWords);
  expect_parts(got, {"2 damaged lines of metrics.jsonl left out; the first one is line 1.",
                     "1 row of steps that were done again left out"});
  expect_parts(page(Metrics{}, nullptr, kWords), {"metrics.jsonl has no row of a step."});
}

TEST(Page, OneStepIsEnough) {
  const std::string got =
      page(parse_metrics("{\"step\": 1, \"loss\": 2.5, \"eval_loss\": 2}"), nullptr, kWords);
  expect_parts(got, {"id=\"loss\"", "2.5000", ">1</text>"});
}

TEST(Page, AMillionStepsStayBelowAMegabyte) {
  Metrics metrics;
  std::uint32_t noise = 1;
  for (Column& column : metrics.columns) column.reserve(1'000'000);
  for (int step = 1; step <= 1'000'000; ++step) {
    noise = noise * 1'664'525 + 1'013'904'223;
    for (Column& column : metrics.columns) column.push_back(1 + noise % 1000);
    metrics.columns[0].back() = step;
  }
  metrics.phases = {"forward", "backward"};
  metrics.phase_ms = {std::vector<float>(1'000'000, 1), std::vector<float>(1'000'000, 2)};
  EXPECT_LT(page(metrics, nullptr, kWords).size(), 1'000'000U);
}

TEST(Evaluations, ManyAreThinnedButTheBestAndTheLastStay) {
  std::string text;
  for (int step = 1; step <= 1'000; ++step) {
    text += concat("{\"step\": ", step, ", \"eval_loss\": ", step == 334 ? 1 : 2, "}\n");
  }
  const std::vector<Evaluation> got = evaluations(parse_metrics(text), 24);
  EXPECT_LE(got.size(), 25U);
  EXPECT_EQ(got.back().step, 1'000);
  EXPECT_EQ(std::count_if(got.begin(), got.end(), [](const auto& at) { return at.best; }), 1);
}

TEST(SummaryText, HasTheSameNumbers) {
  expect_parts(summary_text(parse_metrics("x\n" + run_of_fifty()), "runs/first"),
               {"run              runs/first\n", "steps            50 (1 skipped)\n",
                "best evaluation  4.0000 (at step 40, perplexity 54.6)\n",
                "start            2023-11-14 22:15:00 UTC (version 0.1.1, from step 30, 4 ranks)\n",
                "note             1 damaged line of metrics.jsonl left out"});
}

}  // namespace
}  // namespace fm::report
