// Text with a tokenizer of its own, as users meet it: prepared once, whole or not there, and one
// clear line for what is wrong.
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"
#include "tests/text/prepare/small_tokenizer.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChat =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";

std::string text_line(int number) {
  return R"({"text": ")" + std::string(1, static_cast<char>('a' + number % 26)) +
         std::string(static_cast<std::size_t>(20 + number % 40), 'b') + "\"}";
}

class Text : public SystemCase {
 protected:
  Text() : tokenizer_(folder() / "model") {
    write_file(tokenizer_ / "tokenizer.json", prepare::small_tokenizer());
    write_file(tokenizer_ / "tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": "</s>"})");
    write_file(tokenizer_ / "chat_template.jinja", prepare::kChatMl);
  }

  static std::string lines(int count) {
    std::string text;
    for (int at = 0; at < count; ++at) text += text_line(at) + "\n";
    return text;
  }
  std::string data(const std::string& text) const {
    return write_file(folder() / "text.jsonl", text);
  }
  SmallRun run_of(const std::string& text) const {
    return {.config = small_config(folder(), 1),
            .model = small_model(folder()),
            .data = data(text),
            .output = folder() / "output",
            .steps = 2,
            .more = {"--tokenizer", tokenizer_.string()}};
  }
  static Launch launch(const SmallRun& run, int ranks = 1) {
    return {.starter = ranks == 1 ? Starter::kAlone : Starter::kMpirun,
            .ranks = ranks,
            .words = words_of(run),
            .variables = {}};
  }
  // One line of ours on stderr, with `part` in it.
  void expect_refusal(const Launch& launch, int code, const std::string& part) {
    const Ended ended = run(launch);
    for (const int got : ended.codes) EXPECT_EQ(got, code) << ended.out << ended.err;
    // Another rank's end may have been told before this one's.
    EXPECT_EQ(
        occurrences(ended.err, "fmengine-train: ") + occurrences(ended.err, "fmengine: rank "), 1)
        << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << part << "\n" << ended.err;
    for (const char* trace : {"terminate called", "what():", "Segmentation", ".cc:"}) {
      EXPECT_EQ(occurrences(ended.err, trace), 0) << ended.err;
    }
  }
  fs::path cache() const { return folder() / "output" / "tokens"; }
  int drafts() const {
    int count = 0;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(cache(), none)) {
      if (entry.path().filename().string().starts_with(".t")) ++count;
    }
    return count;
  }

  fs::path tokenizer_;
};

TEST_F(Text, ABadLineIsNamedWithFileAndLineByOneAndByTwoRanks) {
  const std::pair<std::string, const char*> kLines[] = {
      {"{\"text\": \"ab", "text.jsonl:4: JSON is required"},
      {"[1, 2]", "text.jsonl:4: each line must be one JSON object"},
      {R"({"body": "ab"})", "text.jsonl:4: a field \"text\" (--text_field)"},
      {R"({"text": 7})", "text.jsonl:4: \"text\" must be a string"},
      {R"({"messages": [{"role": "robot", "content": "a"}]})", "text.jsonl:4: messages[0]: a role"},
  };
  for (const auto& [line, part] : kLines) {
    const SmallRun run = run_of(lines(3) + line + "\n" + lines(100));
    expect_refusal(launch(run), 11, part);
  }
  const SmallRun run = run_of(lines(3) + "no\n" + lines(100));
  expect_refusal(launch(run, 2), 11, "text.jsonl:4: JSON is required");
  EXPECT_EQ(drafts(), 0);
}

TEST_F(Text, SkippedLinesAreCounted) {
  SmallRun run = run_of("no\n" + lines(100) + "neither\n");
  run.more.insert(run.more.end(), {"--skip_bad_lines", "2"});
  const Ended ended = run_well(launch(run));
  EXPECT_NE(unwrapped(ended.out).find("2 bad lines skipped (the first: "), std::string::npos)
      << ended.out;
  EXPECT_NE(ended.out.find("text.jsonl:1: "), std::string::npos) << ended.out;
  run.more.back() = "1";
  run.output = folder() / "other";
  expect_refusal(launch(run), 11, "--skip_bad_lines allows 1 bad line, 2 were found");
}

TEST_F(Text, WhatATokenizerOrATemplateLacksIsSaid) {
  SmallRun run = run_of(std::string(kChat) + "\n");
  write_file(tokenizer_ / "chat_template.jinja", "{{ raise_exception('no system turns') }}");
  expect_refusal(launch(run), 11, "no system turns");
  fs::remove(tokenizer_ / "chat_template.jinja");
  expect_refusal(launch(run), 11, "text.jsonl:1: a conversation needs a chat template");
  run.data = data("\n\n");
  expect_refusal(launch(run), 11, "text.jsonl:1: at least one line");
  run.data = data(lines(100));
  run.more = {"--tokenizer", write_file(folder() / "none" / "config.json", "{}")};
  expect_refusal(launch(run), 11, "config.json");
  run.more = {"--tokenizer", (folder() / "none").string()};
  expect_refusal(launch(run), 11, "tokenizer.json");
}

TEST_F(Text, IdsBeyondTheEmbeddingAreRefused) {
  SmallRun run = run_of(lines(100));
  std::string tokenizer = prepare::small_tokenizer();
  const std::string token = R"("ab": 28)";
  tokenizer.replace(tokenizer.find(token), token.size(), R"("ab": 28, "zz": 264)");
  write_file(tokenizer_ / "tokenizer.json", tokenizer);
  expect_refusal(launch(run), 10, "265 ids, vocab_size 264");
}

// Losses tell that the ids are the same.
TEST_F(Text, LineEndsAMarkAndPackingChangeNothing) {
  const SmallRun plain = run_of(lines(200));
  run_well(launch(plain));
  std::string other = "\xEF\xBB\xBF";
  for (int at = 0; at < 200; ++at) other += text_line(at) + "\r\n";
  SmallRun marked = run_of(other);
  marked.output = folder() / "marked";
  run_well(launch(marked));
  EXPECT_EQ(steps_in(marked.output), steps_in(plain.output));
  SmallRun packed = plain;
  packed.data = folder() / "packed.jsonl";
  packed.output = folder() / "packed";
  const std::string zip = "gzip -c " + data(lines(200)) + " > " + packed.data;
  ASSERT_EQ(std::system(zip.c_str()), 0);
  run_well(launch(packed));
  EXPECT_EQ(steps_in(packed.output), steps_in(plain.output));
  fs::resize_file(packed.data, fs::file_size(packed.data) - 9);
  packed.output = folder() / "cut";
  expect_refusal(launch(packed), 11, "packed.jsonl");
}

// The signal comes between the lines of the only draft.
Launch signalled(Launch launch, int signal) {
  launch.variables.push_back(core::concat("FME_FAULT=point=tokenize.lines,action=signal:", signal));
  return launch;
}

TEST_F(Text, AKilledPreparationIsMadeAnewByTheNextStart) {
  SmallRun run = run_of(lines(1000));
  const Ended killed = this->run(signalled(launch(run), SIGKILL));
  EXPECT_EQ(killed.codes, std::vector<int>{128 + SIGKILL}) << killed.err;
  EXPECT_EQ(drafts(), 1);
  run.data = data(lines(300));
  run_well(launch(run));
  EXPECT_EQ(drafts(), 0);
}

TEST_F(Text, CtrlCDuringPreparationEndsAllRanksWithNothingLeft) {
  const Ended ended = this->run(signalled(launch(run_of(lines(1000)), 2), SIGINT));
  EXPECT_EQ(ended.codes, std::vector<int>{75}) << ended.err;
  EXPECT_NE(ended.err.find("while text was tokenized"), std::string::npos) << ended.err;
  EXPECT_EQ(drafts(), 0);
}

// A limit on the size of files stands for a full disk: the write fails.
TEST_F(Text, AFullDiskEndsWithCode26AndTheCure) {
  const SmallRun run = run_of(lines(250'000));
  Launch limited = launch(run);
  limited.words.insert(limited.words.begin(),
                       {"/bin/bash", "-c", "ulimit -f 1000; exec \"$@\"", "bash"});
  const Ended ended = this->run(limited);
  EXPECT_EQ(ended.codes, std::vector<int>{26}) << ended.err;
  EXPECT_NE(ended.err.find("name another folder with --cache_dir"), std::string::npos) << ended.err;
  EXPECT_EQ(drafts(), 0);
  fs::create_directories(folder() / "ahead");
  const Ended ahead =
      this->run({.words = {"/bin/bash", "-c", "ulimit -f 1000; exec \"$@\"", "bash",
                           FM_PROGRAMS "/fmengine-tokenize", "--tokenizer", tokenizer_.string(),
                           "--data_path", run.data, "--out", (folder() / "ahead" / "ids").string()},
                 .variables = {}});
  EXPECT_EQ(ahead.codes, std::vector<int>{26}) << ahead.err;
  EXPECT_NE(ahead.err.find("--out of fmengine-tokenize"), std::string::npos) << ahead.err;
  EXPECT_TRUE(fs::is_empty(folder() / "ahead"));
}

TEST_F(Text, TokensMadeAheadTrainAsTheTextDoes) {
  const SmallRun text = run_of(lines(200));
  run_well(launch(text));
  const std::string out = folder() / "ahead";
  const Ended made =
      run_well({.words = {FM_PROGRAMS "/fmengine", "tokenize", "--tokenizer", tokenizer_.string(),
                          "--data_path", text.data, "--out", out, "--data_format", "megatron"},
                .variables = {}});
  EXPECT_NE(made.out.find("200 documents"), std::string::npos) << made.out;
  SmallRun ahead = text;
  ahead.data = out;
  ahead.output = folder() / "from_tokens";
  ahead.more = {"--data_format", "megatron"};
  Launch words = launch(ahead);
  std::erase(words.words, "tokens_i32");
  words.words.erase(std::find(words.words.begin(), words.words.end(), "--data_format"));
  run_well(words);
  EXPECT_EQ(steps_in(ahead.output), steps_in(text.output));
}

}  // namespace
}  // namespace fm::system
