// What a step's schedule takes: time, memory in micro-batches, instructions and bytes. Of a run, or
// of a schedule alone, without a model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/plan/run_plan.h"
#include "pipeline/simulate.h"

namespace fm::engine {

struct InstructionTotal {
  std::int64_t count = 0;
  core::Bytes bytes = {};  // that the rank sends in them
};

struct ScheduleAccount {
  std::string schedule;
  pipeline::PipeShape shape;
  std::string time_unit;  // "FLOPs", "given" (--plan_times), or "us" (of a trace)
  double makespan = 0.0;
  double step_ahead = 0.0;     // between others that end before their norm is known; 0: none does
  double longest_stage = 0.0;  // of the busiest rank, from its first to its last instruction
  double bubble = 0.0;         // 1 - work / (ranks x makespan)
  std::vector<double> peak_activations;                               // micro-batches, by pipe rank
  std::vector<std::map<std::string, InstructionTotal>> instructions;  // by pipe rank and picture
};
ScheduleAccount account_of(const TrainOptions& options, const RunPlan& plan);

// A schedule of options.pipe_parallel_size ranks and `micros` micro-batches by itself, in units of
// options.plan_times. Validated as a run's. With auto_schedule: the one that takes the least time.
struct ScheduleStudy {
  ScheduleAccount account;
  std::vector<pipeline::Program> scheduled;  // of chunks, by pipe rank
  std::vector<pipeline::Program> programs;   // of one block per chunk, with messages and ZeRO 0
  pipeline::Placement units = {};            // of these programs
  std::vector<std::vector<pipeline::TimedInstruction>> timeline = {};  // by pipe rank
};
ScheduleStudy study_schedule(const TrainOptions& options, int micros);

// Lines for people: times, bubble, peaks.
std::string text_of(const ScheduleAccount& account);

}  // namespace fm::engine
