// Checkpoints of what sleeps on drives, written while later steps go on: a slot of each slice is
// held for them. Files and steps are those of saves that steps wait for.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/fault.h"
#include "engine/plan/memory_fit.h"
#include "engine/plan/save_room.h"
#include "engine/plan/tier_forecast.h"
#include "engine/run/run_saves.h"
#include "engine/shown/plan.h"
#include "engine/state/persistence.h"
#include "engine/step/tensors.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSteps = 5;
constexpr int kRanks = 2;

enum class Sleeps : std::uint8_t { kOptimizer, kBoth, kEarly };

struct Cell {
  Sleeps sleeps;
  int zero_stage;
  core::DType element = core::DType::kF32;
};

std::string name_of(const Cell& cell) {
  const char* const kinds[] = {"Optimizer", "Both", "Early"};
  const char* const type = cell.element == core::DType::kF32 ? "F32" : "Bf16";
  return core::concat(kinds[static_cast<int>(cell.sleeps)], "Zero", cell.zero_stage, type);
}

class SlotSavesCase : public TrainerCase {
 protected:
  // Saves of steps 2 and 4, and the last.
  TrainOptions sleeping(const std::string& output, const Cell& cell) const {
    TrainOptions out = options(output, kSteps);
    out.save_steps = 2;
    out.zero_stage = cell.zero_stage;
    out.element = cell.element;
    out.offload.optimizer = core::Tier::kNvme;
    out.offload.optimizer_buffers = 2;
    out.offload.optimizer_paths = out.offload.param_paths = {(folder() / "drive").string()};
    out.offload.disk.block_bytes = 64 << 10;
    if (cell.sleeps == Sleeps::kOptimizer) return out;
    out.offload.params = core::Tier::kNvme;
    out.offload.params_in_host = 0;
    if (cell.sleeps == Sleeps::kBoth) return out;
    out.schedule = &schedule_named("layer-major");
    out.gradient_clipping = 0.0;
    return out;
  }
  TrainOptions waiting(TrainOptions options) const {
    options.output_dir += "_waiting";
    options.save_async = false;
    return options;
  }
  RunPlan plan_of(const TrainOptions& options) {
    opened_.push_back(std::make_unique<model::OpenedModel>(open_run_model(options)));
    return make_run_plan(options, opened_.back()->model, {kRanks, core::ParamSharing::kOneHost});
  }
  static std::vector<std::string> files_of(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
  }
  // Steps 3 and 4 have changed all that the checkpoint of step 2 holds before it has its name.
  static void expect_beside_steps(const TrainOptions& options, const std::string& out) {
    const std::size_t saved = out.find("\nsaved " + options.output_dir + "/global_step2\n");
    ASSERT_NE(saved, std::string::npos) << out;
    EXPECT_LT(out.find("\nstep 4/5 "), saved) << out;
    EXPECT_EQ(out.find("steps wait while"), std::string::npos) << out;
  }
  // All bytes of checkpoints and export, and what steps say.
  static void expect_same(const TrainOptions& a, const TrainOptions& b,
                          const std::vector<std::string>& folders) {
    for (const std::string& name : folders) {
      SCOPED_TRACE(name);
      const fs::path there = fs::path(a.output_dir) / name;
      const fs::path here = fs::path(b.output_dir) / name;
      ASSERT_TRUE(fs::exists(there) && fs::exists(here));
      ASSERT_EQ(files_of(here), files_of(there));
      for (const std::string& file : files_of(there)) {
        if (file == "MANIFEST.json") continue;  // has the time of the save
        EXPECT_TRUE(content(here / file) == content(there / file)) << file;
      }
    }
    for (const auto& [step, line] : metrics(a)) {
      EXPECT_EQ(metrics(b).at(step).grad_norm, line.grad_norm) << step;
      if (line.skipped) continue;  // its loss may be NaN
      EXPECT_EQ(metrics(b).at(step).loss, line.loss) << step;
    }
  }

 private:
  std::vector<std::unique_ptr<model::OpenedModel>> opened_;  // of plans
};

class SlotSaves : public SlotSavesCase, public testing::WithParamInterface<Cell> {};
INSTANTIATE_TEST_SUITE_P(All, SlotSaves,
                         testing::Values(Cell{Sleeps::kOptimizer, 1}, Cell{Sleeps::kOptimizer, 2},
                                         Cell{Sleeps::kOptimizer, 3}, Cell{Sleeps::kBoth, 3},
                                         Cell{Sleeps::kEarly, 3},
                                         Cell{Sleeps::kOptimizer, 1, core::DType::kBF16},
                                         Cell{Sleeps::kOptimizer, 3, core::DType::kBF16},
                                         Cell{Sleeps::kBoth, 3, core::DType::kBF16},
                                         Cell{Sleeps::kEarly, 3, core::DType::kBF16}),
                         [](const auto& at) { return name_of(at.param); });

TEST_P(SlotSaves, AreTheFilesOfSavesThatStepsWaitFor) {
  TrainOptions aside = sleeping("run", GetParam());
  aside.log_steps = 1;
  const RunPlan plan = plan_of(aside);
  EXPECT_EQ(plan.state.rules.save_slots, 1);
  EXPECT_EQ(plan.state.rules.tier_slots, GetParam().sleeps == Sleeps::kEarly ? 2 : 1);
  EXPECT_EQ(plan_of(waiting(aside)).state.rules.save_slots, 0);
  ASSERT_EQ(run(waiting(aside), kRanks), 0);
  testing::internal::CaptureStdout();
  ASSERT_EQ(run(aside, kRanks), 0);
  expect_beside_steps(aside, testing::internal::GetCapturedStdout());
  expect_same(waiting(aside), aside, {"global_step2", "global_step4", "global_step5", "hf"});
  EXPECT_TRUE(fs::is_empty(folder() / "drive"));
}

// Of the save's bytes none is of the state where all of it sleeps.
TEST_P(SlotSaves, TakeTheMemoryThatThePlanSays) {
  const TrainOptions aside = sleeping("run", GetParam());
  comm::run_ranks(kRanks, [&](comm::Communicator& world) {
    core::Ledger ledger;
    const model::OpenedModel opened = open_run_model(aside);
    const RunPlan plan = make_run_plan(aside, opened.model, shape_of(aside, world));
    RankState state(aside, plan, opened.model, world, ledger);
    const RunContext context;
    RunLog log(aside, context, false);
    RunSaves saves(aside, state, log);
    saves.begin(nullptr, -1);
    // The copy leaves out the padding behind the last slice of a unit.
    const core::Bytes padding =
        core::bytes_of(core::kBlock, core::DType::kF32) * plan.state.rules.dp_size;
    const core::Bytes taken = ledger.current(core::Account::kSaves);
    EXPECT_LE(taken, plan.memory(0).saves);
    EXPECT_GE(taken + padding * state.layout.trained, plan.memory(0).saves);
    const bool copies =
        GetParam().sleeps == Sleeps::kOptimizer && GetParam().element == core::DType::kF32;
    EXPECT_EQ(copy_for_save(state.layout).count() > 0, copies);
    if (!copies) {
      EXPECT_EQ(taken, part_for_save(state.layout));
    }
    const TierForecast tiers = tier_forecast(plan, 0);
    EXPECT_GT(tiers.save_slot.count(), 0);
    core::Bytes stores;
    for (const auto* const store : {&state.store, &state.params_store}) {
      if (*store != nullptr) stores += (*store)->bytes();
    }
    EXPECT_EQ(stores, tiers.nvme);
  });
}

class SlotSavesAndFaults : public SlotSavesCase {
 protected:
  static constexpr Cell kEarly{Sleeps::kEarly, 3};
};

// A step that changes nothing, behind a save that is under way.
TEST_F(SlotSavesAndFaults, AStepThatIsNotAcceptedChangesNoFile) {
  for (const Cell& cell : {Cell{Sleeps::kEarly, 3}, Cell{Sleeps::kBoth, 3, core::DType::kBF16}}) {
    SCOPED_TRACE(name_of(cell));
    const TrainOptions aside = sleeping("run" + name_of(cell), cell);
    for (const TrainOptions& each : {waiting(aside), aside}) {
      core::arm_faults("point=bwd.layer,step=3,action=nan");
      ASSERT_EQ(run(each, kRanks), 0);
    }
    EXPECT_TRUE(metrics(aside).at(3).skipped);
    expect_same(waiting(aside), aside, {"global_step2", "global_step4", "global_step5", "hf"});
  }
}

TEST_F(SlotSavesAndFaults, AFullDiskLetsTheRunGoOnAndTheNextSaveHoldsAgain) {
  TrainOptions aside = sleeping("run", kEarly);
  aside.train_steps = 7;
  ASSERT_EQ(run(waiting(aside), kRanks), 0);
  for (const char* const point : {"ckpt.S0", "ckpt.S3", "ckpt.S6"}) {
    SCOPED_TRACE(point);
    fs::remove_all(aside.output_dir);
    core::arm_faults(core::concat("point=", point, ",rank=0,step=4,action=enospc"));
    ASSERT_EQ(run(aside, kRanks), 0);
    EXPECT_FALSE(fs::exists(fs::path(aside.output_dir) / "global_step4"));
    expect_same(waiting(aside), aside, {"global_step2", "global_step6", "global_step7", "hf"});
  }
}

// Reads of a save have no number among the store's.
TEST_F(SlotSavesAndFaults, ADriveThatFailsUnderASaveEndsTheRunWithTheLastCheckpointWhole) {
  for (const char* const action : {"eio", "nan"}) {  // nan: a bit of what was read
    SCOPED_TRACE(action);
    TrainOptions aside = sleeping(core::concat("run_", action), kEarly);
    aside.save_steps = 0;
    aside.train_steps = 2;
    ASSERT_EQ(run(aside, kRanks), 0);
    aside.save_steps = 4;
    aside.train_steps = kSteps;
    core::arm_faults(core::concat("point=offload.read,rank=1,step=0,action=", action));
    expect_error(core::ExitCode::kStorageFailed, "drive", [&] { run(aside, kRanks); });
    core::arm_faults("");
    EXPECT_FALSE(fs::exists(fs::path(aside.output_dir) / "global_step4"));
    aside.resume = checkpoint::Resume::kMust;
    ASSERT_EQ(run(aside, kRanks), 0);
    EXPECT_EQ(metrics(aside).size(), static_cast<std::size_t>(kSteps));
  }
}

// And no moment, which an export does not hold.
TEST_F(SlotSavesAndFaults, AnExportReadsWhatSleepsOnce) {
  const TrainOptions all = sleeping("run", {Sleeps::kBoth, 3});
  comm::run_ranks(1, [&](comm::Communicator& world) {
    core::Ledger ledger;
    const model::OpenedModel opened = open_run_model(all);
    const RunPlan plan = make_run_plan(all, opened.model, shape_of(all, world));
    RankState state(all, plan, opened.model, world, ledger);
    fill_state(all, opened, state);
    const core::Bytes before = state.params_store->totals().read;
    export_model(all, opened.facts, state, export_target(all, opened.facts));
    core::Bytes slices;
    core::Elements tensors;
    for (const core::TensorSlice& slice : param_slices(state, Part::kOwned)) {
      slices += core::Bytes(2 * 4096);  // begin and end within pages
      tensors += slice.count();
    }
    EXPECT_LE(state.params_store->totals().read - before,
              slices + core::bytes_of(tensors, core::DType::kF32));
    EXPECT_EQ(state.store->totals().read, core::Bytes(0));
  });
  EXPECT_TRUE(fs::exists(fs::path(all.output_dir) / "hf" / "model.safetensors"));
}

TEST_F(SlotSavesAndFaults, ThePlanSaysWhatTheSlotTakesOrThatDrivesHaveNoRoomForIt) {
  const TrainOptions options = sleeping("run", kEarly);
  const model::OpenedModel opened = open_run_model(options);
  const auto planned = [&](std::optional<core::Bytes> free) {
    return nlohmann::json::parse(plan_json(options, opened, {kRanks}, {.drives = {.free = free}}));
  };
  const auto has_note = [](const nlohmann::json& plan) {
    return plan["notes"].dump().find("drives have no room for a further slot") != std::string::npos;
  };
  const nlohmann::json roomy = planned(std::nullopt);
  const nlohmann::json rank = roomy["tiers"]["pipe_ranks"][0];
  EXPECT_GT(rank["save_slot_bytes"], 0);
  EXPECT_EQ(rank["save_slot_bytes"], rank["second_slot_bytes"]);
  const core::Bytes needed(roomy["tiers"]["nvme_bytes"].get<std::int64_t>());
  EXPECT_FALSE(has_note(planned(needed)));
  const nlohmann::json tight = planned(needed - core::Bytes(1));
  EXPECT_TRUE(has_note(tight));
  EXPECT_EQ(tight["tiers"]["pipe_ranks"][0]["save_slot_bytes"], 0);
  EXPECT_EQ(tight["tiers"]["pipe_ranks"][0]["second_slot_bytes"], rank["second_slot_bytes"]);
}

// A host that is full of the run itself; only what is copied asks for more room than that.
TEST_F(SlotSavesAndFaults, NeedNoRoomToSpareWhereNothingIsCopied) {
  for (const bool copies : {false, true}) {
    const TrainOptions options = sleeping("run", {copies ? Sleeps::kOptimizer : Sleeps::kBoth, 3});
    const core::Bytes all = plan_of(options).memory(0).total() * kRanks;
    const RankLimits limits(kRanks, {{"host", "a host", all}});
    const model::OpenedModel opened = open_run_model(options);
    const WorldShape world{.ranks = kRanks, .sharing = core::ParamSharing::kOneHost};
    EXPECT_EQ(with_fitting_saves(options, opened.model, world, limits).save_async, !copies);
  }
}

// As long as this lives no file of this process is longer.
class FilesOfAtMost {
 public:
  explicit FilesOfAtMost(core::Bytes bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(bytes.count());
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  FilesOfAtMost(const FilesOfAtMost&) = delete;
  FilesOfAtMost& operator=(const FilesOfAtMost&) = delete;
  ~FilesOfAtMost() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  struct rlimit before_ {};
};

// A drive that has room for what sleeps, and for no slot more.
TEST_F(SlotSavesAndFaults, WhereDrivesHaveNoRoomStepsWaitAndANoteSaysSo) {
  TrainOptions aside = sleeping("run", {Sleeps::kOptimizer, 1});
  aside.shared_memory = false;  // a file, too
  ASSERT_EQ(run(waiting(aside), kRanks), 0);
  aside.log_steps = 1;
  const TierForecast tiers = tier_forecast(plan_of(aside), 0);
  std::string out;
  {
    const FilesOfAtMost limit(tiers.nvme - core::Bytes(4096));
    testing::internal::CaptureStdout();
    ASSERT_EQ(run(aside, kRanks), 0);
    out = testing::internal::GetCapturedStdout();
  }
  EXPECT_NE(out.find("drives have no room for a further slot"), std::string::npos) << out;
  EXPECT_LT(out.find("\nsaved " + aside.output_dir + "/global_step2\n"), out.find("\nstep 3/5 "));
  expect_same(waiting(aside), aside, {"global_step2", "global_step4", "global_step5", "hf"});
}

}  // namespace
}  // namespace fm::engine
