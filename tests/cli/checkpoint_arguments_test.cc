// The words of fmengine-checkpoint.
#include "cli/flags/checkpoint_arguments.h"

#include "core/text.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

CheckpointCommand parsed(const Words& words) { return parse_checkpoint_command(words); }
std::string refusal(const Words& words) {
  return refusal_of([&] { parse_checkpoint_command(words); });
}

TEST(CheckpointArguments, AVerbHasItsPathsAndFlags) {
  EXPECT_EQ(parsed({"ls", "out"}).verb, CheckpointVerb::kList);
  EXPECT_EQ(core::join(parsed({"diff", "a", "--atol", "1e-6", "b"}).paths, " "), "a b");
  EXPECT_EQ(parsed({"diff", "a", "b", "--atol=1e-6"}).atol, 1e-6);
  const CheckpointCommand verify = parsed({"verify", "--all", "out", "--threads", "3"});
  EXPECT_TRUE(verify.all);
  EXPECT_EQ(verify.threads, 3);
  const CheckpointCommand prune = parsed({"prune", "out", "--keep-last", "2", "--keep_every=10"});
  EXPECT_EQ(prune.rules.keep_last, 2);
  EXPECT_EQ(prune.rules.keep_every, 10);
  EXPECT_FALSE(prune.removes) << "deleting needs a word of its own";
  EXPECT_TRUE(parsed({"prune", "out", "--keep_last", "2", "--yes"}).removes);
}

TEST(CheckpointArguments, WrongWordsAreRefused) {
  EXPECT_TRUE(holds(refusal({}), "takes a verb: ls, verify, prune, diff"));
  EXPECT_TRUE(holds(refusal({"verfiy", "o"}), "did you mean verify? (verfiy)"));
  EXPECT_TRUE(holds(refusal({"ls"}), "takes one path"));
  EXPECT_TRUE(holds(refusal({"diff", "a"}), "takes two paths"));
  EXPECT_TRUE(holds(refusal({"prune", "o"}), "give --keep_last N"));
  EXPECT_TRUE(holds(refusal({"prune", "o", "--keep_last", "0"}), "at least 1"));
  EXPECT_TRUE(holds(refusal({"prune", "o", "--keep_last=1", "--yes", "--dry_run"}), "leave one"));
  EXPECT_TRUE(holds(refusal({"diff", "a", "b", "--atol=-1"}), "--atol must be a number"));
  EXPECT_TRUE(holds(refusal({"ls", "o", "--al"}), "--al"));
}

TEST(CheckpointArguments, HelpIsOfTheVerbOrOfAll) {
  const auto help = [](const Words& words) { return checkpoint_help_text(parsed(words)); };
  EXPECT_TRUE(parsed({"--help"}).help);
  for (const char* verb : {"\n  ls ", "\n  verify ", "\n  prune ", "\n  diff "}) {
    EXPECT_TRUE(holds(help({"--help"}), verb)) << help({"--help"});
  }
  EXPECT_TRUE(holds(help({"prune", "--help"}), "--keep_every"));
  EXPECT_TRUE(holds(help({"diff", "-h"}), "--atol"));
  EXPECT_TRUE(parsed({"ls", "--version"}).version);
}

}  // namespace
}  // namespace fm::cli
