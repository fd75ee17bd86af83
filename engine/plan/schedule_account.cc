#include "engine/plan/schedule_account.h"

#include <cstdio>

#include "core/check.h"
#include "core/text.h"
#include "engine/plan/pipe_schedule.h"
#include "engine/plan/plan_simulation.h"
#include "pipeline/schedule_study.h"
#include "zero/insert_zero.h"

namespace fm::engine {
namespace {

using pipeline::Program;

ScheduleAccount timed(const std::string& schedule, const pipeline::PipeShape& shape,
                      const pipeline::Simulation& run, std::vector<double> peaks) {
  ScheduleAccount out;
  out.schedule = schedule;
  out.shape = shape;
  out.makespan = run.makespan;
  out.longest_stage = run.longest_stage();
  out.bubble = run.bubble();
  out.peak_activations = std::move(peaks);
  return out;
}

std::vector<std::map<std::string, InstructionTotal>> counted(const std::vector<Program>& programs) {
  std::vector<std::map<std::string, InstructionTotal>> out;
  for (const Program& program : programs) {
    out.emplace_back();
    for (const pipeline::Instruction& at : program) {
      ++out.back()[std::string(pipeline::row_of(at.op).picture)].count;
    }
  }
  return out;
}

// The programs of a run without data ranks, of one block per chunk.
pipeline::StudiedPrograms validated(const std::vector<Program>& scheduled,
                                    const pipeline::PipeShape& shape) {
  pipeline::StudiedPrograms studied = pipeline::lower_for_study(scheduled, shape);
  const pipeline::ProgramRules rules{
      .units = studied.units, .micros = shape.micros, .plan = core::plan_of(0, {})};
  for (std::size_t rank = 0; rank < studied.lowered.size(); ++rank) {
    Program& program = studied.lowered[rank];
    program = zero::insert_zero(program, rules.plan, rules.units, static_cast<int>(rank));
  }
  const auto refusal = pipeline::validate(studied.lowered, rules);
  FM_CHECK(!refusal, "the schedule is refused: ",
           refusal ? pipeline::describe(*refusal, studied.lowered) : "");
  return studied;
}

ScheduleStudy study_of(const TrainOptions& options, int micros) {
  pipeline::PipeShape shape = pipe_shape_of(options, micros);
  shape.gradients_in_order = false;  // as its source describes it
  shape.costs.assign(static_cast<std::size_t>(shape.pipe_ranks),
                     options.plan_times.value_or(pipeline::PhaseCosts{}));
  constexpr std::int64_t kMost = 1'000'000;
  FM_USER_CHECK(micros <= kMost / shape.chunk_count(), "a step must have at most ", kMost,
                " forwards of a chunk; lower --micros (", micros, ")");
  ScheduleStudy out;
  out.scheduled = scheduled_programs(options, shape);
  const std::vector<double> kept = pipeline::peak_activations(out.scheduled, shape);
  check_activation_limit(options, kept);
  pipeline::Simulation run = pipeline::simulate_schedule(out.scheduled, shape);
  out.account = timed(schedule_name(options), shape, run, kept);
  out.account.time_unit = options.unit_times ? "us" : "given";
  out.timeline = std::move(run.timeline);
  return out;
}

}  // namespace

ScheduleAccount account_of(const TrainOptions& options, const RunPlan& plan) {
  ScheduleAccount out = timed(plan.schedule, plan.pipe, simulate_plan(plan), plan.kept_micros());
  out.time_unit = options.unit_times ? "us" : options.plan_times ? "given" : "FLOPs";
  out.step_ahead = time_of_step_ahead(plan);
  out.instructions = counted(plan.train);
  for (int rank = 0; rank < plan.mesh.pipe; ++rank) {
    for (const auto& [picture, bytes] : plan.wire_bytes(rank)) {
      out.instructions[static_cast<std::size_t>(rank)][picture].bytes = bytes;
    }
  }
  return out;
}

ScheduleStudy study_schedule(const TrainOptions& options, int micros) {
  std::optional<ScheduleStudy> best;
  std::string refusal;
  TrainOptions tried = options;
  for (const pipeline::ScheduleRow& row : pipeline::all_schedules()) {
    if (options.auto_schedule) {
      if (row.units == pipeline::UnitOrder::kUnitMajor) continue;  // as with_schedule does
      tried.schedule = &row;
    }
    try {
      ScheduleStudy study = study_of(tried, micros);
      const bool better = !best || study.account.makespan < best->account.makespan * (1.0 - 1e-9);
      if (better) best = std::move(study);
    } catch (const core::UserError& error) {
      if (!options.auto_schedule) throw;
      if (refusal.empty()) refusal = error.what();
    }
    if (!options.auto_schedule) break;
  }
  FM_USER_CHECK(best,
                "--schedule auto finds no schedule for this shape; the first refusal: ", refusal);
  pipeline::StudiedPrograms studied = validated(best->scheduled, best->account.shape);
  best->programs = std::move(studied.lowered);
  best->units = std::move(studied.units);
  best->account.instructions = counted(best->programs);
  return std::move(*best);
}

namespace {

// "300.4 MFLOP", "1.2 ms", "15": of ScheduleAccount::time_unit.
std::string in_unit(double time, const std::string& unit) {
  if (unit == "us") return core::human_duration(time / 1e6);
  char text[48];
  if (unit == "given") {
    std::snprintf(text, sizeof(text), "%.4g", time);
    return text;
  }
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (time >= 1e3 && prefix + 1 < std::size(kPrefixes)) {
    time /= 1e3;
    ++prefix;
  }
  std::snprintf(text, sizeof(text), "%.4g %sFLOP", time, kPrefixes[prefix]);
  return text;
}

}  // namespace

std::string text_of(const ScheduleAccount& account) {
  const auto number = [](const char* pattern, double value) {
    char text[48];
    std::snprintf(text, sizeof(text), pattern, value);
    return std::string(text);
  };
  std::vector<std::string> peaks;
  for (const double peak : account.peak_activations) peaks.push_back(number("%.4g", peak));
  const std::string ahead =
      account.step_ahead > 0.0
          ? core::concat("\n  a step between others that end before their norm is known: ",
                         in_unit(account.step_ahead, account.time_unit))
          : "";
  return core::concat(
      "schedule ", account.schedule, ": ", core::counted(account.shape.chunk_count(), "chunk"),
      " on ", core::counted(account.shape.pipe_ranks, "pipe rank"), ", ", account.shape.micros,
      account.shape.micros == 1 ? " micro-batch; makespan " : " micro-batches; makespan ",
      in_unit(account.makespan, account.time_unit), ", longest stage ",
      in_unit(account.longest_stage, account.time_unit), "; bubble ",
      number("%.1f %%", 100 * account.bubble), ahead,
      "\n  micro-batches kept per pipe rank, at most: ", core::join(peaks, ", "), "\n");
}

}  // namespace fm::engine
