// fmengine and fmengine-report as a user has them, over a run with a resume, an evaluation and a
// trace; and the page in a browser.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/text.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

using core::concat;
using nlohmann::json;

constexpr int kSteps = 6;

class Reported : public SystemCase {
 protected:
  Ended ask(std::vector<std::string> words) {
    return run({.starter = Starter::kAlone, .words = std::move(words), .variables = {}});
  }
  Ended fmengine(std::vector<std::string> words) {
    words.insert(words.begin(), FM_PROGRAMS "/fmengine");
    return ask(std::move(words));
  }

  // Evaluated at every second step; the last three steps are a second start, which is traced.
  std::string trained() {
    SmallRun small{.config = small_config(folder(), 2),
                   .model = small_model(folder()),
                   .data = small_tokens(folder(), 24),
                   .output = folder() / "out",
                   .steps = 3,
                   .save_steps = 3,
                   .more = {"--eval_steps", "2", "--eval_data_path", small_tokens(folder(), 24)}};
    train(small);
    small.steps = kSteps;
    small.more.insert(small.more.end(), {"--trace", trace(), "--trace_steps", "2-3"});
    train(small);
    return small.output;
  }
  std::string trace() const { return folder() / "trace.json"; }

 private:
  void train(const SmallRun& small) {
    std::vector<std::string> words = words_of(small);
    words[0] = FM_PROGRAMS "/fmengine";
    words.insert(words.begin() + 1, "train");
    run_well({.starter = Starter::kMpirun, .ranks = 2, .words = words, .variables = {}});
  }
};

// What the page must say, from a second reading of the same file.
struct Wanted {
  std::string last_loss;
  std::string best_evaluation;
  double tokens = 0;
  int evaluations = 0;
};

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4f", value);
  return text;
}

Wanted wanted_of(const std::string& output) {
  Wanted wanted;
  std::ifstream file(output + "/metrics.jsonl");
  std::string line;
  double best = HUGE_VAL;
  while (std::getline(file, line)) {
    const json row = json::parse(line);
    if (!row.contains("step")) continue;
    wanted.last_loss = four_digits(row.at("loss"));
    wanted.tokens += row.at("tokens").get<double>();
    if (!row.contains("eval_loss")) continue;
    best = std::min(best, row.at("eval_loss").get<double>());
    ++wanted.evaluations;
  }
  wanted.best_evaluation = four_digits(best);
  return wanted;
}

TEST_F(Reported, OneWordRunsTheProgramBeside) {
  EXPECT_EQ(fmengine({"--help"}).codes.at(0), 0);
  const Ended version = fmengine({"train", "--version"});
  EXPECT_TRUE(version.out.starts_with("fmengine ")) << version.out << version.err;
  const Ended wrong = fmengine({"repotr"});
  EXPECT_EQ(wrong.codes.at(0), 10);
  EXPECT_EQ(occurrences(wrong.err, "did you mean report?"), 1) << wrong.err;
  EXPECT_EQ(fmengine({"generate", "--ckpt", "nowhere", "--prompt", "x"}).codes.at(0), 11);
}

TEST_F(Reported, AMissingRunIsOneLineAndCodeEleven) {
  const Ended ended = fmengine({"report", (folder() / "none").string()});
  EXPECT_EQ(ended.codes.at(0), 11);
  EXPECT_EQ(occurrences(ended.err, "\n"), 1) << ended.err;
  EXPECT_EQ(occurrences(ended.err, "none/metrics.jsonl"), 1) << ended.err;
}

TEST_F(Reported, ThePageAndTheTextHaveTheNumbersOfTheRun) {
  const std::string output = trained();
  const Wanted wanted = wanted_of(output);
  const Ended text = fmengine({"report", output, "--text"});
  EXPECT_EQ(text.codes.at(0), 0) << text.err;
  EXPECT_EQ(occurrences(text.out, "steps            6 "), 1) << text.out;
  EXPECT_EQ(occurrences(text.out, "last loss        " + wanted.last_loss), 1) << text.out;
  EXPECT_FALSE(std::filesystem::exists(output + "/report.html"));
  EXPECT_EQ(fmengine({"report", output, "--trace", trace()}).codes.at(0), 0);
  const std::string page = content_of(output + "/report.html");
  for (const std::string& part :
       {std::string("Timeline of step 6"), std::string(">rank 1<"), wanted.best_evaluation}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
}

// "" when it is not installed.
std::string path_of_chromium() {
  const char* const variable = std::getenv("PATH");
  for (const std::string& each : core::split(variable == nullptr ? "" : variable, ':')) {
    const std::string path = each + "/chromium";
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// The document as Chromium understands it.
class InABrowser : public Reported {
 protected:
  void SetUp() override {
    if (path_of_chromium().empty()) {
      GTEST_SKIP() << "chromium is required to look at the page; install Debian's package chromium";
    }
  }
  Ended chromium(const std::string& page, std::vector<std::string> more) {
    std::vector<std::string> words = {path_of_chromium(),   "--headless",
                                      "--no-sandbox",       "--disable-gpu",
                                      "--hide-scrollbars",  "--window-size=1300,2400",
                                      "--disable-breakpad", "--user-data-dir=" + profile()};
    words.insert(words.end(), more.begin(), more.end());
    words.push_back("file://" + page);
    return ask(std::move(words));
  }
  std::string profile() const { return folder() / "profile"; }
};

// The text of the value behind the tile's id.
std::string tile(const std::string& dom, const std::string& id) {
  const std::string open = "<dd class=\"value\">";
  const std::size_t begin = dom.find(open, dom.find("<div id=\"" + id + "\">")) + open.size();
  return dom.substr(begin, dom.find("</dd>", begin) - begin);
}

TEST_F(InABrowser, ThePageHasTheNumbersOfTheRun) {
  const std::string output = trained();
  ASSERT_EQ(fmengine({"report", output, "--trace", trace()}).codes.at(0), 0);
  const Ended shown = chromium(output + "/report.html", {"--dump-dom"});
  ASSERT_EQ(shown.codes.at(0), 0) << shown.err;
  const Wanted wanted = wanted_of(output);
  EXPECT_EQ(tile(shown.out, "steps"), std::to_string(kSteps));
  EXPECT_EQ(tile(shown.out, "last-loss"), wanted.last_loss);
  EXPECT_EQ(tile(shown.out, "best-evaluation"), wanted.best_evaluation);
  EXPECT_EQ(tile(shown.out, "tokens"), std::to_string(static_cast<int>(wanted.tokens)));
  EXPECT_EQ(occurrences(shown.out, "<circle "), wanted.evaluations);
  // The parser closes what was left open and drops what it does not know: nothing of either.
  EXPECT_EQ(occurrences(shown.out, "<svg "),
            occurrences(content_of(output + "/report.html"), "<svg "));
}

TEST_F(InABrowser, LightAndDarkAreDrawnAndDiffer) {
  const std::string output = trained();
  ASSERT_EQ(fmengine({"report", output}).codes.at(0), 0);
  std::string pictures[2];
  for (int dark = 0; dark < 2; ++dark) {
    const std::string picture = folder() / concat("page", dark, ".png");
    const Ended shown = chromium(
        output + "/report.html",
        {"--screenshot=" + picture, concat("--blink-settings=preferredColorScheme=", 1 - dark)});
    ASSERT_EQ(shown.codes.at(0), 0) << shown.err;
    pictures[dark] = content_of(picture);
    EXPECT_TRUE(pictures[dark].starts_with("\x89PNG"));
    EXPECT_GT(pictures[dark].size(), 50'000U) << "an empty page is smaller";
  }
  EXPECT_NE(pictures[0], pictures[1]);
}

}  // namespace
}  // namespace fm::system
