// Monitors, profilers and rhythms of the JSON and of the Trainer's flags.
#include "cli/deepspeed/ds_monitor.h"

#include <gtest/gtest.h>

#include "cli/flags/arguments.h"
#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

engine::TrainOptions options_of(const Words& flags, const std::string& json = "{}") {
  Words words{"--model_config", "c", "--data_path", "d", "--output_dir", "out"};
  words.insert(words.end(), {"--deepspeed_config", json});
  words.insert(words.end(), flags.begin(), flags.end());
  return parse_command(words).options;
}

std::string notes_of(const Words& flags, const std::string& json = "{}") {
  return core::join(options_of(flags, json).notes, "\n");
}

// deepspeed/monitor/config.py has the defaults.
TEST(DsMonitor, BlocksNameFolders) {
  const auto of = [](const std::string& json) { return read(json).monitors; };
  const engine::MonitorOptions both = of(R"({
      "tensorboard": {"enabled": true, "output_path": "tb/", "job_name": "j"},
      "csv_monitor": {"enabled": true}})");
  EXPECT_EQ(both.tensorboard, Words{"tb/j"});
  EXPECT_EQ(both.csv, Words{"DeepSpeedJobName"});
  const engine::MonitorOptions off = of(R"({"tensorboard": {"output_path": "tb"},
      "csv_monitor": {"enabled": false}, "wandb": {"project": "p"}})");
  EXPECT_EQ(off.tensorboard, Words{});
  EXPECT_EQ(off.csv, Words{});
}

TEST(DsMonitor, KeysHaveTypes) {
  EXPECT_TRUE(holds(refusal("{tensorboard: {job_name: 3}}"), "tensorboard.job_name must be"));
  EXPECT_TRUE(holds(refusal("{wandb: {enabled: \"maybe\"}}"), "wandb.enabled must be"));
  EXPECT_TRUE(holds(refusal("{comet: {samples_log_interval: \"x\"}}"), "samples_log_interval"));
  EXPECT_TRUE(holds(refusal("{csv_monitor: {outputpath: \"x\"}}"), "output_path"));
  EXPECT_TRUE(holds(refusal("{flops_profiler: {enabled: true, profile_step: 0}}"),
                    "flops_profiler.profile_step must be at least 1"));
  EXPECT_TRUE(holds(refusal("{steps_per_print: 0}"), "steps_per_print must be at least 1"));
}

TEST(DsMonitor, ServicesGetEventFilesAndANoteWithTheCommand) {
  const std::string wandb =
      R"({"wandb": {"enabled": true, "team": "us", "project": "p", "group": "g"}})";
  EXPECT_TRUE(
      holds(notes(wandb),
            "wandb.enabled: nothing is sent to W&B; import the event files after the run: "
            "wandb sync --sync-tensorboard --project p --entity us ./output/runs (t.json:1)"));
  EXPECT_TRUE(holds(notes(wandb), "ignored wandb.group: "));
  EXPECT_EQ(read(wandb).monitors.tensorboard, Words{"./output/runs"});
  const std::string comet = R"({"comet": {"enabled": true, "workspace": "w"},
                                "tensorboard": {"enabled": true, "output_path": "tb"}})";
  EXPECT_TRUE(holds(notes(comet),
                    "nothing is sent to Comet, which has no interface for C++; "
                    "tb/DeepSpeedJobName has the same curves"));
  EXPECT_TRUE(holds(notes(comet), "ignored comet.workspace: "));
  EXPECT_EQ(read(comet).monitors.tensorboard, Words{"tb/DeepSpeedJobName"});
}

TEST(DsMonitor, BreakdownsAndTheProfile) {
  const engine::MonitorOptions none = read("{}").monitors;
  EXPECT_FALSE(none.wall_clock || none.memory);
  EXPECT_EQ(none.profile_step, 0);
  EXPECT_TRUE(read("{wall_clock_breakdown: true}").monitors.wall_clock);
  EXPECT_TRUE(read("{memory_breakdown: true}").monitors.memory);
  const std::string json = R"({"flops_profiler": {"enabled": true, "profile_step": 7,
      "output_file": "flops.txt", "detailed": true, "top_modules": 3}})";
  const engine::MonitorOptions profile = read(json).monitors;
  EXPECT_EQ(profile.profile_step, 7);
  EXPECT_EQ(profile.profile_file, "flops.txt");
  EXPECT_TRUE(profile.wall_clock) << "DeepSpeed's profiler turns the timers on";
  EXPECT_TRUE(holds(notes(json), "ignored flops_profiler.detailed, flops_profiler.top_modules: "));
  EXPECT_EQ(read("{flops_profiler: {enabled: true}}").monitors.profile_step, 1);
  EXPECT_FALSE(none.comms);
  EXPECT_TRUE(read("{comms_logger: {enabled: true}}").monitors.comms);
  EXPECT_TRUE(holds(notes("{comms_logger: {enabled: true, verbose: true}}"),
                    "ignored comms_logger.verbose: "));
}

TEST(DsMonitor, StepsPerPrintIsTheRhythmUnlessAFlagIs) {
  const std::string json = R"({"steps_per_print": 10})";
  EXPECT_EQ(options_of({}, json).log_steps, 10);
  EXPECT_EQ(options_of({}, R"({"steps_per_print": null})").log_steps, 1);
  EXPECT_EQ(options_of({"--logging_steps", "3"}, json).log_steps, 3);
  EXPECT_TRUE(holds(notes_of({"--log_steps", "3"}, json),
                    "--log_steps 3 overrides steps_per_print "
                    "10 ("));
  EXPECT_EQ(notes_of({"--log_steps", "10"}, json).find("overrides"), std::string::npos);
}

// Accelerate's template says 2000.
TEST(Monitors, StepsPerPrintIsAtMostATenthOfTheRun) {
  struct Row {
    const char* steps;
    const char* per_print;
    std::int64_t every;
  };
  for (const Row& row :
       {Row{"100", "2000", 10}, Row{"100", "11", 10}, Row{"100", "10", 10}, Row{"19", "2000", 1},
        Row{"3", "2", 1}, Row{"40000", "2000", 2000}, Row{"7", "1", 1}}) {
    const std::string json = core::concat("{\"steps_per_print\": ", row.per_print, "}");
    EXPECT_EQ(options_of({"--max_steps", row.steps}, json).log_steps, row.every) << row.steps;
    const bool less = row.every != std::stoll(row.per_print);
    EXPECT_EQ(holds(notes_of({"--max_steps", row.steps}, json), "a tenth of the run"), less)
        << row.steps << " " << row.per_print;
  }
  const std::string json = R"({"steps_per_print": 2000})";
  EXPECT_TRUE(holds(notes_of({}, json), "steps_per_print 2000: a line is printed every 10 steps"));
  EXPECT_TRUE(holds(notes_of({"--max_steps", "9"}, json), "a line is printed every step, "));
  EXPECT_EQ(options_of({"--logging_steps", "50"}, json).log_steps, 50);  // somebody asks for it
}

TEST(ReportTo, NamesPlacesBelowTheOutputFolder) {
  EXPECT_EQ(options_of({}).monitors.tensorboard, Words{});
  EXPECT_EQ(options_of({"--report_to", "none"}).monitors.tensorboard, Words{});
  const engine::MonitorOptions all = options_of({"--report_to", "all"}).monitors;
  EXPECT_EQ(all.tensorboard, Words{"out/runs"});
  EXPECT_EQ(all.csv, Words{"out/csv"});
  const engine::MonitorOptions csv = options_of({"--report_to", "csv"}).monitors;
  EXPECT_EQ(csv.tensorboard, Words{});
  EXPECT_EQ(csv.csv, Words{"out/csv"});
  EXPECT_EQ(options_of({"--report_to", "TensorBoard", "--logging_dir", "tb"}).monitors.tensorboard,
            Words{"tb"});
  EXPECT_TRUE(holds(notes_of({"--logging_dir", "tb"}), "--logging_dir has no effect without"));
  EXPECT_EQ(options_of({"--report_to", "tensorboard"}, R"({"tensorboard": {"enabled": true,
                        "output_path": "out", "job_name": "runs"}})")
                .monitors.tensorboard,
            Words{"out/runs"});
  EXPECT_EQ(options_of({"--prometheus_file", "a.prom"}).monitors.prometheus_file, "a.prom");
}

TEST(ReportTo, ServicesAreNotedAndOtherWordsRefused) {
  const Words wandb = {"--report_to", "wandb,csv", "--project_name", "p"};
  EXPECT_TRUE(holds(notes_of(wandb),
                    "--report_to wandb: nothing is sent to W&B; import the event "
                    "files after the run: wandb sync --sync-tensorboard "
                    "--project p out/runs"));
  EXPECT_EQ(options_of(wandb).monitors.tensorboard, Words{"out/runs"});
  EXPECT_EQ(options_of(wandb).monitors.csv, Words{"out/csv"});
  EXPECT_TRUE(holds(notes_of({"--report_to", "mlflow"}), "nothing is sent to mlflow"));
  EXPECT_TRUE(holds(refusal_of([] {
                      options_of({"--report_to", "tensorbord"});
                    }),
                    "did you mean tensorboard?"));
}

}  // namespace
}  // namespace fm::cli
