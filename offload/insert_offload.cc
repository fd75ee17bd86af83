#include "offload/insert_offload.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "pipeline/ring_places.h"

namespace fm::offload {
namespace {

using pipeline::Instruction;
using pipeline::Op;
using pipeline::Program;

// Where the first fetches stand. Gradients that rest take all places of their ring before.
std::size_t lead_of(const Program& program, Reads reads) {
  const auto last =
      std::ranges::find(program.rbegin(), program.rend(), Op::kRest, &Instruction::op);
  if (last != program.rend()) return static_cast<std::size_t>(program.rend() - last);
  if (reads == Reads::kFromStart) return 0;
  const auto first = std::ranges::find_if(program, [](const Instruction& at) {
    return pipeline::row_of(at.op).writes_gradient || at.op == Op::kUpdate;
  });
  return static_cast<std::size_t>(first - program.begin());
}

// A place is free when its last unit is stored.
class Fetches {
 public:
  Fetches(const pipeline::ProgramRules& rules, std::size_t lead) : rules_(rules), lead_(lead) {}

  // The index that the fetch of the unit stands before; its update is at `update`.
  std::size_t place(int unit, std::size_t update) {
    std::size_t at = std::min(lead_, update);
    for (const int place : pipeline::ring_places(rules_.units, unit, rules_.ring())) {
      const auto before = last_.find(place);
      if (before != last_.end()) at = std::max(at, before->second + 1);
      last_[place] = update;
    }
    return at;
  }

 private:
  const pipeline::ProgramRules& rules_;
  std::size_t lead_;
  std::map<int, std::size_t> last_;  // by place: the last update in it
};

}  // namespace

Program insert_offload(const Program& program, const pipeline::ProgramRules& rules, Reads reads) {
  if (rules.awake == 0) return program;
  std::map<std::size_t, std::vector<Instruction>> fetches;  // before an index
  Fetches places(rules, lead_of(program, reads));
  for (std::size_t at = 0; at < program.size(); ++at) {
    if (program[at].op != Op::kUpdate) continue;
    const std::size_t ahead = places.place(program[at].unit, at);
    fetches[reads == Reads::kInPlace ? at : ahead].push_back({Op::kFetch, -1, program[at].unit});
  }
  Program out;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const auto here = fetches.find(at);
    if (here != fetches.end()) out.insert(out.end(), here->second.begin(), here->second.end());
    out.push_back(program[at]);
    if (program[at].op == Op::kUpdate) out.push_back({Op::kStore, -1, program[at].unit});
  }
  return out;
}

}  // namespace fm::offload
