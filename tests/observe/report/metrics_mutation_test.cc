// Thousands of damaged files: the quick way of reading a row gives what the general JSON library
// gives, and every file becomes a page.
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <random>

#include "observe/report/metrics.h"
#include "observe/report/page.h"
#include "tests/mutation_rounds.h"

namespace fm::report {
namespace {

const std::string kSeeds[] = {
    R"({"step": 3, "samples": 12, "epoch": 0.5, "loss": 2.25, "lr": 1e-3, "grad_norm": null, )"
    R"("tokens": 256, "phases": {"forward": 59.5, "data": 0.25}, "skipped": true, "eval_loss": 2})",
    R"({"step": 4, "loss": -1.5E+3, "phases": {}, "word": "a\u00e9b", "tokens_per_second": 0.1})",
    R"({"step": 5, "loss_scale": 65536, "list": [1, {"step": 2}], "time": 1700000000.5, )"
    R"("mem_peak_bytes": 78176256, "step_time": 0.25, "gflops": 3, "perplexity": 7.5})",
    R"({"start": {"time": 1700000000, "version": "0.1.0", "from_step": 4, "ranks": 2, )"
    R"("facts": {"lr": 0.1, "name": "<b>"}}})",
};

std::string damaged(std::string text, std::mt19937& random) {
  const std::string letters = "{}[]\":,\\-+.0123456789eEtrufalsn<& \t\r\xC3\xFF";
  for (auto change = random() % 4; change > 0 && !text.empty(); --change) {
    const std::size_t at = random() % text.size();
    const char letter = letters[random() % letters.size()];
    switch (random() % 4) {
      case 0: text[at] = letter; break;
      case 1: text.insert(at, 1, letter); break;
      case 2: text.erase(at, 1 + random() % 3); break;
      default:  // the third: a piece is doubled
        text.insert(at, text.substr(random() % text.size(), random() % 30));
        break;
    }
  }
  return text;
}

// NaN is equal to NaN here.
std::string verdict(bool good, const Row& row, const std::vector<std::string>& phases) {
  if (!good) return "damaged";
  std::string out;
  for (const double value : row.values) out += std::to_string(value) + " ";
  std::map<std::string, float> of_phase;
  for (std::size_t at = 0; at < phases.size(); ++at) {
    if (row.phase_ms[at] != 0) of_phase[phases[at]] = row.phase_ms[at];
  }
  for (const auto& [name, ms] : of_phase) out += name + "=" + std::to_string(ms) + " ";
  return out;
}

TEST(MetricsMutation, BothWaysOfReadingAgree) {
  std::mt19937 random(20251125);
  int good = 0;
  const int rounds = testing::mutation_rounds(30'000);
  for (int round = 0; round < rounds; ++round) {
    const std::string line = damaged(kSeeds[random() % 3], random);
    RowReader quick;
    RowReader general;
    Row by_quick{};
    Row by_general{};
    const bool taken = quick.read(line, by_quick);
    const std::string wanted =
        verdict(general.read_any(line, by_general), by_general, general.phases());
    ASSERT_EQ(verdict(taken, by_quick, quick.phases()), wanted) << line;
    good += taken ? 1 : 0;
  }
  EXPECT_GT(good, rounds / 6);  // the test would prove little if nearly all were refused
  EXPECT_LT(good, rounds / 6 * 5);
}

bool has_word(const std::string& text, const std::string& word) {
  const auto is_letter = [](char one) {
    return std::isalpha(static_cast<unsigned char>(one)) != 0;
  };
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    if (!is_letter(text[at - 1]) && !is_letter(text[at + word.size()])) return true;
  }
  return false;
}

// Runs that diverge write such rows; also from negative to positive, and next to nothing.
TEST(MetricsMutation, NumbersAtTheEndsOfTheirRangeLeaveNoNanInAPage) {
  const std::string numbers[] = {"1",         "1e308",  "1.7976931348623157e308",
                                 "-1.79e308", "5e-324", "1e-30",
                                 "-1e308",    "1e300",  "0",
                                 "1e999",     "null",   "3.4e38",
                                 "1e18",      "-1",     "2.5"};
  const std::string fields[] = {"samples",
                                "epoch",
                                "loss",
                                "lr",
                                "grad_norm",
                                "tokens",
                                "gflops",
                                "loss_scale",
                                "time",
                                "mem_peak_bytes",
                                "skipped",
                                "step_time",
                                "tokens_per_second",
                                "eval_loss",
                                "perplexity"};
  std::mt19937 random(308);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    const auto kinds = 1 + random() % std::size(numbers);
    const auto first = random();
    for (auto step = 1U; step <= 1 + random() % 30; ++step) {
      text += "{\"step\":" + std::to_string(step);
      for (const std::string& field : fields) {
        const std::string& number = numbers[(first + random() % kinds) % std::size(numbers)];
        text += ",\"" + field + "\":" + number;
      }
      text += ",\"phases\":{\"a\":" + numbers[random() % std::size(numbers)] +
              ",\"b\":" + numbers[random() % std::size(numbers)] + "}}\n";
    }
    const std::string made =
        page(parse_metrics(text), nullptr, {.run = "r", .program = "test", .now = 0});
    const std::string body = made.substr(made.find("</head>"));
    ASSERT_FALSE(has_word(body, "nan") || has_word(body, "inf")) << text << body;
  }
}

TEST(MetricsMutation, EveryDamagedFileBecomesAPage) {
  std::mt19937 random(7);
  std::int64_t rows = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    for (auto lines = random() % 8; lines > 0; --lines) {
      text += damaged(kSeeds[random() % 4], random) + "\n";
    }
    const Metrics metrics = parse_metrics(text);
    rows += static_cast<std::int64_t>(metrics.rows());
    const std::string made = page(metrics, nullptr, {.run = text, .program = "test", .now = 0});
    ASSERT_TRUE(made.ends_with("</html>\n"));
    const std::string body = made.substr(made.find("</head>"));
    ASSERT_FALSE(has_word(body, "nan") || has_word(body, "inf")) << text << body;
  }
  EXPECT_GT(rows, 2'000);
}

}  // namespace
}  // namespace fm::report
