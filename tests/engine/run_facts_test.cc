// What a run says of itself, to the other ranks, to a checkpoint and to people.
#include "engine/state/run_facts.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text.h"
#include "engine/plan/run_model.h"
#include "engine/state/run_identity.h"
#include "kernels/gemm/gemm.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

using Json = nlohmann::json;

class RunFacts : public TrainerCase {
 protected:
  Json values(const TrainOptions& options, Uses use, const RunPlan* plan = nullptr) {
    const model::OpenedModel opened = open_run_model(options);
    return Json::parse(
        values_for(use, run_facts({.options = options, .opened = opened, .plan = plan})));
  }
};

TEST_F(RunFacts, ANameStandsForOneValue) {
  TrainOptions options = this->options("run", 1);
  options.scheduler.rule = &optim::kWarmupLr;
  for (const optim::OptimizerRow* rule : {&optim::kAdamW, &optim::kSgd}) {
    options.optimizer.rule = rule;
    const model::OpenedModel opened = open_run_model(options);
    std::set<std::string> names;
    for (const Fact& fact : run_facts({.options = options, .opened = opened})) {
      if (fact.uses == 0) continue;
      EXPECT_TRUE(names.insert(fact.name).second) << fact.name;
    }
  }
}

TEST_F(RunFacts, ProductsAreThoseOfWhatComputes) {
  TrainOptions options = this->options("run", 1);
  options.element = core::DType::kBF16;
  const auto precision = [&](DeviceKind kind) {
    options.device.kind = kind;
    const model::OpenedModel opened = open_run_model(options);
    for (const auto& [name, words] : lines_of(run_facts({.options = options, .opened = opened}))) {
      if (name == "precision") return words;
    }
    return std::string();
  };
  const std::string before = precision_text(options) + "; products: ";
  EXPECT_EQ(precision(DeviceKind::kCpu), before + kernels::gemm_library(options.element));
  EXPECT_EQ(precision(DeviceKind::kCuda), before + "cuBLASLt");
}

// The keys of state.json, which checkpoints of older builds have too.
TEST_F(RunFacts, WhatACheckpointKeepsHasTheNamesOfTheJson) {
  TrainOptions options = this->options("run", 1);
  options.optimizer.betas = {0.5, 0.75};
  options.no_decay.bias = true;
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, {2});
  EXPECT_EQ(values(options, kResumeSays, &plan), Json::parse(R"({"lr": 0.01, "weight_decay": 0.1,
      "gradient_clipping": 0.05, "train_batch_size": 4, "loss_reduction": "token",
      "no_decay": [false, true, false], "scheduler": "constant", "betas": [0.5, 0.75],
      "eps": 1e-8, "adam_w_mode": true, "bias_correction": true,
      "--document_attention": false})"));
  options.optimizer = {.rule = &optim::kSgd, .lr = 0.5, .momentum = 0.9};
  options.scheduler = {.rule = &optim::kWarmupDecayLr,
                       .warmup_num_steps = 3,
                       .total_num_steps = 9,
                       .warmup_type = WarmupType::kLinear};
  EXPECT_EQ(values(options, kResumeSays, &plan), Json::parse(R"({"lr": 0.5, "weight_decay": 0.0,
      "gradient_clipping": 0.05, "train_batch_size": 4, "loss_reduction": "token",
      "no_decay": [false, true, false], "scheduler": "WarmupDecayLR", "momentum": 0.9,
      "dampening": 0.0, "nesterov": false, "warmup_min_lr": 0.0, "warmup_max_lr": null,
      "warmup_num_steps": 3, "total_num_steps": 9, "warmup_type": "linear",
      "--document_attention": false})"));
  Json model = Json::parse(open_run_model(options).facts.identity);
  model["--add_tokens"] = Json::array();
  model["--eos_token"] = "";
  model["--train"] = "";
  model["--freeze"] = "";
  model["LoRA"] = nullptr;
  EXPECT_EQ(values(options, kResumeAgrees), model);
}

// Each of these would have ranks wait for each other, or train together what is not one run.
TEST_F(RunFacts, RanksAgreeOnEverythingThatDecidesTheirPrograms) {
  const TrainOptions first = options("run", 1);
  const Json expected = values(first, kRanksAgree);
  const auto changed = [&](auto&& change) {
    TrainOptions other = first;
    change(other);
    const Json now = values(other, kRanksAgree);
    std::set<std::string> names;
    for (const auto& [name, value] : now.items()) {
      if (!expected.contains(name) || expected[name] != value) names.insert(name);
    }
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(changed([](TrainOptions& o) { o.zero_stage = 3; }), Names{"zero_optimization.stage"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.recompute = true; }),
            Names{"activation_checkpointing"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.sum_order = core::SumOrder::kFast; }),
            Names{"communication_order"});
  EXPECT_EQ(changed([](TrainOptions& o) {
              o.batch = {8, 2, {}};
            }),
            (Names{"train_batch_size", "train_micro_batch_size_per_gpu"}));
  EXPECT_EQ(changed([](TrainOptions& o) { o.batch.accumulation = 4; }),
            Names{"gradient_accumulation_steps"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.element = core::DType::kBF16; }), Names{"precision"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.resume = checkpoint::Resume::kMust; }),
            Names{"--resume"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.optimizer.rule = &optim::kSgd; }),
            (Names{"optimizer", "momentum", "dampening", "nesterov"}));
  EXPECT_EQ(changed([](TrainOptions& o) { o.offload.optimizer = core::Tier::kNvme; }),
            Names{"offload_optimizer"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.offload.optimizer_buffers = 9; }),
            Names{"offload buffers"});
  EXPECT_EQ(changed([](TrainOptions& o) { o.offload.optimizer_paths = {"/elsewhere"}; }), Names{});
  EXPECT_EQ(changed([](TrainOptions& o) { o.output_dir = "/elsewhere"; }), Names{});
}

TEST_F(RunFacts, RanksThatDifferAreNamedWithBothValues) {
  const TrainOptions mine = options("run", 1);
  const model::OpenedModel opened = open_run_model(mine);
  expect_error(core::ExitCode::kConfigError,
               "(rank 2 beside rank 0: --train_steps is 7, not 1; data is \"b\", not \"a\")", [&] {
                 comm::run_ranks(3, [&](comm::Communicator& world) {
                   TrainOptions own = mine;
                   DataFacts data{.training = "a"};
                   if (world.rank() == 2) own.train_steps = 7, data.training = "b";
                   check_same_start(run_facts({.options = own, .opened = opened, .data = data}),
                                    world);
                 });
               });
}

TEST(Banner, FactsOfOneLineStandInItAndThoseWithoutWordsNowhere) {
  EXPECT_EQ(banner_lines({{"a", "1", kRanksAgree, "ZeRO", "stage 1"},
                          {"b", "2", kResumeSays},
                          {"c", "3", 0, "ZeRO", ""},
                          {"d", "4", 0, "ZeRO", "sums in fast order"},
                          {"e", "5", kResumeAgrees, "optimizer", "SGD"}}),
            "  ZeRO       stage 1, sums in fast order\n"
            "  optimizer  SGD\n");
}

TEST_F(RunFacts, TheBannerSaysWhereStateSleeps) {
  TrainOptions options = this->options("run", 1);
  const model::OpenedModel opened = open_run_model(options);
  const auto tiers = [&] {
    for (const auto& [name, words] : lines_of(run_facts({.options = options, .opened = opened}))) {
      if (name == "tiers") return words;
    }
    return std::string();
  };
  options.offload.optimizer = core::Tier::kHost;  // where it is already
  EXPECT_EQ(tiers(), "");
  options.device.kind = DeviceKind::kFake;
  EXPECT_EQ(tiers(), "optimizer in host memory");
  options.offload.optimizer = options.offload.params = core::Tier::kNvme;
  options.offload.optimizer_paths = {"/a", "/b"};
  options.offload.param_paths = {"/c"};
  EXPECT_EQ(tiers(), "optimizer on NVMe (/a, /b), parameters on NVMe (/c)");
}

TEST_F(RunFacts, TheBannerSaysHowTheRunIsLaidOut) {
  TrainOptions options = this->options("run", 1);
  options.zero_stage = 3;
  options.recompute = true;
  options.pipe_parallel_size = 2;
  const model::OpenedModel opened = open_run_model(options);
  const RunPlan plan = make_run_plan(options, opened.model, {4, core::ParamSharing::kOneHost});
  const std::string said = banner_lines(run_facts({.options = options,
                                                   .opened = opened,
                                                   .plan = &plan,
                                                   .launch_decision = "by hand",
                                                   .data = {.description = "three rows"}}));
  EXPECT_TRUE(said.ends_with(
      "  weights    random, seed 3407\n"
      "  data       three rows\n"
      "  ranks      4 = pipe 2 x data 2 x model 1; by hand\n"
      "  ZeRO       stage 3, sums in canonical order, recomputation on, parameters once per host\n"
      "  batch      4 samples = 1 per micro-batch x 2 accumulation x 2 data ranks; "
      "64 tokens per step\n"
      "  optimizer  AdamW (decoupled decay), lr 0.01, betas 0.9 0.999, eps 1e-08, "
      "weight decay 0.1, constant lr, clipping 0.05\n"))
      << said;
  EXPECT_TRUE(
      said.starts_with("  model      Llama, 558.5 k parameters, all trained: hidden 96, layers 5"))
      << said;
}

// Hidden 96, 5 layers, vocabulary 777, tied: 11 norms of 96, a matrix of 777 x 96.
TEST_F(RunFacts, TheOptimizersTextCountsWhatDecaysAndWhatDoesNot) {
  TrainOptions options = this->options("run", 1);
  const auto text = [&] { return optimizer_text(options, open_run_model(options)); };
  EXPECT_EQ(text().find("decay of"), std::string::npos);
  const auto all = static_cast<std::int64_t>(parameters_of(open_run_model(options)));
  const auto ends = [&](const char* kinds, std::int64_t rest) {
    return core::concat(", no decay of ", kinds, ": ", core::grouped(std::to_string(all - rest)),
                        " parameters decay, ", core::grouped(std::to_string(rest)), " do not");
  };
  options.no_decay = {.norm = true, .bias = true};
  EXPECT_TRUE(text().ends_with(ends("norms, biases", 11 * 96))) << text();
  options.no_decay = {.norm = true, .embedding = true};
  EXPECT_TRUE(text().ends_with(ends("norms, embedding and head", 11 * 96 + 777 * 96))) << text();
}

// Older builds let norms and biases decay where the JSON had no optimizer.
TEST_F(RunFacts, AResumeSaysThatOtherParametersDecay) {
  TrainOptions options = this->options("run", 1);
  const model::OpenedModel opened = open_run_model(options);
  const auto identity = [&] {
    return identity_of(options, "data", {}, run_facts({.options = options, .opened = opened}));
  };
  const RunIdentity saved = identity();
  options.no_decay = {.norm = true, .bias = true};
  EXPECT_EQ(compare_runs(saved, identity()),
            std::vector<std::string>{
                "the run goes on with other numbers than it was saved with: no_decay: "
                "[false,false,false] in the checkpoint, [true,true,false] now"});
}

}  // namespace
}  // namespace fm::engine
