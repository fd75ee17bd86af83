// What a host or container does not have enough of is said before anything is allocated.
#include "core/check.h"
#include "tests/system/limited_group.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

class HostLimits : public SystemCase {
 protected:
  SmallRun small() const {
    return {.config = small_config(folder(), 2),
            .model = small_model(folder()),
            .data = small_tokens(folder(), 16),
            .output = folder() / "output",
            .steps = 1,
            .more = {}};
  }
  std::string model(const char* sizes) const {
    return write_file(folder() / "sized.json",
                      core::concat(R"({"model_type": "llama", "vocab_size": 264,
                                   "num_attention_heads": 4, )",
                                   sizes, "}"));
  }
};

// 60 M parameters: 16 bytes each without stages of ZeRO.
constexpr const char* kLarge =
    R"("hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4)";

LimitedGroup::Limit memory(const std::string& bytes) {
  return {.controller = "memory",
          .file_1 = "memory.limit_in_bytes",
          .value_1 = bytes,
          .file_2 = "memory.max",
          .value_2 = bytes};
}

TEST_F(HostLimits, APlanThatAControlGroupDoesNotHoldIsRefusedByAllRanks) {
  const LimitedGroup group(memory("300000000"));
  if (!group.made()) GTEST_SKIP() << "no control group with a memory limit can be made here";
  SmallRun run = small();
  const auto launch = [&](Starter starter) {
    std::vector<std::string> words = group.words();
    for (const std::string& word : words_of(run)) words.push_back(word);
    return Launch{.starter = starter, .ranks = 2, .words = words, .variables = {}};
  };
  run_well(launch(Starter::kMpirun));
  run.model = model(kLarge);
  run.output = folder() / "large";
  for (const Starter starter : {Starter::kMpirun, Starter::kByHand}) {
    const Ended ended = this->run(launch(starter));
    for (const int code : ended.codes) EXPECT_EQ(code, 25) << ended.out << ended.err;
    EXPECT_EQ(occurrences(ended.err, "memory must hold what the plan allocates"), 1) << ended.err;
    EXPECT_EQ(occurrences(ended.err, "are left by the limit 300.0 MB in " + group.path()), 1)
        << ended.err;
    EXPECT_FALSE(std::filesystem::exists(run.output / "metrics.jsonl"));
  }
}

TEST_F(HostLimits, StacksThatAProductOverrunsAreRefused) {
  const SmallRun run = small();
  const auto under = [&](const std::string& limit, int ranks) {
    std::vector<std::string> words = {"/bin/sh", "-c", limit + " && exec \"$@\"", "sh"};
    for (const std::string& word : words_of(run)) words.push_back(word);
    const Starter starter = ranks > 1 ? Starter::kMpirun : Starter::kAlone;
    return this->run({.starter = starter, .ranks = ranks, .words = words, .variables = {}});
  };
  for (const int ranks : {1, 2}) {
    const Ended ended = under("ulimit -s 1024", ranks);
    EXPECT_EQ(ended.codes, std::vector<int>{10}) << ended.err;
    // Rank 0 reports its own error, or that of rank 1 when it comes first.
    EXPECT_EQ(occurrences(ended.err, "matrix products need a stack of 1536 KiB"), 1) << ended.err;
    EXPECT_EQ(occurrences(ended.err, "(the limit is 1024 KiB)"), 1) << ended.err;
  }
  EXPECT_EQ(under("ulimit -s 1536", 1).codes, std::vector<int>{0});
  const Ended threads = under("export OMP_NUM_THREADS=2 OMP_STACKSIZE=1m", 1);
  EXPECT_EQ(threads.codes, std::vector<int>{10}) << threads.err;
  EXPECT_EQ(occurrences(threads.err, "OMP_STACKSIZE=1m)"), 1) << threads.err;
}

TEST_F(HostLimits, AMillionLayersAreRefusedBeforeAnythingIsMadeOfThem) {
  SmallRun run = small();
  run.model = model(R"("hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 1000000)");
  // CPU time, ten times what it takes: a busy machine does not use it up.
  std::vector<std::string> words = {"/bin/sh", "-c", "ulimit -t 10 && exec \"$@\"", "sh"};
  for (const std::string& word : words_of(run)) words.push_back(word);
  const Ended ended =
      this->run({.starter = Starter::kAlone, .ranks = 1, .words = words, .variables = {}});
  EXPECT_EQ(ended.codes, std::vector<int>{10});
  EXPECT_EQ(occurrences(ended.err, "key num_hidden_layers: at most 10000 are supported"), 1)
      << ended.err;
  EXPECT_FALSE(std::filesystem::exists(run.output));
}

}  // namespace
}  // namespace fm::system
