// What lies in an output directory, and what pruning by hand leaves of it.
#include "checkpoint/survey.h"

#include <gtest/gtest.h>

#include "checkpoint/lineage.h"
#include "checkpoint/output_lock.h"
#include "checkpoint/prune_plan.h"
#include "core/text.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/checkpoint/damage.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

class Survey : public ::testing::Test {
 protected:
  const fs::path& output() const { return folder_.path(); }
  Lineage run_of(const std::vector<std::int64_t>& steps) {
    const Lineage run = testing::lineage_of_start(output(), Resume::kNever);
    save(run, steps);
    return run;
  }
  void save(const Lineage& run, const std::vector<std::int64_t>& steps) {
    for (const std::int64_t step : steps) {
      ASSERT_TRUE(testing::save_state(output(), step, 1, 0, run).durable);
    }
  }
  // "6 newest latest|4 proven|2"
  std::string marks() const {
    std::vector<std::string> rows;
    for (const SurveyEntry& entry : survey_output(output()).entries) {
      std::string row = entry.step < 0 ? entry.folder.filename().string().substr(0, 8)
                                       : std::to_string(entry.step);
      if (entry.newest) row += " newest";
      if (entry.latest) row += " latest";
      if (entry.proven) row += " proven";
      if (!entry.problem.empty()) row += " broken";
      if (entry.step >= 0 && !entry.in_line) row += " other";
      rows.push_back(row);
    }
    return core::join(rows, "|");
  }
  // Steps that would go.
  std::string goes(const PruneRules& rules) const {
    std::vector<std::string> steps;
    for (const PruneChoice& choice : plan_prune(survey_output(output()), rules)) {
      const std::string name = choice.folder.filename().string();
      if (choice.goes) steps.push_back(name.starts_with(".") ? name : name.substr(11));
    }
    return core::join(steps, " ");
  }
  void metrics(const std::string& rows) const { folder_.write("metrics.jsonl", rows); }
  testing::ScratchFolder folder_;
};

std::string row(std::int64_t step, bool skipped) {
  return core::concat("{\"step\": ", step,
                      ", \"loss\": 1.5, \"skipped\": ", skipped ? "true" : "false", "}\n");
}

TEST_F(Survey, TheNewestTheNamedAndTheProvenOneAreMarked) {
  run_of({2, 4, 6});
  EXPECT_EQ(marks(), "6 newest latest|4|2");
  metrics(row(5, false) + row(6, true));
  EXPECT_EQ(marks(), "6 newest latest|4 proven|2");
  metrics(row(5, false) + row(7, false) + "{\"step\": 8, \"skip");  // a line that is being written
  EXPECT_EQ(marks(), "6 newest latest proven|4|2");
  testing::flip_byte(output() / "global_step6" / "state.json", 3);
  EXPECT_EQ(marks(), "6 latest broken|4 newest proven|2");
}

TEST_F(Survey, WhatKilledRunsLeftIsListedAndLinksAreNot) {
  run_of({2});
  fs::create_directory(output() / ".tmp-global_step4-0123abcd");
  fs::create_directory(output() / ".trash-global_step1-0123abcd");
  fs::create_directory(output() / ".bad-global_step1-0123abcd");
  fs::create_directory_symlink(output() / "global_step2", output() / "global_step9");
  fs::create_directory(output() / "global_step8");  // empty: of somebody else
  EXPECT_EQ(marks(), "2 newest latest|.bad-glo|.tmp-glo|.trash-g");
  EXPECT_EQ(goes({.keep_last = 1}), ".tmp-global_step4-0123abcd .trash-global_step1-0123abcd");
}

TEST_F(Survey, AnotherRunsCheckpointsAreToldApart) {
  run_of({50, 100});
  run_of({25});
  EXPECT_EQ(marks(), "100 other|50 other|25 newest latest");
  EXPECT_EQ(goes({.keep_last = 1}), "50");
}

TEST_F(Survey, SizesAndSaveTimesAreThoseOfTheFiles) {
  run_of({2});
  const SurveyEntry entry = survey_output(output()).entries.at(0);
  std::uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(output() / "global_step2")) {
    bytes += file.file_size();
  }
  EXPECT_EQ(entry.bytes.count(), static_cast<std::int64_t>(bytes));
  EXPECT_GT(entry.save_ms, 0);
}

TEST_F(Survey, PruningKeepsTheNewestTheProvenAndTheMultiples) {
  run_of({10, 20, 30, 40, 50});
  EXPECT_EQ(goes({.keep_last = 5}), "");
  EXPECT_EQ(goes({.keep_last = 2}), "30 20 10");
  EXPECT_EQ(goes({.keep_last = 1, .keep_every = 20}), "30 10");
  metrics(row(25, false) + row(26, true));
  EXPECT_EQ(goes({.keep_last = 1}), "40 30 10");
}

TEST_F(Survey, PruningNeitherCountsNorTouchesWhatIsDamaged) {
  run_of({10, 20, 30, 40});
  testing::flip_byte(output() / "global_step40" / "weights.safetensors", 9);
  EXPECT_EQ(goes({.keep_last = 1}), "20 10");
  EXPECT_EQ(goes({.keep_last = 2}), "10");
}

TEST_F(Survey, PruningKeepsWhatARunWentBackToAndWhatLatestNames) {
  run_of({10, 20, 30});
  const Lineage back =
      testing::lineage_of_start(output(), Resume::kPath, output() / "global_step10");
  save(back, {12, 14});
  EXPECT_EQ(goes({.keep_last = 1}), "20 12") << "30 is the newest of its run, 10 a parent";
  folder_.write("latest", "global_step12\n");
  EXPECT_EQ(goes({.keep_last = 1}), "20");
}

TEST_F(Survey, WhatAnotherRunSavedOfAStepIsPutAside) {
  run_of({10, 20});
  save(testing::lineage_of_start(output(), Resume::kNever), {10});
  int kept = 0;
  for (const SurveyEntry& entry : survey_output(output()).entries) {
    kept += entry.kind == SurveyKind::kPutAside ? 1 : 0;
  }
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(goes({.keep_last = 1}), "");
}

TEST_F(Survey, PruningDeletesUnderTheLockOnly) {
  run_of({10, 20, 30});
  {
    const OutputLock held(output());
    const std::string said = testing::message_of<core::MachineError>(
        13, [&] { prune_output(output(), {.keep_last = 1}); });
    EXPECT_NE(said.find("must belong to one run at a time"), std::string::npos) << said;
  }
  fs::create_directory(output() / ".tmp-global_step4-0123abcd");
  EXPECT_EQ(prune_output(output(), {.keep_last = 1}).size(), 4U) << "three steps, a leftover";
  EXPECT_EQ(testing::listing(output()), "LOCK global_step30 latest");
  EXPECT_EQ(testing::load_state(output(), 1), 30);
  const std::string said = testing::message_of<core::UserError>(
      11, [&] { prune_output(output() / "none", {.keep_last = 1}); });
  EXPECT_NE(said.find("is no folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(output() / "none"));
}

}  // namespace
}  // namespace fm::checkpoint
