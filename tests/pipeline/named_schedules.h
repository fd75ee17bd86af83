// Schedules by name, and what they say in the words of torch.distributed.pipelining.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "pipeline/schedules/schedules.h"

namespace fm::pipeline {

inline const ScheduleRow& row_named(std::string_view name) {
  for (const ScheduleRow& row : all_schedules()) {
    if (row.name == name) return row;
  }
  FM_CHECK(false, "there is no schedule ", name);
}

struct Named {
  PipeShape shape;
  std::vector<Program> programs;
};
// chunks 0: the schedule's own number.
inline Named named(std::string_view name, int pipe_ranks, int micros, int chunks = 0,
                   const PhaseCosts& costs = {}) {
  const ScheduleRow& row = row_named(name);
  Named out{{.pipe_ranks = pipe_ranks,
             .micros = micros,
             .chunks = chunks_of(row, chunks),
             .order = row.order,
             .costs = std::vector<PhaseCosts>(static_cast<std::size_t>(pipe_ranks), costs)},
            {}};
  out.programs = make_programs(row, out.shape);
  return out;
}

// "0F0 0I0 0W0": stage, type, micro-batch.
inline std::string stage_actions(const Program& program, const PipeShape& shape, int pipe_rank) {
  std::string out;
  for (const Instruction& at : program) {
    if (at.unit < 0) continue;
    if (!out.empty()) out += " ";
    out += core::concat(shape.chunk_of(pipe_rank, at.unit), row_of(at.op).picture, at.micro);
  }
  return out;
}

}  // namespace fm::pipeline
