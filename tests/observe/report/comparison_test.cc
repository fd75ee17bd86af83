#include "observe/report/comparison.h"

#include <gtest/gtest.h>

#include "core/check.h"

namespace fm::report {
namespace {

// Loss falls by `fall` a step from 5; the last step is evaluated.
Metrics run_of(int steps, double fall, const std::string& rate) {
  std::string text = core::concat(
      R"({"start": {"time": 1700000000, "version": "0.1.0", "from_step": 0, "ranks": 2, )",
      R"("facts": {"seed": 7, "data": "hash", "lr": )", rate,
      R"(}, "lines": [["model", "Llama"], ["data", "rows )", steps, R"("], )",
      R"(["optimizer", "AdamW, lr )", rate, R"("]]}})", "\n");
  for (int step = 1; step <= steps; ++step) {
    text += core::concat("{\"step\": ", step, ", \"loss\": ", 5 - fall * step, ", \"lr\": ", rate,
                         ", \"tokens_per_second\": 1000", step == steps ? ", \"eval_loss\": 2" : "",
                         "}\n");
  }
  return parse_metrics(text);
}

std::vector<NamedRun> two_runs() {
  return {{"runs/<a>", run_of(20, 0.125, "0.1")}, {"runs/b", run_of(40, 0.0625, "0.2")}};
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Comparison, LaysTheLossesOfAllRunsIntoOneChart) {
  const std::string got = comparison_page(two_runs(), {.run = "both", .program = "p", .now = 0});
  const std::size_t loss = got.find("id=\"loss\"");
  const std::size_t next = got.find("</figure>", loss);
  ASSERT_NE(loss, std::string::npos);
  const std::string chart = got.substr(loss, next - loss);
  expect_parts(chart, {"line s0", "line s1", "runs/&lt;a&gt;", "runs/b"});
  for (const char* part : {"<script", "<link", "<img", "@import", "url(", "http:", "<a>"}) {
    EXPECT_EQ(got.find(part), got.npos) << part;
  }
}

// 5 - 20/8 = 5 - 40/16 = 2.5
TEST(Comparison, HasResultsAndOnlySettingsThatDiffer) {
  const std::string got = comparison_page(two_runs(), {.run = "both", .program = "p", .now = 0});
  expect_parts(got, {"<td class=\"text\">Steps</td><td class=\"text\">20 (none skipped)</td>"
                     "<td class=\"text\">40 (none skipped)</td>",
                     "<td class=\"text\">lr</td><td class=\"text\">0.1</td>"
                     "<td class=\"text\">0.2</td>",
                     "<td class=\"text\">data</td><td class=\"text\">rows 20</td>"
                     "<td class=\"text\">rows 40</td>"});
  EXPECT_EQ(got.find("seed"), std::string::npos);
  EXPECT_EQ(got.find("Llama"), std::string::npos);
}

TEST(Comparison, AsTextHasTheValuesBelowEachOther) {
  const std::string got = comparison_text(two_runs());
  expect_parts(got, {"  lowest step\n    runs/<a>  2.5000 (at step 20)\n"
                     "    runs/b    2.5000 (at step 40)\n",
                     "settings that differ\n", "  lr\n    runs/<a>  0.1\n    runs/b    0.2\n"});
}

TEST(Comparison, OfRunsWithoutRowsSaysSo) {
  const std::vector<NamedRun> runs = {{"a", parse_metrics("")}, {"b", run_of(20, 0.125, "0.1")}};
  expect_parts(comparison_text(runs), {"note: a: metrics.jsonl has no row of a step."});
  expect_parts(comparison_page(runs, {.run = "both", .program = "p", .now = 0}),
               {"<p class=\"note\">a: metrics.jsonl has no row of a step.</p>"});
}

}  // namespace
}  // namespace fm::report
