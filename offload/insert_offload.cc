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

// Where the first fetches stand: the writes of the last step have the time of the forwards, and the
// reads that of the backwards. Gradients that rest take all places of their ring before.
std::size_t lead_of(const Program& program) {
  const auto last =
      std::ranges::find(program.rbegin(), program.rend(), Op::kRest, &Instruction::op);
  if (last != program.rend()) return static_cast<std::size_t>(program.rend() - last);
  const auto first = std::ranges::find_if(program, [](const Instruction& at) {
    return pipeline::row_of(at.op).writes_gradient || at.op == Op::kUpdate;
  });
  return static_cast<std::size_t>(first - program.begin());
}

// A place is free when its last unit is stored. Where the ring has more than two, one more update
// comes before the next unit is fetched into it, during which the last one leaves: nobody waits.
class Fetches {
 public:
  Fetches(const pipeline::ProgramRules& rules, std::size_t lead) : rules_(rules), lead_(lead) {}

  // The index that the fetch of the unit stands before; its update is at `update`.
  std::size_t place(int unit, std::size_t update) {
    std::size_t at = std::min(lead_, update);
    for (const int place : pipeline::ring_places(rules_.units, unit, rules_.awake)) {
      const auto before = last_.find(place);
      if (before != last_.end()) at = std::max(at, free_behind(before->second, update));
      last_[place] = updates_.size();
    }
    updates_.push_back(update);
    return at;
  }

 private:
  // `number`: of an update.
  std::size_t free_behind(std::size_t number, std::size_t update) const {
    const bool waits = rules_.awake > pipeline::kLeastRing && number + 1 < updates_.size();
    return std::min(updates_[waits ? number + 1 : number] + 1, update);
  }

  const pipeline::ProgramRules& rules_;
  std::size_t lead_;
  std::vector<std::size_t> updates_;  // where they are
  std::map<int, std::size_t> last_;   // by place: the number of the last update in it
};

}  // namespace

Program insert_offload(const Program& program, const pipeline::ProgramRules& rules, Reads reads) {
  if (rules.awake == 0) return program;
  std::map<std::size_t, std::vector<Instruction>> fetches;  // before an index
  Fetches places(rules, lead_of(program));
  for (std::size_t at = 0; at < program.size(); ++at) {
    if (program[at].op != Op::kUpdate) continue;
    const std::size_t ahead = places.place(program[at].unit, at);
    fetches[reads == Reads::kAhead ? ahead : at].push_back({Op::kFetch, -1, program[at].unit});
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
