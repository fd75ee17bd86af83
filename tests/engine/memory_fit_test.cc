// A plan beside the memory that there is.
#include "engine/plan/memory_fit.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "engine/plan/device_cards.h"
#include "engine/shown/plan.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

using core::Bytes;

class MemoryFit : public TrainerCase {
 protected:
  TrainOptions small() const {
    TrainOptions options = small_options(folder().string(), false);
    options.output_dir = (folder() / "output").string();
    options.train_steps = 1;
    options.batch = {std::nullopt, 4, 1};
    return options;
  }
  static RunPlan plan_of(const TrainOptions& options, const WorldShape& world) {
    static std::deque<model::OpenedModel> opened;  // plans point into their models
    const model::OpenedModel whole = open_run_model(options);
    return make_run_plan(options, opened.emplace_back(part_of(whole, options, 0)).model, world);
  }
  static RunPlan plan_of(const TrainOptions& options, int ranks) {
    return plan_of(options, one_host(ranks));
  }
  static WorldShape one_host(int ranks) { return {ranks, core::ParamSharing::kOneHost}; }
  // Of all ranks together.
  static Bytes need_of(const TrainOptions& options, int ranks) {
    const RunPlan plan = plan_of(options, ranks);
    Bytes need;
    for (int rank = 0; rank < ranks; ++rank) {
      need += plan.memory(plan.mesh.position_of(rank).pipe_rank).total();
    }
    return need;
  }
  static std::vector<machine::MemoryLimit> limit(Bytes available) {
    return {{"host", "RAM", available}};
  }
  static RunContext beside(Bytes available) {
    RunContext context;
    context.memory = limit(available);
    return context;
  }
  // Ways for `ranks` on one host.
  static std::vector<std::string> ways(const TrainOptions& options, int ranks, Bytes available) {
    return ways_to_fit(options, open_run_model(options), one_host(ranks),
                       limits_of_hosts(limit(available), ranks, ranks));
  }
  static std::string with(const std::string& name, Bytes need) {
    return name + " (" + core::human(need) + ")";
  }
  static bool holds(const std::vector<std::string>& ways, const std::string& way) {
    return std::ranges::count(ways, way) == 1;
  }
};

TEST_F(MemoryFit, RanksOfOneHostAreAddedUpAndTheLastByteCounts) {
  const TrainOptions options = small();
  const Bytes need = need_of(options, 2);
  EXPECT_EQ(run(options, 2, beside(need)), 0);
  std::filesystem::remove_all(options.output_dir);
  expect_error(core::ExitCode::kOutOfMemory,
               core::concat("(2 ranks of a host need ", core::human(need), ", up to ",
                            core::human(need / 2), " each; "),
               [&] { run(options, 2, beside(need - Bytes(1))); });
  EXPECT_FALSE(std::filesystem::exists(options.output_dir + "/metrics.jsonl"));
}

// Sizes that only a wrong config.json has: nothing of them is computed or allocated before.
TEST_F(MemoryFit, AbsurdSizesAreRefusedBeforeAnythingIsMade) {
  TrainOptions options = small();
  options.model_config = (folder() / "absurd.json").string();
  options.max_seq_len = 32;
  constexpr const char* kRope = R"("rope_parameters": {"rope_type": "yarn", "factor": 2.0,
      "original_max_position_embeddings": 64}, "head_dim": 1000000000)";
  for (const std::string size : {"\"head_dim\": 100000000", "\"head_dim\": 1000000000", kRope,
                                 "\"vocab_size\": 2000000000", "\"intermediate_size\": 1000000000",
                                 "\"num_hidden_layers\": 1000, \"head_dim\": 10000000"}) {
    std::ofstream(options.model_config)
        << R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
               "num_key_value_heads": 2, "max_position_embeddings": 128)"
        << (size.find("vocab") == size.npos ? R"(, "vocab_size": 777)" : "")
        << (size.find("inter") == size.npos ? R"(, "intermediate_size": 128)" : "")
        << (size.find("layers") == size.npos ? R"(, "num_hidden_layers": 2)" : "") << ", " << size
        << "}";
    SCOPED_TRACE(size);
    expect_error(core::ExitCode::kOutOfMemory, "memory must hold what the plan allocates",
                 [&] { run(options, 1, beside(Bytes(20'000'000'000))); });
  }
}

TEST_F(MemoryFit, WithoutALimitNothingIsRefused) {
  EXPECT_EQ(run(small(), 2), 0);
  EXPECT_FALSE(tightest_demand(plan_of(small(), 2), RankLimits(2)));
}

// The copy of the state goes first, and steps wait for saves: it is there where a fifth of the
// memory is left beside it.
TEST_F(MemoryFit, SavesWithoutACopyWhereThereIsNoRoomForIt) {
  TrainOptions options = small();
  options.train_steps = 3;
  options.save_steps = 1;
  const Bytes with_copy = need_of(options, 2);
  options.save_async = false;
  const Bytes bare = need_of(options, 2);
  ASSERT_GT(with_copy, bare);
  options.save_async = true;
  const std::string note = "steps wait while a checkpoint is written: memory has no room";
  const Bytes roomy(with_copy.count() / 4 * 5 + 10);
  for (const Bytes available : {roomy, with_copy, bare}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(options, 2, beside(available)), 0);
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_EQ(said.find(note) == std::string::npos, available == roomy) << said;
    EXPECT_TRUE(std::filesystem::exists(options.output_dir + "/global_step2"));
    std::filesystem::remove_all(options.output_dir);
  }
  expect_error(core::ExitCode::kOutOfMemory, "memory must hold what the plan allocates",
               [&] { run(options, 2, beside(bare - Bytes(1))); });
  options.dry_run = true;
  EXPECT_EQ(need_of(options, 2), bare);
}

TEST_F(MemoryFit, HostsAndGroupsAreEachLookedAt) {
  TrainOptions options = small();
  options.pipe_parallel_size = 2;
  const RunPlan plan = plan_of(options, 4);  // ranks 0 and 1: pipe rank 0
  const Bytes first = plan.memory(0).total();
  const Bytes last = plan.memory(1).total();
  ASSERT_NE(first, last);
  const machine::MemoryLimit wide{"a", "host a", Bytes(1'000'000'000)};
  const machine::MemoryLimit narrow{"b", "host b", Bytes(900'000'000)};
  const auto of_hosts = tightest_demand(plan, {{wide}, {narrow}, {wide}, {narrow}});
  ASSERT_TRUE(of_hosts);
  EXPECT_EQ(of_hosts->limit.name, "host b");
  EXPECT_EQ(of_hosts->first_rank, 1);
  EXPECT_EQ(of_hosts->ranks, 2);
  EXPECT_EQ(of_hosts->total, first + last);
  EXPECT_EQ(of_hosts->largest, std::max(first, last));
  // A group of rank 3 alone, and ranks that read different numbers of the same host.
  const machine::MemoryLimit group{"g", "group", last - Bytes(1)};
  const machine::MemoryLimit later{"a", "host a", Bytes(999'000'000)};
  const auto of_group = tightest_demand(plan, {{wide}, {later}, {wide}, {wide, group}});
  ASSERT_TRUE(of_group);
  EXPECT_EQ(of_group->limit.name, "group");
  EXPECT_EQ(of_group->total, last);
  EXPECT_FALSE(of_group->fits());
  const auto of_host = tightest_demand(plan, {{wide}, {later}, {wide}, {wide}});
  EXPECT_EQ(of_host->limit.available, Bytes(999'000'000));
  EXPECT_EQ(of_host->total, (first + last) * 2);
  EXPECT_TRUE(of_host->fits());
}

TEST_F(MemoryFit, EveryChangeThatWouldFitIsNamed) {
  const TrainOptions options = small();
  EXPECT_TRUE(ways(options, 4, need_of(options, 4)).empty());
  TrainOptions zero1 = options;
  zero1.zero_stage = 1;
  const Bytes with_zero1 = need_of(zero1, 4);
  EXPECT_TRUE(holds(ways(options, 4, with_zero1), with("ZeRO stage 1", with_zero1)));
  const std::vector<std::string> less = ways(options, 4, with_zero1 - Bytes(1));
  EXPECT_FALSE(holds(less, with("ZeRO stage 1", with_zero1)));

  TrainOptions recomputing = options;
  recomputing.recompute = true;
  const Bytes recomputed = need_of(recomputing, 4);
  EXPECT_TRUE(holds(ways(options, 4, recomputed),
                    with("recomputation (\"activation_checkpointing\": {})", recomputed)));
  TrainOptions halved = options;
  halved.batch = {std::nullopt, 2, 2};
  const Bytes of_halves = need_of(halved, 4);
  EXPECT_TRUE(holds(
      ways(options, 4, of_halves),
      with("train_micro_batch_size_per_gpu 2 with gradient_accumulation_steps 2", of_halves)));
  TrainOptions wide = options;  // without stages of ZeRO the masters would cost more than is saved
  wide.zero_stage = 3;
  TrainOptions narrow = wide;
  narrow.element = core::DType::kBF16;
  const Bytes of_bf16 = need_of(narrow, 4);
  ASSERT_LT(of_bf16, need_of(wide, 4));
  EXPECT_TRUE(holds(ways(wide, 4, of_bf16), with("\"bf16\": {\"enabled\": true}", of_bf16)));
}

// Four data ranks become two that share rows, or tensors, in twos.
TEST_F(MemoryFit, RanksThatShareTokensOrTensorsAreAWay) {
  const TrainOptions options = small();
  for (const auto& [name, size] :
       {std::pair{"--sequence_parallel_size", &TrainOptions::sequence_parallel_size},
        {"--model_parallel_size", &TrainOptions::model_parallel_size}}) {
    TrainOptions shared = options;
    shared.*size = 2;
    shared.batch = {std::nullopt, 4, 2};
    const Bytes need = need_of(shared, 4);
    ASSERT_LT(need, need_of(options, 4));
    const std::string way = with(core::concat(name, " 2 with gradient_accumulation_steps 2"), need);
    EXPECT_TRUE(holds(ways(options, 4, need), way)) << way;
    EXPECT_FALSE(holds(ways(options, 4, need - Bytes(1)), way)) << way;
    EXPECT_FALSE(holds(ways(options, 1, need_of(shared, 2)), way)) << "no ranks are there";
  }
}

TEST_F(MemoryFit, WhatOneChangeDoesNotReachAllTogetherMay) {
  TrainOptions options = small();
  options.overlap = false;  // its slots are more than the slices of so small a model
  TrainOptions all = options;
  all.recompute = true;
  all.zero_stage = 3;
  all.batch = {std::nullopt, 1, 4};
  const Bytes least = need_of(all, 4);
  const std::string name =
      "recomputation (\"activation_checkpointing\": {}), ZeRO stage 3, "
      "train_micro_batch_size_per_gpu 1 together";
  const std::vector<std::string> together = ways(options, 4, least);
  ASSERT_FALSE(together.empty());
  EXPECT_EQ(together.at(0), with(name, least));
  // The optimizer's state is cut over all ranks, so that more of them need less each.
  const std::vector<std::string> hosts = ways(options, 4, least - Bytes(1));
  ASSERT_EQ(hosts.size(), 1U);
  EXPECT_TRUE(hosts[0].starts_with("2 hosts like this one, 8 ranks, with recomputation"))
      << hosts[0];
  EXPECT_TRUE(ways(options, 4, Bytes(1000)).empty());
  expect_error(core::ExitCode::kOutOfMemory, "choose a smaller model or shorter sequences",
               [&] { run(options, 2, beside(Bytes(1000))); });
}

TEST_F(MemoryFit, MoreHostsAreAWayWhereStateIsCutOverRanks) {
  TrainOptions options = small();
  options.overlap = false;
  options.zero_stage = 3;
  TrainOptions eight = options;
  const RunPlan plan = plan_of(eight, {8, core::ParamSharing::kPrivate});
  const Bytes four_of_eight = plan.memory(0).total() * 4;
  ASSERT_LT(four_of_eight, need_of(options, 4));
  EXPECT_TRUE(holds(
      ways(options, 4, four_of_eight),
      core::concat("2 hosts like this one, 8 ranks (", core::human(four_of_eight), " on each)")));
}

TEST_F(MemoryFit, AStepWithoutEndIsRefusedBeforeItsProgramIsMade) {
  TrainOptions options = small();
  options.batch = {std::nullopt, 1, 1'000'000'000};  // of 7 units
  expect_error(core::ExitCode::kConfigError,
               "lower gradient_accumulation_steps (1000000000 micro-batches of 7 units)",
               [&] { plan_of(options, 1); });
}

TEST_F(MemoryFit, APlanSaysWhetherItFits) {
  TrainOptions options = small();
  options.ranks_per_host = 2;
  const auto text = [&](Bytes available) {
    return plan_text(options, open_run_model(options), {4, core::ParamSharing::kPrivate},
                     {.memory = limit(available)});
  };
  const RunPlan plan = plan_of(options, {4, core::ParamSharing::kPrivate});
  const Bytes need = plan.memory(0).total() * 2;
  EXPECT_NE(text(need).find(
                core::concat("memory fits this host: 2 ranks of a host need ", core::human(need))),
            std::string::npos);
  EXPECT_NE(text(need - Bytes(1)).find("memory does not fit this host: 2 ranks"),
            std::string::npos);
  EXPECT_NE(text(need - Bytes(1)).find("any of these would fit: recomputation"), std::string::npos);
  const auto json = nlohmann::json::parse(plan_json(options, open_run_model(options),
                                                    {4, core::ParamSharing::kPrivate},
                                                    {.memory = limit(need - Bytes(1))}));
  EXPECT_EQ(json["host_memory"]["fits"], false);
  EXPECT_EQ(json["host_memory"]["needs_bytes"], need.count());
  EXPECT_EQ(json["host_memory"]["available_bytes"], need.count() - 1);
  EXPECT_FALSE(nlohmann::json::parse(
                   plan_json(options, open_run_model(options), {4, core::ParamSharing::kPrivate}))
                   .contains("host_memory"));
}

// Each rank has a GPU: memory is not added up over a host, and time follows from the card.
TEST_F(MemoryFit, APlanForGpusCountsEachRanksMemoryAndTheCardsRate) {
  TrainOptions options = small();
  options.device.kind = DeviceKind::kCuda;
  options.element = core::DType::kBF16;
  options.train_steps = 1000;
  const WorldShape world{4, core::ParamSharing::kPrivate};
  const Bytes need = plan_of(options, world).memory(0).total();
  const auto card_of = [](Bytes memory) {
    std::vector<machine::MemoryLimit> out = limit(memory);
    out.front().holds = machine::MemoryLimit::Holds::kDevice;
    return out;
  };
  const auto text = [&](Bytes memory) {
    return plan_text(options, open_run_model(options), world,
                     {.memory = card_of(memory), .card = "NVIDIA H100 80GB HBM3"});
  };
  EXPECT_NE(text(need).find("memory fits the GPU: 1 rank needs"), std::string::npos) << text(need);
  EXPECT_NE(text(need - Bytes(1)).find("memory does not fit the GPU: 1 rank needs"),
            std::string::npos);
  EXPECT_NE(text(need).find("4 x H100 of 792 TFLOP/s, of which 70 % are expected: MFU 56 %, of "
                            "arithmetic alone; what ranks send, what moves through host memory, "
                            "and updates come on top)"),
            std::string::npos);
  const auto json = nlohmann::json::parse(
      plan_json(options, open_run_model(options), world, {.card = "NVIDIA H100 80GB HBM3"}));
  EXPECT_EQ(json["time"]["cards"], 4);
  const double step = plan_of(options, world).flops_per_step() / (4 * 0.7 * 792e12);
  EXPECT_NEAR(json["time"]["seconds_per_step"].get<double>(), step, 1e-6 * step);
  EXPECT_FALSE(nlohmann::json::parse(
                   plan_json(options, open_run_model(options), world, {.card = "unheard of"}))
                   .contains("time"));
}

// What leaves the devices must fit the host.
TEST_F(MemoryFit, StateInTheHostsMemoryIsAWayBesideDevices) {
  using Holds = machine::MemoryLimit::Holds;
  TrainOptions options = small();
  options.device.kind = DeviceKind::kCuda;
  options.zero_stage = 3;
  const WorldShape world{2, core::ParamSharing::kPrivate};
  const auto ways = [&](const TrainOptions& of, Bytes card, Bytes host) {
    return ways_to_fit(
        of, open_run_model(of), world,
        limits_of_hosts(
            {{"card", "a card", card, Holds::kDevice}, {"host", "RAM", host, Holds::kHost}}, 2, 2));
  };
  const Bytes roomy(1'000'000'000'000);
  TrainOptions without_optimizer = options;
  without_optimizer.offload.optimizer = core::Tier::kHost;
  TrainOptions without_both = without_optimizer;
  without_both.offload.params = core::Tier::kHost;
  const auto need = [&](const TrainOptions& of) { return plan_of(of, world).memory(0); };
  const Bytes one = need(without_optimizer).total();
  const Bytes both = need(without_both).total();
  ASSERT_LT(one, need(options).total());
  ASSERT_LT(both, one);
  const std::string first = with("--offload_optimizer cpu", one);
  const std::string second = with("--offload_optimizer cpu --offload_param cpu", both);
  EXPECT_TRUE(holds(ways(options, one, roomy), first));
  EXPECT_FALSE(holds(ways(options, one, roomy), second)) << "less is enough";
  EXPECT_FALSE(holds(ways(options, one - Bytes(1), roomy), first));
  EXPECT_TRUE(holds(ways(options, both, roomy), second));
  EXPECT_TRUE(holds(ways(without_optimizer, both, roomy), with("--offload_param cpu", both)));
  const Bytes host = need(without_optimizer).host * 2;
  const auto offered = [&](Bytes of_host) {
    const std::vector<std::string> said = ways(options, one, of_host);
    return std::ranges::any_of(
        said, [](const std::string& way) { return way.starts_with("--offload_optimizer cpu ("); });
  };
  EXPECT_TRUE(offered(host));
  EXPECT_FALSE(offered(host - Bytes(1)));
  options.zero_stage = 2;
  for (const std::string& way : ways(options, both, roomy)) {
    EXPECT_FALSE(way.starts_with("--offload_optimizer cpu --offload_param")) << way;
  }
}

TEST_F(MemoryFit, MoreGpusAreAWayWhereStateIsCutOverRanks) {
  TrainOptions options = small();
  options.overlap = false;
  options.device.kind = DeviceKind::kCuda;
  options.zero_stage = 3;
  const Bytes of_eight = plan_of(options, {8, core::ParamSharing::kPrivate}).memory(0).total();
  const WorldShape world{4, core::ParamSharing::kPrivate};
  ASSERT_LT(of_eight, plan_of(options, world).memory(0).total());
  const auto limits =
      limits_of_hosts({{"card", "a card", of_eight, machine::MemoryLimit::Holds::kDevice}}, 4, 4);
  EXPECT_TRUE(holds(
      ways_to_fit(options, open_run_model(options), world, limits),
      core::concat("8 GPUs like this one, a rank on each (", core::human(of_eight), " on each)")));
}

// Peaks and memory of NVIDIA's data sheets.
TEST(DeviceCards, AreFoundByTheWordsOfTheirDriversNames) {
  struct Known {
    const char* driver;
    const char* row;
    double peak;  // TFLOP/s
    int gigabytes;
  };
  for (const auto& [driver, row, peak, gigabytes] :
       {Known{"NVIDIA H100 80GB HBM3", "H100", 989, 80},
        Known{"NVIDIA H100 PCIe", "H100 PCIe", 756, 80},
        Known{"NVIDIA H100 NVL", "H100 NVL", 835, 94}, Known{"NVIDIA H200", "H200", 989, 141},
        Known{"NVIDIA GH200 480GB", "GH200", 989, 96},
        Known{"NVIDIA GH200 144G HBM3e", "GH200 144GB", 989, 144},
        Known{"NVIDIA A100-SXM4-40GB", "A100", 312, 40},
        Known{"NVIDIA A100-PCIE-80GB", "A100", 312, 80}, Known{"NVIDIA A30", "A30", 165, 24},
        Known{"NVIDIA L40S", "L40S", 362, 48}, Known{"NVIDIA L4", "L4", 121, 24},
        Known{"NVIDIA A10", "A10", 125, 24}, Known{"NVIDIA A10G", "A10G", 70, 24},
        Known{"NVIDIA RTX A6000", "RTX A6000", 155, 48},
        Known{"NVIDIA GeForce RTX 4090", "RTX 4090", 165, 24},
        Known{"NVIDIA B200", "B200", 2250, 180}, Known{"NVIDIA GB200", "GB200", 2500, 186},
        Known{"h100", "H100", 989, 80}, Known{"a100 40gb", "A100", 312, 40}}) {
    const auto rates = card_rates(driver);
    ASSERT_TRUE(rates) << driver;
    EXPECT_EQ(rates->name, row) << driver;
    EXPECT_DOUBLE_EQ(rates->bf16_peak, peak * 1e12) << driver;
    EXPECT_EQ(rates->memory.count(), gigabytes * std::int64_t{1'000'000'000}) << driver;
  }
}

TEST(DeviceCards, AreUnknownWhereAWordOnlyBeginsLikeThem) {
  for (const char* const driver : {"NVIDIA RTX A4000", "NVIDIA L40", "NVIDIA A100X", "NVIDIA A16",
                                   "NVIDIA GeForce GTX 1080", ""}) {
    EXPECT_FALSE(card_rates(driver)) << driver;
  }
}

// 7 samples on 4 data ranks take the time of 8, and compute 7.
TEST_F(MemoryFit, APlanShowsHowMicroBatchesAreDealt) {
  TrainOptions options = small();
  options.batch = {7, 1, std::nullopt};
  options.ranks_per_host = 2;
  options.train_steps = 1000;
  const WorldShape world{4, core::ParamSharing::kPrivate};
  EXPECT_NE(plan_text(options, open_run_model(options), world)
                .find("\nbatch 7 samples = 1 per micro-batch x 2, 2, 2, 1 on 4 data ranks; "),
            std::string::npos);
  const auto shown = [&](std::int64_t train_batch) {
    options.batch.train_batch = train_batch;
    return nlohmann::json::parse(plan_json(options, open_run_model(options), world, {.cores = 32}));
  };
  const auto seven = shown(7);
  const auto eight = shown(8);
  EXPECT_EQ(seven["batch"]["micro_batches_by_data_rank"], (std::vector<int>{2, 2, 2, 1}));
  EXPECT_FALSE(eight["batch"].contains("micro_batches_by_data_rank"));
  EXPECT_DOUBLE_EQ(seven["flops_per_step"].get<double>(),
                   eight["flops_per_step"].get<double>() * 7 / 8);
  const double rate = seven["time"]["core_gflops"];
  const double step = eight["flops_per_step"].get<double>() / (64 * 0.75 * rate * 1e9);
  EXPECT_NEAR(seven["time"]["seconds_per_step"].get<double>(), step, 1e-6 * step);
}

// The samples of a step stay: smaller micro-batches are dealt, too.
TEST_F(MemoryFit, SmallerMicroBatchesOfAnUnevenStepAreDealtUnevenly) {
  TrainOptions options = small();
  options.batch = {20, 4, std::nullopt};  // 5 micro-batches on 2 data ranks
  options.recompute = true;
  options.zero_stage = 3;
  const Bytes need = need_of(options, 2);
  const std::vector<std::string> said = ways(options, 2, need - Bytes(1));
  EXPECT_TRUE(std::ranges::any_of(said, [](const std::string& way) {
    return way.starts_with("train_micro_batch_size_per_gpu 2 (");
  })) << core::join(said, "; ");
}

// Each device bounds its rank, and the host's memory beside them both ranks together.
TEST_F(MemoryFit, DevicesAndTheHostBesideThemBoundTheirOwn) {
  using Holds = machine::MemoryLimit::Holds;
  TrainOptions options = small();
  options.device.kind = DeviceKind::kFake;
  options.zero_stage = 2;
  options.offload.optimizer = core::Tier::kHost;
  const RunPlan plan = plan_of(options, WorldShape{2, core::ParamSharing::kPrivate});
  const Bytes card = plan.memory(0).total();
  const Bytes host = plan.memory(0).host * 2;
  EXPECT_GT(host.count(), 0);
  const auto tightest = [&](Bytes of_card, Bytes of_host) {
    return tightest_demand(plan, limits_of_hosts({{"card", "a card", of_card, Holds::kDevice},
                                                  {"host", "RAM", of_host, Holds::kHost}},
                                                 2, 2))
        .value();
  };
  EXPECT_TRUE(tightest(card, host).fits());
  EXPECT_FALSE(tightest(card, host - Bytes(1)).fits());
  EXPECT_EQ(tightest(card, host - Bytes(1)).ranks, 2);
  EXPECT_FALSE(tightest(card - Bytes(1), host).fits());
  EXPECT_EQ(tightest(card - Bytes(1), host).ranks, 1);
  // Where nothing lies beside the devices, the host bounds nothing.
  options.offload.optimizer = core::Tier::kDevice;
  const RunPlan without = plan_of(options, WorldShape{2, core::ParamSharing::kPrivate});
  const auto nothing = limits_of_hosts({{"host", "RAM", Bytes(0), Holds::kHost}}, 2, 2);
  EXPECT_FALSE(tightest_demand(without, nothing).has_value());
}

// Two hosts of 32 cores: flops / (64 cores x what one reaches x 3/4).
TEST_F(MemoryFit, APlanSaysHowLongARunTakes) {
  TrainOptions options = small();
  options.ranks_per_host = 2;
  options.train_steps = 1000;
  const WorldShape world{4, core::ParamSharing::kPrivate};
  const auto json =
      nlohmann::json::parse(plan_json(options, open_run_model(options), world, {.cores = 32}));
  const double rate = json["time"]["core_gflops"];
  EXPECT_GT(rate, 0.1);
  EXPECT_EQ(json["time"]["cores"], 64);
  const double step = plan_of(options, world).flops_per_step() / (64 * 0.75 * rate * 1e9);
  EXPECT_NEAR(json["time"]["seconds_per_step"].get<double>(), step, 1e-6 * step);
  EXPECT_NEAR(json["time"]["seconds"].get<double>(), 1000 * step, 1e-3 * step);
  EXPECT_NE(plan_text(options, open_run_model(options), world, {.cores = 32}).find("\ntime about "),
            std::string::npos);
  EXPECT_EQ(plan_text(options, open_run_model(options), world).find("\ntime "), std::string::npos);
}

}  // namespace
}  // namespace fm::engine
