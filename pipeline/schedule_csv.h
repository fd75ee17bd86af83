// Schedules in the CSV format of torch.distributed.pipelining: one row per pipe rank, one cell per
// action; an empty cell is idle.
//
//   cell    = [ action | "(" action { ";" action } ")OVERLAP_F_B" ]
//   action  = stage type [ micro ]                  2F0, 1I3, 0UNSHARD
//   type    = "F" | "B" | "I" | "W"                 forward, whole backward, its halves
//           | "SEND_F" | "RECV_F" | "SEND_B" | "RECV_B"
//           | "UNSHARD" | "RESHARD" | "REDUCE_GRAD"  without a micro-batch
//
// A stage is a chunk, numbered in the order of units. A message is named by the stage that sends or
// receives it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"

namespace fm::pipeline {

// A schedule of the user's own. shape.owners has the owner of every stage.
struct OwnSchedule {
  std::string name;
  PipeShape shape;
  std::vector<Program> programs;  // by pipe rank, as make_programs returns them
  int shard_cells = 0;  // number of UNSHARD, RESHARD and REDUCE_GRAD cells, which are ignored
};

// `name`: of the file. Only computing actions count: messages, gathers and reductions are derived
// from them as for any schedule. Throws UserError (11) that names row and cell, or the stage and
// micro-batch that is missing, duplicated, or too early.
OwnSchedule read_schedule_csv(std::string_view text, const std::string& name);

enum class CsvForm : std::uint8_t { kComputeOnly, kWithMessages };
std::string write_schedule_csv(const std::vector<Program>& scheduled, const PipeShape& shape,
                               CsvForm form);

}  // namespace fm::pipeline
