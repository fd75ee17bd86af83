// The embedding and the head in tiles have the bits of whole matrices: losses, norms and weights,
// in any layout. The store is this process's memory, whose moves happen when they are waited for:
// what is read too early is NaN.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "core/text.h"
#include "engine/plan/tile_choice.h"
#include "engine/state/persistence.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

constexpr int kSteps = 3;
constexpr std::int64_t kVocab = 3 * 4096 + 256;  // tiles of 4096, the last one of 4352
constexpr std::int64_t kHidden = 32;

const char* const kLlama = R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 48,
    "vocab_size": 12544, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": false})";
const char* const kGpt2 = R"({"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2,
    "vocab_size": 12544, "n_positions": 64, "tie_word_embeddings": false})";

// Soft-capped logits, scaled rows, a pad.
const char* const kGemma2 = R"({"model_type": "gemma2", "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 48, "head_dim": 16,
    "vocab_size": 12544, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "query_pre_attn_scalar": 7, "attn_logit_softcapping": 0.5, "final_logit_softcapping": 0.7,
    "sliding_window": 5, "tie_word_embeddings": false})";

TrainOptions options_of(const char* config) {
  const std::string folder = testing::TempDir() + "/fm_tiles";
  TrainOptions options = small_options(folder, false);
  options.model_config = core::concat(folder, "/", std::string_view(config).substr(16, 4), ".json");
  std::ofstream(options.model_config) << config;
  options.data_path = {folder + "/wide.bin"};
  std::vector<std::int32_t> ids(17 * 40);
  for (std::size_t at = 0; at < ids.size(); ++at) {
    ids[at] = static_cast<std::int32_t>(at * at * 7919 % kVocab);
  }
  std::ofstream(options.data_path[0], std::ios::binary)
      .write(reinterpret_cast<const char*>(ids.data()),
             static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t)));
  options.sum_order = core::SumOrder::kCanonical;
  options.no_decay = {.norm = true, .bias = true};  // then blocks of the norm do not cross a tile
  options.zero_stage = 3;
  return options;
}

TrainOptions tiled(TrainOptions options, std::int64_t rows = 4096) {
  options.offload.params = core::Tier::kNvme;
  options.offload.params_in_host = 0;
  options.offload.disk.method = offload::DiskOptions::Method::kMemory;
  options.offload.tile_rows = rows;
  return options;
}

std::string difference(const TrainOptions& options, int dp_size) {
  const RunTrace expected = run_small(options, dp_size, kSteps);
  const RunTrace got = run_small(tiled(options), dp_size, kSteps);
  return first_difference(expected, got);
}

TEST(Tiles, HaveTheBitsOfTheWhole) {
  for (const char* const config : {kLlama, kGpt2, kGemma2}) {
    for (const core::DType element : {core::DType::kF32, core::DType::kBF16}) {
      SCOPED_TRACE(core::concat(std::string_view(config).substr(16, 5), core::name_of(element)));
      TrainOptions options = options_of(config);
      options.element = element;
      EXPECT_EQ(difference(options, 1), "");
      EXPECT_EQ(difference(options, 2), "");
    }
  }
}

TEST(Tiles, HaveTheBitsOfTheWholeInTheFastOrder) {
  TrainOptions options = options_of(kLlama);
  options.sum_order = core::SumOrder::kFast;
  EXPECT_EQ(difference(options, 1), "");
  EXPECT_EQ(difference(options, 2), "");
}

TEST(Tiles, HaveTheBitsOfTheWholeInEverySchedule) {
  for (const char* const schedule : {"1f1b", "gpipe", "layer-major"}) {
    for (const int pipe_ranks : {1, 2}) {
      SCOPED_TRACE(core::concat(schedule, pipe_ranks));
      TrainOptions options = options_of(kLlama);
      options.batch = {std::nullopt, 1, 3};
      options.schedule = &schedule_named(schedule);
      options.pipe_parallel_size = pipe_ranks;
      EXPECT_EQ(difference(options, 1), "");
      options.recompute = true;
      options.offload.optimizer = core::Tier::kDevice;
      EXPECT_EQ(difference(options, 2), "");
    }
  }
}

// Each unit is updated when its gradient is complete, or rests until the norm is known.
TEST(Tiles, HaveTheBitsOfTheWholeWithAllStateAsleep) {
  for (const double clipping : {0.0, 0.05}) {
    SCOPED_TRACE(clipping);
    TrainOptions options = options_of(kGpt2);
    options.batch = {std::nullopt, 1, 3};
    options.gradient_clipping = clipping;
    const RunTrace expected = run_small(options, 2, kSteps);
    options = tiled(options);
    options.schedule = &schedule_named("layer-major");
    options.offload.optimizer = core::Tier::kNvme;
    EXPECT_EQ(first_difference(expected, run_small(options, 2, kSteps)), "");
  }
}

// Each account of the ledger is what the plan says, and nothing is as large as a matrix.
TEST(Tiles, TheLedgerIsThePlanAndNoMatrixIsWhole) {
  for (const char* const schedule : {"1f1b", "layer-major"}) {
    SCOPED_TRACE(schedule);
    TrainOptions options = tiled(options_of(kLlama));
    options.batch = {std::nullopt, 1, 3};
    options.schedule = &schedule_named(schedule);
    options.offload.optimizer = core::Tier::kNvme;
    const model::OpenedModel opened = open_run_model(options);
    EXPECT_EQ(opened.model.tiles.size(), 6U);
    std::mutex mutex;
    comm::run_ranks(2, [&](comm::Communicator& world) {
      using core::Account;
      core::Ledger ledger;
      const RunPlan plan = make_run_plan(options, opened.model, shape_of(options, world));
      RankState state(options, plan, opened.model, world, ledger);
      fill_state(options, opened, state);
      SmallSteps steps(options, opened.model, state);
      for (int step = 1; step <= 2; ++step) steps.run(step);
      steps.settle();
      const MemoryForecast forecast = plan.memory(state.at.pipe_rank);
      const std::pair<Account, core::Bytes> planned[] = {
          {Account::kParams, forecast.params},       {Account::kGrads, forecast.grads},
          {Account::kOptimizer, forecast.optimizer}, {Account::kSlots, forecast.slots},
          {Account::kScratch, forecast.scratch},     {Account::kActivations, forecast.activations}};
      const std::scoped_lock lock(mutex);
      for (const auto& [account, bytes] : planned) {
        EXPECT_EQ(ledger.peak(account), bytes) << core::name_of(account);
      }
      const core::Elements tile(4352 * kHidden);
      EXPECT_EQ(state.layout.gather_slot, tile);
      for (const zero::FlatParam& flat : state.layout.flat_params) {
        EXPECT_LE(flat.map.elements, tile);
      }
      if (options.schedule->units != pipeline::UnitOrder::kUnitMajor) return;
      for (const zero::Reservation& each : state.layout.reservations) {
        EXPECT_LT(each.count.count(), kVocab * kHidden);
      }
    });
  }
}

TEST(Tiles, AreChosenWhereAMatrixIsLargerThanABlock) {
  TrainOptions options = tiled(options_of(kLlama), 0);
  EXPECT_EQ(open_run_model(options).model.tile_rows, 4096);
  options.offload.params_in_host = 1'000'000'000;
  EXPECT_EQ(open_run_model(options).model.tile_rows, 0);
  options.offload.params_in_host = 0;
  options.no_decay = {};  // the final norm's 32 numbers come before the matrix
  EXPECT_EQ(open_run_model(options).model.tile_rows, 0);
  EXPECT_NE(tile_words(options, open_run_model(options)), "");
  options.offload.params = core::Tier::kDevice;
  options.offload.tile_rows = 4096;
  expect_error(core::ExitCode::kConfigError, "must be whole", [&] { open_run_model(options); });
  options.offload.params = core::Tier::kNvme;
  options.offload.tile_rows = 100;
  expect_error(core::ExitCode::kConfigError, "a multiple of 4096",
               [&] { open_run_model(options); });
}

class TilesRun : public TrainerCase {};

// Saved in tiles and resumed with whole matrices, and the other way round; evaluated, exported.
TEST_F(TilesRun, ResumesEvaluatesAndExportsAsWithWholeMatrices) {
  const TrainOptions model = options_of(kLlama);
  TrainOptions whole = options("whole", 4);
  whole.model_config = model.model_config;
  whole.data_path = model.data_path;
  whole.data_format = model.data_format;
  whole.max_seq_len = model.max_seq_len;
  whole.no_decay = model.no_decay;
  whole.sum_order = model.sum_order;
  whole.zero_stage = 3;
  whole.eval_data_path = whole.data_path;
  whole.eval_steps = 2;
  whole.eval_batches = 2;
  ASSERT_EQ(run(whole), 0);
  for (const bool tiled_first : {true, false}) {
    SCOPED_TRACE(tiled_first);
    TrainOptions part = whole;
    part.output_dir = (folder() / core::concat("part", tiled_first));
    part.train_steps = 2;
    if (tiled_first) part = tiled(part);
    ASSERT_EQ(run(part, 2), 0);
    TrainOptions rest = tiled_first ? whole : tiled(whole);
    rest.output_dir = part.output_dir;
    rest.resume = checkpoint::Resume::kMust;
    ASSERT_EQ(run(rest, 1), 0);
    for (int step = 1; step <= 4; ++step) {
      EXPECT_EQ(metrics(whole).at(step).loss, metrics(rest).at(step).loss) << step;
      EXPECT_EQ(metrics(whole).at(step).grad_norm, metrics(rest).at(step).grad_norm) << step;
    }
    EXPECT_EQ(metrics(whole).at(4).eval_loss, metrics(rest).at(4).eval_loss);
    const char* const weights = "hf/model.safetensors";
    EXPECT_EQ(content(std::filesystem::path(whole.output_dir) / weights),
              content(std::filesystem::path(rest.output_dir) / weights));
  }
}

}  // namespace
}  // namespace fm::engine
