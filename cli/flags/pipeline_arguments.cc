#include "cli/flags/pipeline_arguments.h"

#include <filesystem>
#include <optional>

#include "cli/deepspeed/ds_schedule.h"
#include "core/check.h"
#include "core/number_word.h"
#include "core/text.h"
#include "observe/report/unit_times.h"

namespace fm::cli {
namespace {

// "1,1,1,0": T_F, T_I, T_W and T_comm. Nothing where the words are none.
std::optional<pipeline::PhaseCosts> four_times(const std::string& words) {
  std::vector<double> times;
  for (const std::string& word : core::split(words, ',')) {
    times.push_back(core::number_of(word).value_or(-1.0));
  }
  const bool four = times.size() == 4 && times[3] >= 0.0;
  const bool positive = four && times[0] > 0.0 && times[1] > 0.0 && times[2] > 0.0;
  if (!positive) return std::nullopt;
  return pipeline::PhaseCosts{times[0], times[1], times[2], times[3]};
}

// Four numbers, or the trace of an earlier run: its medians, of a rank and of units.
void read_times(const std::string& words, engine::TrainOptions& options) {
  options.plan_times = four_times(words);
  if (options.plan_times) return;
  std::error_code ignored;
  FM_USER_CHECK(std::filesystem::exists(words, ignored),
                "--plan_times must be four numbers T_F,T_I,T_W,T_comm, of which the first three "
                "are greater than 0, as 1,1,1,0, or the FILE of an earlier run's --trace; correct "
                "it (",
                words, ")");
  const report::UnitTimes read = report::unit_times(report::read_trace_step(words), words);
  const auto phases = [](const report::PhaseTimes& times) {
    return engine::UnitTimes::Phases{times.forward, times.input, times.weight};
  };
  options.plan_times = {read.rank.forward, read.rank.input, read.rank.weight, read.message};
  options.unit_times = {.embedding = phases(read.embedding),
                        .block = phases(read.block),
                        .head = read.head,
                        .message = read.message};
}

}  // namespace

void read_pipeline(const FlagValues& flags, engine::TrainOptions& options) {
  if (flags.given("schedule")) choose_schedule(flags.text("schedule"), "--schedule", options);
  if (flags.given("virtual_stages")) options.virtual_stages = flags.small("virtual_stages", 0);
  if (flags.given("post_validation")) options.post_validation = flags.flag("post_validation");
  if (flags.given("activation_limit")) {
    set_activation_limit(flags.number("activation_limit", 0.0), "--activation_limit", options);
  }
  if (flags.given("partition_method")) {
    options.partition = pipeline::partition_named(flags.text("partition_method"));
  }
}

void read_plan(const FlagValues& flags, Command& command) {
  for (const char* name : {"micros", "csv", "csv_messages"}) {
    FM_USER_CHECK(!flags.given(name) || command.action == Action::kPlan, "--", name,
                  " belongs to --plan; add --plan or remove it (", flags.text(name), ")");
  }
  if (flags.given("plan_times")) {
    read_times(flags.text("plan_times"), command.options);
  }
  command.micros = flags.small("micros", flags.given("micros") ? 1 : 0);
  command.csv = flags.text("csv");
  command.csv_messages = flags.text("csv_messages");
  const bool has_model = flags.given("model_config") || flags.given("init_ckpt");
  FM_USER_CHECK(command.micros == 0 || (!has_model && command.options.plan_times),
                "--micros belongs to a plan of a schedule alone; with a model, "
                "gradient_accumulation_steps says it, without one --plan_times T_F,T_I,T_W,T_comm "
                "is needed (",
                command.micros, ")");
  const bool plans = command.action == Action::kPlan;
  FM_USER_CHECK(has_model || !plans || !command.options.plan_times || command.micros > 0,
                "a plan of a schedule alone needs --micros; give the number of micro-batches, or a "
                "model");
}

}  // namespace fm::cli
