// The whole engine on CUDA's kernels, in emulation: to the tolerance of products this CPU's
// losses, and bit for bit its own in every layout.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "model/units/lora.h"
#include "tests/comm/nccl/nccl_rank.h"
#include "tests/emulated/emulated_device.h"
#include "tests/engine/decoded_numbers.h"
#include "tests/engine/document_rows.h"
#include "tests/engine/trainer_case.h"
#include "tests/model/family_jsons.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;

TrainOptions options_of(const std::string& name, core::DType element) {
  TrainOptions options = small_options(testing::TempDir() + "/fm_emulated_" + name, true);
  options.sum_order = core::SumOrder::kCanonical;
  options.element = element;
  if (element == core::DType::kF16) options.loss_scale = {.first = 4096.0};
  options.shared_memory = false;
  return options;
}

RunTrace on_cpu(const TrainOptions& options, int dp_size,
                const data::SampleSource* rows = nullptr) {
  return run_small(options, dp_size, kSteps, rows);
}

RunTrace on_emulated(TrainOptions options, int dp_size, const data::SampleSource* rows = nullptr) {
  options.device.kind = DeviceKind::kCuda;
  return run_small_on(
      [](int rank) { return emulated::make_device(static_cast<std::uint64_t>(rank) + 7); }, options,
      dp_size, kSteps, rows);
}

void expect_near(const RunTrace& expected, const RunTrace& got, double tolerance) {
  ASSERT_EQ(expected.losses.size(), got.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance * std::abs(expected.losses[i]))
        << "step " << i + 1;
  }
  EXPECT_NE(got.losses.front(), got.losses.back());
}

TEST(EmulatedEngine, HasTheLossesOfThisCpu) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16, core::DType::kF16}) {
    SCOPED_TRACE(core::name_of(element));
    const TrainOptions options = options_of("losses", element);
    const double tolerance = element == core::DType::kF32 ? 1e-5 : 5e-3;
    expect_near(on_cpu(options, 1), on_emulated(options, 1), tolerance);
  }
}

TEST(EmulatedEngine, EveryLayoutHasTheSameBits) {
  const TrainOptions options = options_of("layouts", core::DType::kBF16);
  const RunTrace expected = on_emulated(options, 1);
  EXPECT_EQ(first_difference(expected, on_emulated(options, 1)), "") << "a second run";
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    TrainOptions sharded = options;
    sharded.zero_stage = zero_stage;
    sharded.pipe_parallel_size = zero_stage % 2 == 1 ? 2 : 1;
    sharded.recompute = zero_stage == 3;
    EXPECT_EQ(first_difference(expected, on_emulated(sharded, 2)), "");
  }
}

// Queries, keys and values are one product, and so are gate and up, in each of the three passes.
TEST(EmulatedEngine, NeighboursMultiplyAsOne) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_emulated_joined", true,
                   {.layers = 3, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 48});
  options.element = core::DType::kBF16;
  options.shared_memory = false;
  const long before = emulated::products_done();
  const RunTrace got = on_emulated(options, 1);
  // 8 micro-batches of a row in each step; a block has four products, the head one.
  EXPECT_EQ(emulated::products_done() - before, kSteps * 8 * 3 * (3 * 4 + 1));
  expect_near(on_cpu(options, 1), got, 5e-3);
  options.recompute = true;
  options.zero_stage = 3;
  options.pipe_parallel_size = 2;
  EXPECT_EQ(first_difference(got, on_emulated(options, 2)), "");
}

// Of 777 columns, by one rank and by two that have 389 and 388 of them.
TEST(EmulatedEngine, RowsOfLogitsBeginWhereProductsAreFast) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_emulated_strides", true,
                   {.layers = 1, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 48});
  options.shared_memory = false;
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    options.element = element;
    for (const int tensor_ranks : {1, 2}) {
      options.model_parallel_size = tensor_ranks;
      const long all = emulated::products_done();
      const long slow = emulated::slow_products_done();
      const RunTrace got = on_emulated(options, 1);
      EXPECT_GT(emulated::products_done(), all);
      EXPECT_EQ(emulated::slow_products_done(), slow) << tensor_ranks;
      expect_near(on_cpu(options, 1), got, element == core::DType::kF32 ? 1e-5 : 5e-3);
    }
  }
}

// The library is asked for a batch forward, and for a group of heads of a row backward.
TEST(EmulatedEngine, AttentionByALibraryHasTheSameBitsInEveryLayout) {
  TrainOptions options =
      thin_options(testing::TempDir() + "/fm_emulated_library", true,
                   {.layers = 3, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 48});
  options.element = core::DType::kBF16;
  options.shared_memory = false;
  const auto by_library = [](TrainOptions each, int dp_size) {
    each.device.kind = DeviceKind::kCuda;
    return run_small_on(
        [](int rank) {
          return emulated::make_device(static_cast<std::uint64_t>(rank) + 7,
                                       emulated::Attention::kLibrary);
        },
        each, dp_size, kSteps);
  };
  const int before = emulated::attention_pieces_done();
  const RunTrace expected = by_library(options, 1);
  // Of 3 layers and 8 micro-batches of a row in each step: one forward, two backward.
  EXPECT_EQ(emulated::attention_pieces_done() - before, kSteps * 8 * 3 * (1 + 2));
  expect_near(on_cpu(options, 1), expected, 5e-3);
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    TrainOptions sharded = options;
    sharded.zero_stage = zero_stage;
    sharded.pipe_parallel_size = zero_stage % 2 == 1 ? 2 : 1;
    sharded.recompute = zero_stage == 3;
    EXPECT_EQ(first_difference(expected, by_library(sharded, 2)), "");
  }
}

// Its updates are this CPU's, which have the bits of the card's.
TEST(EmulatedEngine, OptimizerStateInTheHostsMemoryChangesNoBit) {
  for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
    const TrainOptions options = options_of("host_tier", element);
    const RunTrace expected = on_emulated(options, 1);
    for (const int zero_stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << core::name_of(element) << " " << zero_stage);
      TrainOptions beside = options;
      beside.zero_stage = zero_stage;
      beside.pipe_parallel_size = zero_stage % 2 == 1 ? 2 : 1;
      beside.offload.optimizer = core::Tier::kHost;
      beside.offload.ratio = zero_stage == 2 ? 0.5 : 1.0;
      EXPECT_EQ(first_difference(expected, on_emulated(beside, 2)), "");
    }
  }
}

void expect_as_cpu(const TrainOptions& options, int dp_size, double tolerance) {
  expect_near(on_cpu(options, dp_size), on_emulated(options, dp_size), tolerance);
}

// NCCL between the cards, by a library that stands for it.
RunTrace by_nccl(TrainOptions options, int dp_size) {
  options.device.kind = DeviceKind::kCuda;
  const auto link = [](int rank, core::Device& device) -> TensorLink {
    const auto seed = std::make_shared<std::uint64_t>(1000 * static_cast<std::uint64_t>(rank));
    const auto library = comm::open_nccl(comm::fake_nccl().find);
    return [&device, seed, library](std::unique_ptr<comm::Communicator> host, core::Ledger& ledger,
                                    const comm::NcclUse& use) {
      const comm::NcclPlace place{
          .library = library, .device = device, .ledger = ledger, .make_queue = [&device, seed] {
            return emulated::make_queue(device, ++*seed);
          }};
      return comm::nccl(std::move(host), place, use);
    };
  };
  return run_small_on(
      [](int rank) { return emulated::make_device(static_cast<std::uint64_t>(rank) + 7); }, options,
      dp_size, kSteps, nullptr, link);
}

TEST(EmulatedEngine, ByNcclTheCanonicalOrderHasTheSameBits) {
  const TrainOptions options = options_of("nccl", core::DType::kBF16);
  const RunTrace expected = on_emulated(options, 1);
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    TrainOptions sharded = options;
    sharded.zero_stage = zero_stage;
    sharded.pipe_parallel_size = zero_stage % 2 == 1 ? 2 : 1;
    EXPECT_EQ(first_difference(expected, by_nccl(sharded, 2)), "");
  }
}

TEST(EmulatedEngine, ByNcclOptimizerStateInTheHostsMemoryChangesNoBit) {
  const TrainOptions options = options_of("nccl", core::DType::kBF16);
  const RunTrace expected = on_emulated(options, 1);
  for (const int zero_stage : {1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    TrainOptions sharded = options;
    sharded.zero_stage = zero_stage;
    sharded.offload.optimizer = core::Tier::kHost;
    EXPECT_EQ(first_difference(expected, by_nccl(sharded, 2)), "");
  }
}

TEST(EmulatedEngine, ByNcclTheFastOrderRepeatsItself) {
  TrainOptions options = options_of("nccl_fast", core::DType::kF32);
  options.sum_order = core::SumOrder::kFast;
  options.zero_stage = 2;
  const RunTrace first = by_nccl(options, 4);
  EXPECT_EQ(first_difference(first, by_nccl(options, 4)), "");
  expect_near(on_cpu(options, 4), first, 1e-5);
}

TEST(EmulatedEngine, EveryRule) {
  for (const optim::OptimizerRow* rule :
       {&optim::kLion, &optim::kAdagrad, &optim::kLamb, &optim::kMuon, &optim::kSgd}) {
    SCOPED_TRACE(std::string(rule->name));
    TrainOptions options = options_of("rules", core::DType::kF32);
    options.optimizer = {.rule = rule, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.9};
    options.optimizer.min_coeff = 0.0;
    options.zero_stage = 2;
    expect_as_cpu(options, 2, 1e-4);
  }
}

TEST(EmulatedEngine, AdaptersWithDropout) {
  TrainOptions options = options_of("adapters", core::DType::kBF16);
  options.lora.r = 3;
  options.lora.alpha = 5.0;
  options.lora.dropout = 0.3;
  options.lora.targets = {model::kAllLinear};
  options.lora.modules_to_save = {"norm"};
  options.zero_stage = 3;
  expect_as_cpu(options, 2, 5e-3);
}

TEST(EmulatedEngine, TensorRanks) {
  for (const bool split_tokens : {false, true}) {
    TrainOptions options = options_of("tensors", core::DType::kF32);
    options.megatron_sequence_parallel = split_tokens;
    options.model_parallel_size = 2;
    expect_as_cpu(options, 1, 1e-5);
  }
}

TEST(EmulatedEngine, SequenceRanks) {
  for (const SequenceMethod method : {SequenceMethod::kUlysses, SequenceMethod::kRing}) {
    TrainOptions options = options_of("rows", core::DType::kF32);
    options.sequence_method = method;
    options.sequence_parallel_size = 2;
    expect_as_cpu(options, 1, 1e-5);
  }
}

class EmulatedFamilies : public testing::TestWithParam<model::FamilyJson> {};

TEST_P(EmulatedFamilies, HaveTheLossesOfThisCpu) {
  TrainOptions options = options_of("families", core::DType::kF32);
  options.model_config = testing::TempDir() + "/fm_emulated_families/" + GetParam().name + ".json";
  std::ofstream(options.model_config) << GetParam().text;
  expect_as_cpu(options, 1, 1e-5);
  options.element = core::DType::kBF16;
  options.pipe_parallel_size = 2;
  options.document_attention = true;
  options.max_seq_len = 16;
  const DocumentRows rows;
  expect_near(on_cpu(options, 1, &rows), on_emulated(options, 1, &rows), 1e-2);
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedFamilies, testing::ValuesIn(model::family_jsons()),
                         [](const auto& at) { return at.param.name; });

// A run that goes from the CPU to a card and back, by checkpoints: losses stay those of the CPU.
class EmulatedTrainer : public TrainerCase {};

TEST_F(EmulatedTrainer, GoesOnOnAnotherDevice) {
  TrainOptions whole = options("whole", 6);
  whole.eval_data_path = whole.data_path;
  ASSERT_EQ(run(whole), 0);
  TrainOptions part = whole;
  part.output_dir = (folder() / "part").string();
  part.save_steps = 2;
  for (const int steps : {2, 4, 6}) {
    part.train_steps = steps;
    part.device.kind = steps == 4 ? DeviceKind::kCuda : DeviceKind::kCpu;
    const auto card = emulated::make_device(3);
    RunContext context;
    context.computes.device = steps == 4 ? card.get() : nullptr;
    ASSERT_EQ(run(part, 1, context), 0);
    part.resume = checkpoint::Resume::kMust;
  }
  const auto one = metrics(whole);
  const auto other = metrics(part);
  for (int step = 1; step <= 6; ++step) {
    EXPECT_NEAR(one.at(step).loss, other.at(step).loss, 1e-5 * one.at(step).loss) << step;
    EXPECT_NEAR(one.at(step).grad_norm.value(), other.at(step).grad_norm.value(), 1e-3);
  }
  EXPECT_NEAR(one.at(6).eval_loss, other.at(6).eval_loss, 1e-5 * one.at(6).eval_loss);
}

// They are written once, in the type that the head's products read.
TEST_F(EmulatedTrainer, GradientsOfLogitsAreRoundedAsTheyAreWritten) {
  TrainOptions traced = options("traced", 2);
  traced.device.kind = DeviceKind::kCuda;
  traced.element = core::DType::kBF16;
  traced.trace = (folder() / "trace.json").string();
  traced.trace_steps = {1, 2};
  const auto card = emulated::make_device(4);
  RunContext context;
  context.computes.device = card.get();
  ASSERT_EQ(run(traced, 1, context), 0);
  std::map<std::string, int> times;
  const auto trace = nlohmann::json::parse(std::ifstream(traced.trace));
  for (const auto& event : trace.at("traceEvents")) ++times[event.at("name")];
  EXPECT_GT(times["gemm"], 0);
  EXPECT_GT(times["cross_entropy_rounded"], 0);
  EXPECT_EQ(times["cross_entropy"], 0);
}

TEST_F(EmulatedTrainer, DecodesNearThisCpu) {
  const TrainOptions trained = options("whole", 2);
  ASSERT_EQ(run(trained), 0);
  const std::filesystem::path model = std::filesystem::path(trained.output_dir) / "hf";
  const auto card = emulated::make_device(5);
  const std::vector<double> expected = decoded_numbers(model, core::DType::kF32, nullptr);
  const std::vector<double> got = decoded_numbers(model, core::DType::kF32, card.get());
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(expected[i], got[i], 1e-4) << i;
}

}  // namespace
}  // namespace fm::engine
