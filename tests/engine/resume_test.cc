// A run that goes on: the same function, the same data, the same counts.
#include <gtest/gtest.h>

#include <random>

#include "core/fault.h"
#include "engine/state/progress_state.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class ResumeTest : public TrainerCase {
 protected:
  // Every row is the same, so a step is the same wherever it stands.
  void write_equal_rows() const {
    std::mt19937 random(11);
    std::vector<std::int32_t> row(17);
    for (std::int32_t& id : row) id = static_cast<std::int32_t>(random() % 777);
    std::ofstream file(folder() / "tokens.bin", std::ios::binary);
    for (int window = 0; window < 40; ++window) {
      file.write(reinterpret_cast<const char*>(row.data()),
                 static_cast<std::streamsize>(row.size() * sizeof(row[0])));
    }
  }

  // Replaces a part of the model's config.json.
  static void edit(const std::string& path, const std::string& from, const std::string& to) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    ASSERT_NE(text.find(from), std::string::npos) << text;
    text.replace(text.find(from), from.size(), to);
    std::ofstream(path) << text;
  }
};

void expect_equal_steps(const std::map<int, MetricsLine>& a, const std::map<int, MetricsLine>& b,
                        int steps) {
  for (int step = 1; step <= steps; ++step) {
    EXPECT_EQ(a.at(step).loss, b.at(step).loss) << "step " << step;
    EXPECT_EQ(a.at(step).grad_norm, b.at(step).grad_norm) << "step " << step;
    EXPECT_EQ(a.at(step).lr, b.at(step).lr) << "step " << step;
  }
}

TEST_F(ResumeTest, ResumesAtAnotherStageAndSizeBitForBit) {
  TrainOptions whole = options("whole", 6);
  whole.scheduler.rule = &optim::kWarmupLr;
  whole.scheduler.warmup_num_steps = 4;
  ASSERT_EQ(run(whole), 0);

  const TrainOptions part = run_in_parts(whole, comm::Between::kSharedMemory);
  expect_equal_steps(metrics(whole), metrics(part), 6);
}

// A kill between a checkpoint's rename and the writing of `latest` leaves the older name there.
TEST_F(ResumeTest, LatestNamesTheCheckpointThatIsResumedAlsoWhereNothingIsLeftToTrain) {
  TrainOptions done = options("done", 4);
  done.save_steps = 2;
  ASSERT_EQ(run(done), 0);
  const fs::path latest = fs::path(done.output_dir) / "latest";
  std::ofstream(latest) << "global_step2";
  ASSERT_EQ(run(done), 0);
  std::ifstream file(latest);
  std::string tag;
  file >> tag;
  EXPECT_EQ(tag, "global_step4");
}

TEST_F(ResumeTest, RefusesOtherRows) {
  ASSERT_EQ(run(options("run", 1)), 0);
  TrainOptions other = options("run", 2);
  other.max_seq_len = 8;
  expect_error(core::ExitCode::kConfigError, "pass --max_seq_len 16, or", [&] { run(other); });
}

TEST_F(ResumeTest, TheDataMayBeMoved) {
  ASSERT_EQ(run(options("run", 1)), 0);
  TrainOptions moved = options("run", 2);
  const fs::path place = folder() / "moved.bin";
  fs::rename(moved.data_path[0], place);
  moved.data_path = {place.string()};
  ASSERT_EQ(run(moved), 0);
  EXPECT_EQ(metrics(moved).size(), 2U);
  std::ofstream(place, std::ios::binary | std::ios::in).put('\1');
  moved.train_steps = 3;
  expect_error(core::ExitCode::kConfigError, "path=" + place.string(), [&] { run(moved); });
}

TEST_F(ResumeTest, AStateOfAnOlderBuildNamesThePathBeforeTheContent) {
  RunIdentity old;
  old.data = "jsonl /old place/d.jsonl bytes=3 crc32c=4 seed=1";
  RunIdentity now;
  now.data = data_text("jsonl bytes=3 crc32c=4 seed=1", "/new/d.jsonl");
  EXPECT_TRUE(compare_runs(old, now).empty());
  now.data = data_text("jsonl bytes=3 crc32c=5 seed=1", "/old place/d.jsonl");
  expect_error(core::ExitCode::kConfigError, "crc32c=5", [&] { compare_runs(old, now); });
}

// As where --max_seq_len was 128 when nothing was said, and today is the model's.
TEST_F(ResumeTest, OtherRowsAreRefusedWithTheFlagsOfThoseInTheCheckpoint) {
  RunIdentity old;
  old.data = data_text("text 7-8 packing=concat seq_len=128 seed=3407", "c.jsonl");
  RunIdentity now;
  now.data = data_text("text 7-8 packing=best_fit seq_len=1024 seed=3407", "c.jsonl");
  expect_error(core::ExitCode::kConfigError, "pass --packing concat --max_seq_len 128, or",
               [&] { compare_runs(old, now); });
  now.data = data_text("text 7-8 packing=concat seq_len=1024 seed=3407", "c.jsonl");
  expect_error(core::ExitCode::kConfigError, "pass --max_seq_len 128, or",
               [&] { compare_runs(old, now); });
  old.data = data_text("tokens crc32c=4 seq_len=128 order=file", "t.bin");
  now.data = data_text("tokens crc32c=4 seq_len=512 order=file", "t.bin");
  expect_error(core::ExitCode::kConfigError, "pass --max_seq_len 128, or",
               [&] { compare_runs(old, now); });
}

// The same text through another tokenizer, and a split that an older build took from the end.
TEST(Resume, SaysWhatDiffersOfTheData) {
  const auto refused = [](const std::string& saved, const std::string& now, const char* said) {
    RunIdentity before;
    RunIdentity after;
    before.data = data_text(saved, "a.jsonl");
    after.data = data_text(now, "a.jsonl");
    expect_error(core::ExitCode::kConfigError, said, [&] { compare_runs(before, after); });
  };
  refused("text 12ab-34 packing=concat", "text 12ab-35 packing=concat",
          "the tokenizer, the chat template, --text_field or --train_on_inputs differs");
  refused("text 12ab-34 packing=concat", "text 13ab-34 packing=concat",
          "another --output_dir (checkpoint: text 12ab-34");
  refused("text 12ab-34 part=0-9 packing=concat",
          "text 12ab-34 chosen=0-9 by seed=7 packing=concat",
          "split takes documents in the order of the files: add --shuffle_split false");
}

TEST_F(ResumeTest, RefusesAnotherKindOfOptimizer) {
  ASSERT_EQ(run(options("run", 1)), 0);
  TrainOptions other = options("run", 2);
  other.optimizer.rule = &optim::kSgd;
  expect_error(core::ExitCode::kConfigError, "(checkpoint: AdamW, now: SGD)", [&] { run(other); });
}

// Every one of these has tensors of the same shapes.
TEST_F(ResumeTest, RefusesAnotherFunctionOfTheSameTensors) {
  const std::string heads = R"("num_attention_heads": 6, "num_key_value_heads": 2)";
  const std::string eps = R"("rms_norm_eps": 1e-6)";
  struct Change {
    std::string from, to, said;
  };
  const Change changes[] = {
      {heads, R"("num_attention_heads": 12, "num_key_value_heads": 4)",
       "num_attention_heads: 6 in the checkpoint, 12 now"},
      {eps, R"("rms_norm_eps": 1e-5)", "rms_norm_eps: 1e-06 in the checkpoint, 1e-05 now"},
      {eps, eps + R"(, "rope_theta": 500000.0)",
       "rope_theta: 10000.0 in the checkpoint, 500000.0 now"},
      {eps, eps + R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})",
       R"(rope_type: "default" in the checkpoint, "linear" now)"},
  };
  ASSERT_EQ(run(options("run", 1)), 0);
  for (const Change& change : changes) {
    const TrainOptions other = options("run", 2);  // writes the first config.json again
    edit(other.model_config, change.from, change.to);
    expect_error(core::ExitCode::kConfigError, change.said, [&] { run(other); });
  }
  EXPECT_EQ(run(options("run", 2)), 0);
}

TEST_F(ResumeTest, OtherNumbersOfTheUpdateAreSaid) {
  ASSERT_EQ(run(options("run", 1)), 0);
  TrainOptions other = options("run", 2);
  other.optimizer.lr = 0.25;  // was 1e-2
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(other), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "saved with: lr: 0.01 in the checkpoint, 0.25 now\n"), 1) << said;
}

// 8 samples a step on 3 data ranks, on 2 and on 3 again, in other stages: the steps, the optimizer
// state and the export of one rank.
TEST_F(ResumeTest, ARunGoesOnWithTheRanksThatAreLeft) {
  TrainOptions whole = options("whole", 7);
  whole.batch = {8, 1, {}};
  ASSERT_EQ(run(whole), 0);
  struct Start {
    int ranks, zero_stage, steps;
  };
  for (const int pipe : {1, 2}) {
    TrainOptions part = whole;
    part.output_dir = (folder() / core::concat("part", pipe)).string();
    for (const Start& start : {Start{3, 3, 2}, Start{2, 2, 4}, Start{3, 1, 6}, Start{1, 0, 7}}) {
      part.pipe_parallel_size = start.ranks == 1 ? 1 : pipe;
      part.zero_stage = start.zero_stage;
      part.train_steps = start.steps;
      ASSERT_EQ(run(part, part.pipe_parallel_size * start.ranks), 0);
    }
    expect_equal_steps(metrics(whole), metrics(part), 7);
    const auto saved = [](const TrainOptions& of, const fs::path& file) {
      return content(fs::path(of.output_dir) / file);
    };
    std::vector<fs::path> files = {"hf/model.safetensors"};
    for (const auto& entry : fs::directory_iterator(fs::path(whole.output_dir) / "global_step7")) {
      if (entry.path().extension() != ".safetensors") continue;
      files.push_back(fs::path("global_step7") / entry.path().filename());
    }
    ASSERT_GT(files.size(), 1U);  // of the checkpoint with the optimizer's moments
    for (const fs::path& file : files) {
      EXPECT_TRUE(saved(whole, file) == saved(part, file)) << file;
    }
  }
}

// What follows from the number of ranks is said, with what would fix it.
TEST_F(ResumeTest, ABatchThatFollowsTheRanksIsSaidWithItsCure) {
  TrainOptions at = options("run", 1);
  at.batch = {{}, 1, 2};
  ASSERT_EQ(run(at, 2), 0);
  at.train_steps = 2;
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(at, 3), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said, "train_batch_size: 4 in the checkpoint, 6 now; a step has"), 1)
      << said;
  EXPECT_EQ(occurrences(said, "set \"train_batch_size\": 4 in place of"), 1) << said;
}

TEST_F(ResumeTest, OtherArithmeticIsSaid) {
  RunContext context;
  context.arithmetic = {.libraries = "G 1 (avx2)", .threads = 1};
  ASSERT_EQ(run(options("run", 1), 1, context), 0);
  context.arithmetic->threads = 4;
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(options("run", 2), 1, context), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(occurrences(said,
                        "computed with G 1 (avx2), 1 thread per rank, this run uses "
                        "G 1 (avx2), 4 threads per rank"),
            1)
      << said;
  testing::internal::CaptureStderr();
  ASSERT_EQ(run(options("run", 3), 1, context), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ResumeTest, AStateOfAnOlderBuildLoadsWithoutAWord) {
  const ProgressState old = progress_from_json(R"state({"step": 5, "samples": 20, "applied": 4,
      "skipped": 1, "consecutive_skips": 0, "seed": 7, "data": "d", "optimizer": "AdamW",
      "arithmetic": "G 1 (avx2)"})state");
  EXPECT_EQ(old.applied, 4);
  const RunIdentity now{.seed = 7,
                        .data = "d",
                        .optimizer = "AdamW",
                        .arithmetic = "G 1 (avx2), A 2, 1 thread per rank",
                        .model = R"({"rope_theta": 1.0})",
                        .optimization = R"({"lr": 1.0})"};
  EXPECT_TRUE(compare_runs(old.run, now).empty());
}

// With equal rows, a run that skipped its third step is a run without that step, one step later:
// weights, moments, bias correction and schedule, across a resume too.
TEST_F(ResumeTest, ASkippedStepIsAsIfItHadNeverBeen) {
  write_equal_rows();
  TrainOptions clean = options("clean", 7);
  clean.scheduler.rule = &optim::kWarmupLr;
  clean.scheduler.warmup_type = WarmupType::kLinear;
  clean.scheduler.warmup_num_steps = 10;
  ASSERT_EQ(run(clean), 0);

  core::arm_faults("step=3,point=bwd.layer,action=nan");
  TrainOptions skipped = clean;
  skipped.output_dir = (folder() / "skipped").string();
  for (const std::int64_t steps : {4, 8}) {
    skipped.train_steps = steps;
    ASSERT_EQ(run(skipped), 0);
  }
  const auto want = metrics(clean);
  const auto got = metrics(skipped);
  ASSERT_TRUE(got.at(3).skipped);
  for (int step = 3; step <= 7; ++step) {
    EXPECT_EQ(got.at(step + 1).loss, want.at(step).loss) << step;
    EXPECT_EQ(got.at(step + 1).lr, want.at(step).lr) << step;
  }
  EXPECT_NE(want.at(6).loss, want.at(7).loss) << "the run must learn to tell";
}

TEST_F(ResumeTest, AResumeCountsSkipsInARowFromZero) {
  core::arm_faults(
      "step=2,point=bwd.layer,action=nan;step=3,point=bwd.layer,action=nan;"
      "step=4,point=bwd.layer,action=nan");
  TrainOptions poisoned = options("poisoned", 5);
  poisoned.save_steps = 1;
  poisoned.max_consecutive_skips = 3;
  for (int start = 0; start < 2; ++start) {
    expect_error(core::ExitCode::kNumericLimit, "3 steps skipped in a row, last step 4",
                 [&] { run(poisoned); });
  }
}

}  // namespace
}  // namespace fm::engine
