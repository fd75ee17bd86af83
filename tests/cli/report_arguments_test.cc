// The words of fmengine-report and of fmengine.
#include <vector>

#include "cli/flags/program_arguments.h"
#include "cli/subcommand.h"
#include "core/text.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

std::string parsed(const Words& words) {
  const ReportCommand command = parse_report_command(words);
  return core::join(command.runs, ",") + "|" + command.out + "|" + command.trace +
         (command.text ? "|text" : "");
}

std::string refusal(const Words& words) {
  return refusal_of([&] { parse_report_command(words); });
}

TEST(ReportArguments, TheFolderStandsAnywhereAndThePageIsInIt) {
  EXPECT_EQ(parsed({"o"}), "o|o/report.html|");
  EXPECT_EQ(parsed({"--trace", "t.json", "o/"}), "o/|o/report.html|t.json");
  EXPECT_EQ(parsed({"o", "--out=p.html", "--trace=t"}), "o|p.html|t");
  EXPECT_EQ(parsed({"--out", "p.html", "o"}), "o|p.html|");
}

TEST(ReportArguments, SeveralFoldersAreComparedInTheFirst) {
  EXPECT_EQ(parsed({"a", "b/c"}), "a,b/c|a/comparison.html|");
  EXPECT_EQ(parsed({"a", "b", "--text"}), "a,b|a/comparison.html||text");
}

TEST(ReportArguments, ABooleanDoesNotTakeTheFolder) {
  EXPECT_EQ(parsed({"--text", "o"}), "o|o/report.html||text");
  EXPECT_EQ(parsed({"--text", "false", "o"}), "o|o/report.html|");
  EXPECT_EQ(parsed({"o", "--text"}), "o|o/report.html||text");
}

TEST(ReportArguments, WrongWordsAreRefused) {
  EXPECT_TRUE(holds(refusal({}), "the folder of a run is required"));
  EXPECT_TRUE(holds(refusal({"a", "b", "--trace=t"}), "--trace is of one run"));
  EXPECT_TRUE(holds(refusal(Words(9, "o")), "those of up to 8 to compare"));
  EXPECT_TRUE(holds(refusal({"o", "--trac", "t"}), "did you mean --trace?"));
  EXPECT_TRUE(holds(refusal({"o", "--trac=t"}), "did you mean --trace?"));
  EXPECT_TRUE(holds(refusal({"o", "--out"}), "--out needs a value"));
}

TEST(ReportArguments, HelpNeedsNoFolder) {
  EXPECT_TRUE(parse_report_command(Words{"--help"}).help);
  EXPECT_TRUE(parse_report_command(Words{"--version"}).version);
  EXPECT_TRUE(holds(report_help_text(), "--trace"));
}

TEST(Dispatch, AWordNamesAProgram) {
  EXPECT_EQ(program_named("train"), "fmengine-train");
  EXPECT_EQ(program_named("generate"), "fmengine-generate");
  EXPECT_EQ(program_named("tokenize"), "fmengine-tokenize");
  EXPECT_EQ(program_named("report"), "fmengine-report");
}

TEST(Dispatch, AWrongWordIsRefusedWithTheNearest) {
  const auto said = [](const std::string& word) {
    return refusal_of([&] { program_named(word); });
  };
  EXPECT_TRUE(holds(said("reprot"), "did you mean report? (reprot)"));
  EXPECT_TRUE(holds(said("trian"), "did you mean train?"));
  EXPECT_TRUE(holds(said("gen"), "did you mean generate?"));
  EXPECT_TRUE(
      holds(said("bake"),
            "train, generate, export, checkpoint, tokenize, report, explain, blackbox, run, "
            "launch; see fmengine --help (bake)"));
  EXPECT_TRUE(holds(said(""), "a command is required"));
}

TEST(Dispatch, HelpListsThePrograms) {
  for (const char* word : {"train ", "generate ", "report "}) {
    EXPECT_TRUE(holds(dispatch_help_text(), word));
  }
}

// A script reads the first line.
TEST(Dispatch, ExplainPrintsTheClassOfACodeFirst) {
  const auto said = [](const std::string& code) {
    return explain_text(std::vector<std::string>{code});
  };
  EXPECT_TRUE(said("12").starts_with("permanent\n12: "));
  EXPECT_TRUE(said("75").starts_with("try-again\n75: "));
  EXPECT_TRUE(said("137").starts_with("try-again\n137: Signal 9 (SIGKILL) "));
  EXPECT_TRUE(holds(said("137"), "out-of-memory killer"));
  EXPECT_TRUE(holds(explain_text({}), "\n26    try-again "));
  for (const char* code : {"999", "24", "128", "-1", "x", "12 ", ""}) {
    EXPECT_TRUE(holds(refusal_of([&] { said(code); }), "exit code")) << code;
  }
  const std::vector<std::string> two = {"12", "13"};
  EXPECT_TRUE(holds(refusal_of([&] { explain_text(two); }), "(12 13)"));
}

}  // namespace
}  // namespace fm::cli
