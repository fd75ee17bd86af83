#include "pipeline/v_search.h"

#include <algorithm>
#include <limits>

#include "pipeline/emitter.h"

namespace fm::pipeline {
namespace {

constexpr VSearchWay kWays[] = {{false, false}, {false, true}, {true, false}, {true, true}};
constexpr double kNever = std::numeric_limits<double>::infinity();

// A micro-batch has four phases on every rank: forward of chunks 0 and 1, backward-input of chunks
// 1 and 0. The search always continues with the rank whose next instruction begins first.
class VSearch {
 public:
  VSearch(const PipeShape& shape, double limit, const VSearchWay& way)
      : shape_(shape), way_(way), most_(static_cast<int>(2 * limit)) {
    for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
      ranks_.emplace_back(shape, rank);
      for (auto& ends : ranks_.back().end) ends.reserve(static_cast<std::size_t>(shape.micros));
    }
  }

  std::vector<Program> run() {
    if (most_ < 3) return {};
    for (int left = 6 * shape_.micros * shape_.pipe_ranks; left > 0; --left) {
      Choice best;
      for (int rank = 0; rank < shape_.pipe_ranks; ++rank) {
        const Choice choice = choose(rank);
        if (choice.start < best.start) best = choice;
      }
      if (best.start == kNever) return {};
      take(best);
    }
    std::vector<Program> programs;
    for (Rank& rank : ranks_) programs.push_back(rank.emit.finish());
    return programs;
  }

 private:
  struct Rank {
    Rank(const PipeShape& shape, int pipe_rank)
        : costs(shape.costs_of(pipe_rank)), emit(shape, pipe_rank) {}
    PhaseCosts costs;
    Emitter emit;
    double clock = 0.0;
    int live = 0;
    std::vector<double> end[4];
    std::vector<std::pair<int, int>> inputs;  // (chunk, micro), in the order of backward-inputs
    std::size_t weights = 0;                  // done
  };
  struct Choice {
    double start = kNever;
    int rank = 0;
    int phase = 0;  // 4: a weight half
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  double arrival(int rank, int phase) {
    const std::size_t micro = at(rank).end[phase].size();
    if (micro == static_cast<std::size_t>(shape_.micros)) return kNever;
    double when = 0.0;
    const int from = phase % 2 == 0 ? rank - 1 : rank + 1;
    if (from >= 0 && from < shape_.pipe_ranks) {
      if (at(from).end[phase].size() <= micro) return kNever;
      when = at(from).end[phase][micro] + at(rank).costs.comm;
    }
    if (phase == 0) return when;
    const std::vector<double>& before = at(rank).end[phase - 1];
    return before.size() <= micro ? kNever : std::max(when, before[micro]);
  }

  // A forward of chunk 0 must leave room for one of chunk 1, without which no backward can follow.
  bool has_room(int rank, int phase) {
    return phase >= 2 || at(rank).live + (phase == 0 ? 2 : 1) <= most_;
  }

  Choice choose(int rank) {
    Rank& here = at(rank);
    Choice best{kNever, rank, 4};
    const int order[] = {way_.forwards_first ? 1 : 2, way_.forwards_first ? 2 : 1, 3, 0};
    for (const int phase : order) {
      if (!has_room(rank, phase)) continue;
      const double start = std::max(here.clock, arrival(rank, phase));
      if (start < best.start) best = {start, rank, phase};
    }
    if (here.weights == here.inputs.size()) return best;
    const double gap = best.start - here.clock;
    const double needed = way_.weights_in_small_gaps ? 0.0 : here.costs.weight / 2;
    const bool fits = gap > 0.0 && gap >= needed * (1.0 - 1e-9);
    return fits ? Choice{here.clock, rank, 4} : best;
  }

  void take(const Choice& choice) {
    Rank& here = at(choice.rank);
    const double times[] = {here.costs.forward, here.costs.forward, here.costs.input,
                            here.costs.input, here.costs.weight};
    here.clock = choice.start + times[choice.phase] / 2;
    if (choice.phase == 4) {
      const auto [chunk, micro] = here.inputs[here.weights++];
      here.emit.backward_weight(micro, chunk);
      --here.live;
      return;
    }
    const auto micro = static_cast<int>(here.end[choice.phase].size());
    here.end[choice.phase].push_back(here.clock);
    if (choice.phase < 2) {
      ++here.live;
      here.emit.forward(micro, choice.phase);
    } else {
      here.inputs.emplace_back(3 - choice.phase, micro);
      here.emit.backward_input(micro, 3 - choice.phase);
    }
  }

  const PipeShape& shape_;
  VSearchWay way_;
  int most_;  // chunks
  std::vector<Rank> ranks_;
};

}  // namespace

std::span<const VSearchWay> all_v_search_ways() { return kWays; }

std::vector<Program> search_v(const PipeShape& shape, double limit, const VSearchWay& way) {
  return VSearch(shape, limit, way).run();
}

}  // namespace fm::pipeline
