// The words of fmengine-tokenize.
#include <vector>

#include "cli/flags/program_arguments.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

Words with(const Words& more) {
  Words words = {"--tokenizer", "model", "--data_path", "a.jsonl", "b.jsonl", "--out", "ids"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string refusal(const Words& words) {
  return refusal_of([&] { parse_tokenize_command(words); });
}

TEST(TokenizeArguments, FlatFilesOfTheFieldTextAreTheDefault) {
  const TokenizeCommand command = parse_tokenize_command(with({}));
  EXPECT_EQ(command.tokenizer, "model");
  EXPECT_EQ(command.options.paths, (Words{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(command.options.out, "ids");
  EXPECT_EQ(command.options.layout, prepare::TokenLayout::kFlat);
  EXPECT_EQ(command.options.skip_bad_lines, 0);
  EXPECT_EQ(command.text_field, "text");
  EXPECT_FALSE(command.text_first);
  EXPECT_FALSE(command.train_on_inputs);
  EXPECT_FALSE(command.threads.has_value());
}

TEST(TokenizeArguments, EveryFlagCounts) {
  const TokenizeCommand command = parse_tokenize_command(with(
      {"--data-format=megatron", "--text_field", "body", "--chat_template", "c.jinja",
       "--add_tokens", "<a>,<b>", "--eos_token", "<b>", "--train_on_inputs", "--skip_bad_lines",
       "3", "--threads", "5", "--columns=q=prompt", "--sample_by=document"}));
  EXPECT_EQ(command.options.rows.columns.words(), "q=prompt");
  EXPECT_EQ(command.options.rows.sample_by, data::SampleBy::kDocument);
  EXPECT_EQ(command.options.layout, prepare::TokenLayout::kMegatron);
  EXPECT_EQ(command.text_field, "body");
  EXPECT_TRUE(command.text_first);
  EXPECT_EQ(command.chat_template, "c.jinja");
  EXPECT_EQ(command.extra.tokens, (Words{"<a>", "<b>"}));
  EXPECT_EQ(command.extra.eos, "<b>");
  EXPECT_TRUE(command.train_on_inputs);
  EXPECT_EQ(command.options.skip_bad_lines, 3);
  EXPECT_EQ(command.threads, 5);
}

TEST(TokenizeArguments, WrongWordsAreRefused) {
  EXPECT_TRUE(holds(refusal({"--tokenizer", "m", "--out", "o"}), "--data_path is missing"));
  EXPECT_TRUE(holds(refusal({"--data_path", "a", "--out", "o"}), "--tokenizer is missing"));
  EXPECT_TRUE(holds(refusal(with({"--data_format", "mds"})), "--data_format must be one of"));
  EXPECT_TRUE(holds(refusal(with({"--threads", "0"})), "--threads"));
  EXPECT_TRUE(holds(refusal(with({"--fields", "a"})), "--fields"));
}

TEST(TokenizeArguments, HelpNeedsNothingElse) {
  EXPECT_TRUE(parse_tokenize_command(Words{"--help"}).help);
  EXPECT_TRUE(parse_tokenize_command(Words{"--version"}).version);
  EXPECT_TRUE(holds(tokenize_help_text(), "--data_format"));
}

}  // namespace
}  // namespace fm::cli
