#include "pipeline/insert_tiles.h"

#include <span>

namespace fm::pipeline {
namespace {

using Run = std::span<const Instruction>;  // one op of one unit, of several micro-batches

void append(Program& out, Run run, Op op, int unit) {
  for (const Instruction& at : run) out.push_back({op, at.micro, unit});
}

void append_each(Program& out, Run run, Op op, UnitRange tiles) {
  for (int tile = tiles.first; tile < tiles.last; ++tile) append(out, run, op, tile);
}

void append_loss(Program& out, Run run, const Placement& units) {
  append(out, run, Op::kForward, units.head());
  append_each(out, run, Op::kForward, units.head_tiles());
  append_each(out, run, Op::kRecompute, units.head_tiles());
  if (!units.evaluates()) append_each(out, run, Op::kBackwardWeight, units.head_tiles());
  out.insert(out.end(), run.begin(), run.end());
}

void append_embedding(Program& out, Run run, UnitRange tiles) {
  const Op op = run.front().op;
  if (op == Op::kForward) append_each(out, run, op, tiles);
  if (op == Op::kBackward) append(out, run, Op::kBackwardInput, 0);
  const bool writes = row_of(op).writes_gradient;
  if (writes) append_each(out, run, Op::kBackwardWeight, tiles);
  append(out, run, writes ? Op::kBackwardWeight : op, 0);
}

}  // namespace

Program insert_tiles(const Program& expanded, const Placement& units) {
  Program out;
  for (std::size_t at = 0; at < expanded.size();) {
    const Instruction& first = expanded[at];
    std::size_t end = at + 1;
    while (end < expanded.size() && expanded[end].op == first.op &&
           expanded[end].unit == first.unit) {
      ++end;
    }
    const Run run = std::span(expanded).subspan(at, end - at);
    if (first.op == Op::kLoss && units.head_tiles().count() > 0) {
      append_loss(out, run, units);
    } else if (first.unit == 0 && units.embedding_tiles().count() > 0) {
      append_embedding(out, run, units.embedding_tiles());
    } else {
      out.insert(out.end(), run.begin(), run.end());
    }
    at = end;
  }
  return out;
}

}  // namespace fm::pipeline
