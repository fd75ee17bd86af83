// What monitors get, and what DeepSpeed's breakdowns print.
#include "engine/shown/run_monitors.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/shown/step_profile.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

// 40 ms of forward, 2 of the loss, 60 of backward, 8 of reductions, 5 of the optimizer, 1 of
// gathers.
StepLine timed_line() {
  StepLine line;
  line.step = 3;
  line.samples = 96;
  line.loss = 2.5;
  line.lr = 0.25;
  line.grad_norm = 1.5;
  line.epoch = 0.75;
  line.tokens = 1000;
  line.step_time_s = 0.125;
  line.flops = 3e9;
  line.phases.add(core::Phase::kForward, 40.0);
  line.phases.add(core::Phase::kLoss, 2.0);
  line.phases.add(core::Phase::kBackward, 60.0);
  line.phases.add(core::Phase::kReduce, 8.0);
  line.phases.add(core::Phase::kOptimizer, 5.0);
  line.phases.add(core::Phase::kGather, 1.0);
  return line;
}

std::string listed(const std::vector<monitor::Event>& events) {
  std::string out;
  for (const monitor::Event& event : events) {
    out += core::concat(event.tag, " ", event.value, " at ", event.step, "\n");
  }
  return out;
}

// deepspeed/runtime/engine.py has the tags.
TEST(MonitorEvents, HaveDeepSpeedsTagsAndSamplesAsX) {
  StepLine line = timed_line();
  // 1000 tokens in 0.125 s.
  const std::string trainers =
      "train/learning_rate 0.25 at 96\ntrain/grad_norm 1.5 at 96\ntrain/epoch 0.75 at 96\n"
      "train/tokens_per_second 8000 at 96\n";
  EXPECT_EQ(listed(events_of(line, false)),
            "Train/Samples/train_loss 2.5 at 96\nTrain/Samples/lr 0.25 at 96\n"
            "train/loss 2.5 at 96\n" +
                trainers);
  StepLine untrained = line;  // a curve has no point there
  untrained.loss.reset();
  EXPECT_EQ(listed(events_of(untrained, false)), "Train/Samples/lr 0.25 at 96\n" + trainers);
  line.loss_scale = 1024.0;
  line.eval_loss = 0.0;
  EXPECT_EQ(listed(events_of(line, true)),
            "Train/Samples/train_loss 2.5 at 96\n"
            "Train/Samples/lr 0.25 at 96\n"
            "Train/Samples/loss_scale 1024 at 96\n"
            "Train/Samples/eval_loss 0 at 96\n"
            "train/loss 2.5 at 96\n" +
                trainers +
                "eval/loss 0 at 96\n"
                "eval/perplexity 1 at 96\n"
                "Train/Samples/elapsed_time_ms_forward 42 at 96\n"
                "Train/Samples/elapsed_time_ms_backward 68 at 96\n"
                "Train/Samples/elapsed_time_ms_backward_inner 60 at 96\n"
                "Train/Samples/elapsed_time_ms_backward_allreduce 8 at 96\n"
                "Train/Samples/elapsed_time_ms_step 6 at 96\n");
}

TEST(Breakdown, LinesAreDeepSpeedsTimers) {
  EXPECT_EQ(wall_clock_text(parts_of(timed_line().phases), 4),
            "time (ms) | fwd_microstep: 10.50 | bwd_microstep: 17.00 | bwd_inner_microstep: 15.00 "
            "| bwd_allreduce_microstep: 2.00 | step_microstep: 6.00\n"
            "time (ms) | fwd: 42.00 | bwd: 68.00 | bwd_inner: 60.00 | bwd_allreduce: 8.00 | "
            "step: 6.00");
  EXPECT_EQ(memory_text(7, core::Bytes(158'400'000), core::Bytes(1'200'000'000)),
            "memory after step 7 | MA 158.4 MB | Max_MA 1.2 GB");
}

// 1,000,000 bytes in 4 ms are 2 Gbit/s.
TEST(Breakdown, CommsTableIsDeepSpeedsWithItsRates) {
  comm::VerbCounts counts;
  counts.at({"all_reduce", 1'000'000, 4}) = {.count = 2, .ns = 8'000'000};
  counts.at({"all_gather", 1'000'000, 4}) = {.count = 1, .ns = 4'000'000};
  counts.at({"all_gather", 500'000, 4}) = {.count = 1, .ns = 1'000'000};
  counts.at({"send", 1'000'000, 2}) = {.count = 1, .ns = 4'000'000};
  std::string text = comms_text(counts);
  for (std::size_t at = 0; (at = text.find("  ")) != std::string::npos;) text.erase(at, 1);
  EXPECT_EQ(text,
            "Comm. Op Message Size Count Total Latency(ms) Avg Latency(ms) tput_avg (Gbps) "
            "busbw_avg (Gbps)\n"
            "all_gather\n"
            " 500.0 kB 1 1.00 1.00 4.00 3.00\n"
            " 1.0 MB 1 4.00 4.00 2.00 1.50\n"
            "all_reduce\n"
            " 1.0 MB 2 8.00 4.00 4.00 3.00\n"
            "send\n"
            " 1.0 MB 1 4.00 4.00 2.00 2.00\n");
}

using RunMonitorsTest = TrainerCase;

// The value of a row: a name, spaces, the value.
std::string value_in(const std::string& table, const std::string& name) {
  const std::size_t at = table.find("\n" + name + ":");
  if (at == std::string::npos) return "no row " + name;
  const std::size_t first = table.find_first_not_of(' ', at + name.size() + 2);
  const std::string value = table.substr(first, table.find('\n', first) - first);
  return value.substr(0, value.find_last_not_of(' ') + 1);
}

TEST_F(RunMonitorsTest, TheProfileDividesByTheRightThings) {
  TrainOptions small = options("out", 1);
  small.batch = {.train_batch = 12, .micro_batch = 2, .accumulation = 3};
  const model::OpenedModel opened = open_run_model(small);
  const RunPlan plan = make_run_plan(small, opened.model, {.ranks = 2});
  const std::string table =
      flops_profile_text({.options = small, .opened = opened, .plan = &plan}, timed_line());
  EXPECT_NE(table.find("Profile Summary at step 3:\n"), std::string::npos) << table;
  EXPECT_EQ(value_in(table, "world size"), "2");
  EXPECT_EQ(value_in(table, "data parallel size"), "2");
  EXPECT_EQ(value_in(table, "batch size per rank"), "2");
  EXPECT_EQ(value_in(table, "fwd flops of model"), "1 G");
  EXPECT_EQ(value_in(table, "bwd latency"), "68.00 ms");
  EXPECT_EQ(value_in(table, "iter latency"), "125.00 ms");
  EXPECT_EQ(value_in(table, "FLOPS of model = fwd+bwd flops of model / iter latency"), "24 GFLOPS");
  EXPECT_EQ(value_in(table, "FLOPS per rank = FLOPS of model / world size"), "12 GFLOPS");
  EXPECT_EQ(value_in(table, "samples/second"), "96.00");
  EXPECT_EQ(value_in(table, "tokens/second"), "8000.00");
}

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The number of samples and the value of each row below the header.
std::map<std::int64_t, double> rows_of(const fs::path& file) {
  std::map<std::int64_t, double> rows;
  const std::vector<std::string> lines = lines_of(file);
  for (std::size_t at = 1; at < lines.size(); ++at) {
    const std::size_t comma = lines[at].find(',');
    rows[std::stoll(lines[at].substr(0, comma))] = std::stod(lines[at].substr(comma + 1));
  }
  return rows;
}

TEST_F(RunMonitorsTest, ARunThatResumesFillsOneCurve) {
  TrainOptions first = options("out", 2);
  const fs::path csv = folder() / "csv";
  first.monitors.csv = {csv.string()};
  first.monitors.tensorboard = {(folder() / "tb").string()};
  ASSERT_EQ(run(first, 2), 0);
  TrainOptions second = first;
  second.train_steps = 4;
  ASSERT_EQ(run(second, 2), 0);
  const std::vector<std::string> lines = lines_of(csv / "Train_Samples_train_loss.csv");
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "step,train_loss");
  const std::map<std::int64_t, double> losses = rows_of(csv / "Train_Samples_train_loss.csv");
  const std::map<std::int64_t, double> rates = rows_of(csv / "Train_Samples_lr.csv");
  const std::int64_t batch = losses.begin()->first;
  for (const auto& [step, line] : metrics(second)) {
    EXPECT_NEAR(losses.at(step * batch), line.loss, 1e-8) << step;
    EXPECT_NEAR(rates.at(step * batch), line.lr, 1e-12) << step;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder() / "tb"), {}), 2) << "one per start";
}

// A file stands where the folders should be.
TEST_F(RunMonitorsTest, WhatCannotBeWrittenIsSaidOnceAndTrainingGoesOn) {
  TrainOptions options = this->options("out", 3);
  std::ofstream(folder() / "file") << "x";
  options.monitors.tensorboard = {(folder() / "file" / "runs").string()};
  options.monitors.csv = {(folder() / "file").string()};
  options.monitors.prometheus_file = (folder() / "none" / "run.prom").string();
  testing::internal::CaptureStderr();
  const int code = run(options, 2);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 0);
  EXPECT_EQ(metrics(options).size(), 3U);
  EXPECT_EQ(occurrences(said, "lacks values from step 1 on"), 3) << said;
  EXPECT_EQ(occurrences(said, "file/runs lacks values"), 1) << said;
  EXPECT_EQ(occurrences(said, "(Not a directory)"), 2) << said;
  EXPECT_EQ(occurrences(said, "run.prom lacks values"), 1) << said;
}

TEST_F(RunMonitorsTest, PrometheusHasTheNewestValues) {
  TrainOptions options = this->options("o\"ut", 2);
  options.eval_data_path = options.data_path;
  options.eval_steps = 1;
  options.monitors.prometheus_file = (folder() / "run.prom").string();
  ASSERT_EQ(run(options, 2), 0);
  const std::string label = "{run=\"" + folder().string() + "/o\\\"ut\"} ";
  std::map<std::string, double> values;
  for (const std::string& line : lines_of(options.monitors.prometheus_file)) {
    if (line.starts_with("#")) continue;
    const std::size_t at = line.find(label);
    ASSERT_NE(at, std::string::npos) << line;
    values[line.substr(0, at)] = std::stod(line.substr(at + label.size()));
  }
  const MetricsLine last = metrics(options).at(2);
  EXPECT_NEAR(values.at("fmengine_loss"), last.loss, 1e-8);
  EXPECT_NEAR(values.at("fmengine_eval_loss"), last.eval_loss, 1e-8);
  EXPECT_EQ(values.at("fmengine_grad_norm"), last.grad_norm);
  EXPECT_NEAR(values.at("fmengine_learning_rate"), last.lr, 1e-12);
  EXPECT_EQ(values.at("fmengine_step"), 2.0);
  EXPECT_EQ(values.at("fmengine_skipped_steps_total"), 0.0);
  EXPECT_EQ(values.at("fmengine_tokens_total"),
            values.at("fmengine_samples_total") * static_cast<double>(options.max_seq_len));
  EXPECT_EQ(values.at("fmengine_samples_total"), 2.0 * 4) << "two steps of four";
  EXPECT_GT(values.at("fmengine_memory_bytes"), 1e6);
  EXPECT_GT(values.at("fmengine_tokens_per_second"), 0.0);
  EXPECT_EQ(values.count("fmengine_loss_scale"), 0U);
}

// Prometheus takes a number that became less for one that began at 0 again.
TEST_F(RunMonitorsTest, CountersOfPrometheusBeginWithEachStart) {
  TrainOptions options = this->options("out", 3);
  ASSERT_EQ(run(options, 2), 0);
  options.train_steps = 4;
  options.monitors.prometheus_file = (folder() / "run.prom").string();
  ASSERT_EQ(run(options, 2), 0);
  std::string samples;
  for (const std::string& line : lines_of(options.monitors.prometheus_file)) {
    if (line.starts_with("fmengine_samples_total{")) samples = line.substr(line.rfind(' ') + 1);
  }
  EXPECT_EQ(samples, "4");
}

TEST_F(RunMonitorsTest, BreakdownsFollowTheRhythmAndTheProfileItsStep) {
  TrainOptions options = this->options("out", 5);
  options.log_steps = 2;
  options.monitors.wall_clock = options.monitors.memory = true;
  options.monitors.profile_step = 3;
  const auto said = [&](int ranks) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(options, ranks), 0);
    return testing::internal::GetCapturedStdout();
  };
  const std::string first = said(2);
  EXPECT_EQ(occurrences(first, "time (ms) | fwd: "), 3) << first;  // steps 2, 4 and 5
  EXPECT_EQ(occurrences(first, "time (ms) | fwd_microstep: "), 3) << first;
  EXPECT_EQ(occurrences(first, "memory after step "), 3) << first;
  EXPECT_EQ(occurrences(first, "Profile Summary at step 3:"), 1) << first;
  options.output_dir = (folder() / "again").string();
  options.monitors.profile_file = (folder() / "flops.txt").string();
  EXPECT_EQ(occurrences(said(1), "Profile Summary"), 0);
  EXPECT_EQ(lines_of(options.monitors.profile_file).at(1), "Profile Summary at step 3:");
}

TEST_F(RunMonitorsTest, ADryRunWritesNothing) {
  TrainOptions options = this->options("out", 1);
  options.dry_run = true;
  options.monitors = {.tensorboard = {(folder() / "tb").string()},
                      .csv = {(folder() / "csv").string()},
                      .prometheus_file = (folder() / "run.prom").string(),
                      .profile_step = 1,
                      .profile_file = (folder() / "flops.txt").string()};
  testing::internal::CaptureStdout();
  const int code = run(options);
  const std::string said = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0);
  EXPECT_EQ(occurrences(said, "Profile Summary at step 1:"), 1);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) names.insert(entry.path().filename());
  for (const char* name : {"tb", "csv", "run.prom", "flops.txt"}) EXPECT_EQ(names.count(name), 0U);
}

}  // namespace
}  // namespace fm::engine
