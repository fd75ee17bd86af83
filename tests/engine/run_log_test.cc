#include "engine/shown/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/text.h"
#include "engine/plan/disk_need.h"
#include "engine/plan/run_model.h"

namespace fm::engine {
namespace {

StepLine long_line() {
  StepLine line;
  line.step = 123'456;
  line.last_step = 1'000'000;
  line.loss = 5.43214;
  line.lr = 3e-4;
  line.grad_norm = 1.2345;
  line.tokens = 100'000;
  line.step_time_s = 0.2;
  line.flops = 1e9;
  line.mem_peak = core::Bytes(12'345'000'000);
  line.seconds_left = 43'500.0;
  return line;
}

TEST(StepLineText, HasWhatIsLookedAtFirst) {
  StepLine line = long_line();
  line.step = 12;
  line.last_step = 100;
  EXPECT_EQ(text_of(line),
            "step 12/100 12%  loss 5.4321  lr 3.00e-04  norm 1.234  500,000 tokens/s  12.3 GB  "
            "12h05m left");
  line.device_memory = core::Bytes(38'200'000'000);
  EXPECT_EQ(text_of(line),
            "step 12/100 12%  loss 5.4321  lr 3.00e-04  norm 1.234  500,000 tokens/s  GPU 38.2 GB  "
            "12h05m left");
  line.mean_loss = 5.5;
  line.seconds_left.reset();
  line.loss_scale = 65536.0;
  line.skipped = true;
  EXPECT_EQ(text_of(line),
            "step 12/100 12%  loss 5.4321  lr 3.00e-04  norm 1.234  500,000 tokens/s  "
            "scale 65536  SKIPPED");  // the mean has no room
  line.loss_scale.reset();
  EXPECT_EQ(text_of(line),
            "step 12/100 12%  loss 5.4321 mean 5.5000  lr 3.00e-04  norm 1.234  "
            "500,000 tokens/s  SKIPPED");
}

// PaLM's measure (arXiv 2204.02311): 4e14 FLOP in 0.8 s on cards of 989 TFLOP/s.
TEST(StepLineText, HasTheModelFlopsUtilizationWhereTheCardsPeakIsKnown) {
  StepLine line = long_line();
  line.step = 12;
  line.last_step = 100;
  line.step_time_s = 0.8;
  line.flops = 4e14;
  line.seconds_left.reset();
  EXPECT_EQ(text_of(line).find("MFU"), std::string::npos);
  EXPECT_EQ(json_of(line).find("mfu"), std::string::npos);
  line.peak_flops = 989e12;
  EXPECT_NE(text_of(line).find("125,000 tokens/s  MFU 51%  12.3 GB"), std::string::npos);
  EXPECT_NE(json_of(line).find("\"mfu\": 0.5056"), std::string::npos) << json_of(line);
}

TEST(StepLineText, WhatIsNoNumberHasNoSign) {
  StepLine line = long_line();
  line.loss = -std::nan("");
  line.grad_norm = -std::nan("");
  EXPECT_NE(text_of(line).find("loss nan  "), std::string::npos) << text_of(line);
  EXPECT_NE(text_of(line).find("norm nan  "), std::string::npos) << text_of(line);
  EXPECT_NE(bar_of(line, 100).find("loss nan"), std::string::npos) << bar_of(line, 100);
  EXPECT_NE(json_of(line).find("\"loss\": null"), std::string::npos) << json_of(line);
}

TEST(StepLineText, FitsIntoAHundredColumns) {
  StepLine line = long_line();
  line.mean_loss = 5.5;
  EXPECT_LE(text_of(line).size(), 100U) << text_of(line);
  EXPECT_EQ(text_of(line).find("GB"), std::string::npos);
  EXPECT_NE(text_of(line).find("12h05m left"), std::string::npos);
}

// 83 columns without the epoch.
TEST(StepLineText, SaysTheEpochAndFitsANarrowTerminal) {
  StepLine line = long_line();
  line.step = 12;
  line.last_step = 100;
  line.epoch = 1.254;
  line.mean_loss = 5.5;
  EXPECT_EQ(text_of(line, 120),
            "step 12/100 12%  epoch 1.25  loss 5.4321 mean 5.5000  lr 3.00e-04  norm 1.234  "
            "500,000 tokens/s  12.3 GB  12h05m left");
  EXPECT_EQ(text_of(line, 80),
            "step 12/100  epoch 1.25  loss 5.4321  lr 3.00e-04  norm 1.234  500,000 tokens/s");
  EXPECT_EQ(text_of(line, 70),
            "step 12/100  loss 5.4321  lr 3.00e-04  norm 1.234  500,000 tokens/s");
  line.epoch = 0.07;  // 0.58 in the end
  EXPECT_NE(text_of(line, 120).find("  epoch 0.07  "), std::string::npos);
  line.epoch = 0.05;
  EXPECT_EQ(text_of(line, 120).find("epoch"), std::string::npos);
}

TEST(StepLineText, OfAnEvaluationAloneHasItsRows) {
  StepLine line;
  line.step = 7;
  line.eval_loss = std::log(10.0);
  line.unix_time = 1.5;
  EXPECT_EQ(evaluation_of(line, 1), "evaluation of step 7: loss 2.3026, perplexity 10, 1 row");
  EXPECT_EQ(evaluation_json(line, 40),
            "{\"evaluation\": {\"step\": 7, \"time\": 1.500, \"eval_loss\": 2.30258509, "
            "\"perplexity\": 10, \"rows\": 40}}");
}

TEST(StepLineText, PhasesAreTheSplitOfTheStepsTime) {
  StepLine line = long_line();
  line.phases.add(core::Phase::kForward, 60.0);   // of 200 ms: 30 %
  line.phases.add(core::Phase::kBackward, 99.2);  // 49.6 %
  line.phases.add(core::Phase::kGather, 0.8);     // 0.4 %: rounds to nothing
  line.phases.add(core::Phase::kOptimizer, 1.2);  // 0.6 %
  EXPECT_EQ(phases_of(line), "  phases: forward 30%, backward 50%, optimizer 1%; 5.0 GFLOP/s");
}

TEST(StepLineText, AnEvaluationSaysWhetherItIsTheBest) {
  StepLine line = long_line();
  line.step = 40;
  line.eval_loss = std::log(10.0);
  line.best = {.step = 40, .loss = std::log(10.0)};
  EXPECT_EQ(evaluation_of(line),
            "evaluation of step 40: loss 2.3026, perplexity 10, the best so far");
  line.best = {.step = 20, .loss = 2.25};
  EXPECT_EQ(evaluation_of(line),
            "evaluation of step 40: loss 2.3026, perplexity 10, best 2.2500 in step 20");
}

TEST(StepLineText, TheBarTakesTheTerminalsWidth) {
  StepLine line = long_line();
  line.step = 50;
  line.last_step = 100;
  line.seconds_left = 59.0;
  EXPECT_EQ(bar_of(line, 71),
            "[=======>      ] 50%  50/100  loss 5.4321  500,000 tokens/s  59s left");
  EXPECT_EQ(bar_of(line, 40), "50%  50/100  loss 5.4321  500,000 tokens/s  59s left");
  EXPECT_LE(bar_of(line, 300).size(), 100U);
}

TEST(Duration, HasTwoUnits) {
  EXPECT_EQ(core::human_duration(0.423), "0.42s");
  EXPECT_EQ(core::human_duration(4.2), "4.2s");
  EXPECT_EQ(core::human_duration(0.0031), "3.1ms");
  EXPECT_EQ(core::human_duration(59.4), "59s");
  EXPECT_EQ(core::human_duration(60.0), "1m00s");
  EXPECT_EQ(core::human_duration(3599.0), "59m59s");
  EXPECT_EQ(core::human_duration(3725.0), "1h02m");
  EXPECT_EQ(core::human_duration(200'000.0), "2d07h");
}

// A step of which no token is trained.
TEST(StepLineText, WithoutALossHasNone) {
  StepLine line = long_line();
  line.step = 12;
  line.last_step = 100;
  line.loss.reset();
  line.grad_norm = 0.0;
  EXPECT_EQ(
      text_of(line),
      "step 12/100 12%  no loss  lr 3.00e-04  norm 0  500,000 tokens/s  12.3 GB  12h05m left");
  EXPECT_NE(bar_of(line, 100).find("12/100  no loss  500,000 tokens/s"), std::string::npos);
  EXPECT_NE(json_of(line).find("\"loss\": null, \"lr\": 0.0003, \"grad_norm\": 0,"),
            std::string::npos)
      << json_of(line);
}

TEST(RunTotals, LeaveOutStepsWithoutALoss) {
  RunTotals totals;
  StepLine line = long_line();
  const std::vector<std::optional<double>> losses = {{}, 8.0, {}, 6.0, {}};
  for (std::size_t at = 0; at < losses.size(); ++at) {
    line.step = static_cast<std::int64_t>(at) + 1;
    line.loss = losses[at];
    totals.add(line);
  }
  EXPECT_EQ(totals.mean_loss(), 7.0);
  const std::string said = totals.summary("", {});
  EXPECT_NE(
      said.find("  loss       8.0000 in step 2, 6.0000 in step 4, mean of the last 2 7.0000\n"),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("  no labels  3 steps trained nothing and had no loss"), std::string::npos);
  RunTotals none;
  line.loss.reset();
  none.add(line);
  EXPECT_FALSE(none.mean_loss());
  EXPECT_NE(none.summary("", {}).find("  loss       none\n"), std::string::npos);
  RunTotals one;
  line.loss = 5.0;
  one.add(line);
  line.loss.reset();
  one.add(line);
  EXPECT_NE(one.summary("", {}).find("  loss       5.0000 in step 5\n"), std::string::npos);
}

TEST(RunTotals, GiveMeansAndWhatIsLeft) {
  RunTotals totals;
  StepLine line = long_line();
  line.last_step = 10;
  EXPECT_EQ(totals.summary("", {}), "");
  for (int step = 1; step <= 4; ++step) {
    line.step = step;
    line.loss = 10.0 - step;  // 9 8 7 6
    line.step_time_s = step == 1 ? 8.0 : 2.0;
    line.best = {.step = 2, .loss = 7.5};
    totals.add(line);
    // The first step counts only while it is alone.
    EXPECT_EQ(totals.seconds_left(line), step == 1 ? 72.0 : 2.0 * (10 - step)) << step;
  }
  EXPECT_EQ(totals.mean_loss(), 7.5);
  EXPECT_FALSE(totals.mean_loss());
  line.step = 10;
  EXPECT_FALSE(totals.seconds_left(line));
  EXPECT_EQ(totals.summary("out/hf", {"sleep", "eat"}),
            "done: 4 steps, 400,000 tokens in 14s of steps, 28,571 tokens/s\n"
            "  loss       9.0000 in step 1, 6.0000 in step 4, mean of the last 4 7.5000\n"
            "  evaluation best 7.5000 in step 2\n"
            "  memory     at most 12.3 GB on rank 0\n"
            "  model      out/hf\n"
            "  next       sleep\n"
            "             eat");
}

TEST(RunTotals, TellWhatTheDeviceHeld) {
  RunTotals totals;
  StepLine line = long_line();
  totals.add(line);
  EXPECT_EQ(totals.summary("", {}).find("GPU"), std::string::npos);
  line.device_memory = core::Bytes(38'200'000'000);
  totals.add(line);
  EXPECT_TRUE(totals.summary("", {}).ends_with("at most 12.3 GB on rank 0, 38.2 GB of its GPU"))
      << totals.summary("", {});
}

// Weights of 4 P bytes, with two moments 12 P.
TEST(DiskNeed, CountsWhatLiesThereAtOnce) {
  TrainOptions options;
  options.model_config = testing::TempDir() + "/disk.json";
  std::ofstream(options.model_config)
      << R"({"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1,
             "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 10})";
  // Embedding and head 80 each, four matrices of 64, three of 64, three norms of 8.
  const std::int64_t weights = 4 * (80 + 80 + 4 * 64 + 3 * 64 + 3 * 8);
  const model::OpenedModel opened = open_run_model(options);
  options.train_steps = 100;
  options.save_steps = 10;
  const auto need = [&](std::int64_t done) { return disk_need(options, opened, done); };
  EXPECT_EQ(need(0).checkpoint, core::Bytes(3 * weights));
  EXPECT_EQ(need(0).exported, core::Bytes(weights));
  EXPECT_EQ(need(0).checkpoints, 10);
  EXPECT_EQ(need(55).checkpoints, 5);
  EXPECT_EQ(need(0).total(), core::Bytes(31 * weights));
  const core::Bytes room(31 * weights);
  EXPECT_EQ(warning_of(need(0), options, room), "");
  const std::string said = warning_of(need(0), options, core::Bytes(31 * weights - 1));
  EXPECT_NE(said.find("what this run saves does not fit on the disk: 10 checkpoints of "),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("--keep_last 7 fits"), std::string::npos) << said;
  options.keep_last = 3;
  EXPECT_EQ(need(0).checkpoints, 5);
  options.keep_last = 0;
  options.save_best = true;
  options.eval_steps = 25;  // 25 and 75 are no save of the rhythm
  EXPECT_EQ(need(0).checkpoints, 12);
  options.save_steps = 0;
  EXPECT_EQ(need(0).checkpoints, 4);
  options.keep_last = 1;
  EXPECT_EQ(need(0).checkpoints, 4) << "the best one, too";
  options.keep_last = 0;
  options.save_best = false;
  EXPECT_EQ(need(0).checkpoints, 1);
  options.saves = false;
  EXPECT_EQ(text_of(need(0), room), "");
  EXPECT_TRUE(free_on_disk(testing::TempDir() + "/not/yet/there"));
}

TEST(Notes, Bf16IsCalledSlowWhereItIs) {
  const auto slow = [](core::DType element, bool is_fast) {
    TrainOptions options;
    options.element = element;
    const std::vector<std::string> notes = notes_of(options, {.type_is_slow = !is_fast});
    return notes.size() == 1 && notes[0].starts_with("bf16 is slow here, its products are ") &&
           notes[0].ends_with("; --precision fp32 is faster");
  };
  EXPECT_TRUE(slow(core::DType::kBF16, false));
  EXPECT_FALSE(slow(core::DType::kBF16, true));
  // This CPU's products say nothing of a GPU.
  TrainOptions options;
  options.element = core::DType::kBF16;
  options.device.kind = DeviceKind::kCuda;
  EXPECT_FALSE(product_speed(options, "NVIDIA H100 80GB HBM3").type_is_slow);
  EXPECT_FALSE(product_speed(options, "unheard of").type_is_slow);
  EXPECT_TRUE(notes_of(options, product_speed(options, "NVIDIA H100 80GB HBM3")).empty());
  options.device.kind = DeviceKind::kCpu;
  EXPECT_EQ(product_speed(options, "").type_is_slow, !kernels::gemm_is_fast(options.element));
  options.element = core::DType::kF32;
  EXPECT_FALSE(product_speed(options, "").type_is_slow);
}

// 792 TFLOP/s against 50, and 57 against 28.
TEST(Notes, Fp32IsCalledSlowOnAGpu) {
  TrainOptions options;
  options.device.kind = DeviceKind::kCuda;
  const auto notes = [&](std::string_view card) {
    return notes_of(options, product_speed(options, card));
  };
  EXPECT_EQ(notes("NVIDIA H100 80GB HBM3").at(0),
            "fp32 is slow on this GPU: its products are 16 times as fast with --precision bf16");
  EXPECT_NE(notes("NVIDIA GeForce RTX 3090").at(0).find(" 2 times as fast"), std::string::npos);
  EXPECT_TRUE(notes("unheard of").empty());
  options.device.kind = DeviceKind::kFake;
  EXPECT_TRUE(notes("NVIDIA H100 80GB HBM3").empty());
}

TEST(Notes, AHighRateForAllWeightsOfAGivenModelIsSaid) {
  TrainOptions given;
  given.init_ckpt = "folder";
  given.optimizer.lr = 1e-3;
  const auto warns = [](const TrainOptions& options) {
    const std::vector<std::string> notes = notes_of(options, ProductSpeed{});
    return notes.size() == 1 && notes[0].find("trained at a rate of up to ") != std::string::npos;
  };
  EXPECT_TRUE(warns(given));
  EXPECT_NE(notes_of(given, ProductSpeed{}).at(0).find("up to 0.001,"), std::string::npos);
  const auto with = [&](const auto& change) {
    TrainOptions options = given;
    change(options);
    return warns(options);
  };
  EXPECT_TRUE(with([](TrainOptions& o) { o.optimizer.lr = 2e-4; }));
  EXPECT_FALSE(with([](TrainOptions& o) { o.optimizer.lr = 1.9e-4; }));
  EXPECT_FALSE(with([](TrainOptions& o) { o.pretrain = true; }));
  EXPECT_FALSE(with([](TrainOptions& o) { o.init_ckpt = ""; }));
  EXPECT_FALSE(with([](TrainOptions& o) { o.lora.r = 8; }));
  EXPECT_FALSE(with([](TrainOptions& o) { o.freeze = "embed"; }));
  EXPECT_FALSE(with([](TrainOptions& o) { o.train = "norm"; }));
  // The schedule's own highest rate counts, and a warm-up ends in the middle of the run.
  const auto warms_up_to = [](double rate) {
    return [rate](TrainOptions& o) {
      o.optimizer.lr = rate < 1e-4 ? 1e-3 : 1e-5;
      o.scheduler = {.rule = &optim::kWarmupLr, .warmup_max_lr = rate, .warmup_num_steps = 50};
    };
  };
  EXPECT_TRUE(with(warms_up_to(1e-3)));
  EXPECT_FALSE(with(warms_up_to(5e-5)));
}

TEST(StepLineJson, HoldsMemoryFaultsAndPhases) {
  StepLine line;
  line.step = 2;
  line.step_time_s = 0.2;
  line.mem_peak = core::Bytes(4096);
  line.minor_faults = 17;
  line.phases.add(core::Phase::kOther, 1.25);
  const std::string text = json_of(line);
  EXPECT_NE(text.find("\"mem_peak_bytes\": 4096, \"minor_faults\": 17"), std::string::npos) << text;
  EXPECT_NE(text.find("\"other\": 1.250}"), std::string::npos) << text;
  EXPECT_EQ(text.find("nvme"), std::string::npos) << text;
  line.device_memory = core::Bytes(8192);
  EXPECT_NE(json_of(line).find("\"mem_peak_bytes\": 4096, \"device_mem_bytes\": 8192, "),
            std::string::npos);
}

TEST(StepLineJson, TellsWhatWentToTheDisk) {
  StepLine line;
  line.step_time_s = 0.5;
  line.moved = {core::Bytes(8192), core::Bytes(12288), 0.125};
  EXPECT_NE(json_of(line).find("\"nvme_read_bytes\": 8192, \"nvme_written_bytes\": 12288, "
                               "\"nvme_wait\": 0.125"),
            std::string::npos);
  const std::string phases = phases_of(line);
  EXPECT_TRUE(phases.ends_with("; NVMe: 8.2 kB read, 12.3 kB written, 25% waited")) << phases;
}

}  // namespace
}  // namespace fm::engine
