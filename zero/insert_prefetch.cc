#include "zero/insert_prefetch.h"

#include <utility>

#include "core/check.h"

namespace fm::zero {
namespace {

using pipeline::Instruction;
using pipeline::Op;
using pipeline::Program;

struct Gathered {
  Instruction gather;
  std::size_t use = 0;       // first instruction that reads it
  std::size_t earliest = 0;  // behind the last release of the same unit
};

std::vector<Gathered> gathers_of(const Program& program, const pipeline::Placement& units) {
  std::vector<Gathered> out;
  const auto count = static_cast<std::size_t>(units.count_with_tiles());
  std::vector<std::size_t> released(count, 0);
  std::vector<int> waiting(count, -1);  // the gather of a unit that nothing has read yet
  for (std::size_t at = 0; at < program.size(); ++at) {
    const Instruction& here = program[at];
    const bool reads = units.reads_weights(here);
    if (!reads && here.op != Op::kGather && here.op != Op::kRelease) continue;
    const auto unit = static_cast<std::size_t>(units.unit_of(here));
    if (here.op == Op::kRelease) released[unit] = at + 1;
    if (here.op == Op::kGather) {
      waiting[unit] = static_cast<int>(out.size());
      out.push_back({here, at, released[unit]});
    } else if (reads && waiting[unit] >= 0) {
      out[static_cast<std::size_t>(std::exchange(waiting[unit], -1))].use = at;
    }
  }
  return out;
}

}  // namespace

Program insert_prefetch(const Program& program, const pipeline::Placement& units,
                        const std::vector<core::Elements>& elements, core::Elements window) {
  FM_CHECK(std::ssize(elements) == units.count_with_tiles(), "sizes of ", elements.size(),
           " units do not fit a model of ", units.count_with_tiles());
  const std::vector<Gathered> gathers = gathers_of(program, units);
  // Instructions before which gathers are posted, by index.
  std::vector<std::vector<Instruction>> posted(program.size());
  std::size_t floor = 0;
  for (std::size_t at = 0; at < gathers.size(); ++at) {
    const auto size = [&](std::size_t index) {
      return elements[static_cast<std::size_t>(gathers[index].gather.unit)];
    };
    core::Elements ahead = size(at);
    std::size_t place = gathers[at].use;
    for (std::size_t before = at; before > 0 && ahead <= window; --before) {
      const std::size_t use = gathers[before - 1].use;
      if (use < gathers[at].earliest || use < floor) break;
      place = use;
      ahead = ahead + size(before - 1);
    }
    floor = place;
    posted[place].push_back(gathers[at].gather);
  }
  Program out;
  for (std::size_t at = 0; at < program.size(); ++at) {
    for (const Instruction& gather : posted[at]) out.push_back(gather);
    if (program[at].op != Op::kGather) out.push_back(program[at]);
  }
  return out;
}

}  // namespace fm::zero
