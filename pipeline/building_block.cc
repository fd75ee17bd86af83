#include "pipeline/building_block.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <tuple>

#include "core/check.h"
#include "pipeline/emitter.h"

namespace fm::pipeline {
namespace {

constexpr int kPeriod = 6;
constexpr int kPhases = 4;
constexpr int kWithWeights = 6;  // and the weight halves of phases 2 and 3
constexpr int kChunkOf[kPhases] = {0, 1, 1, 0};
constexpr int kFree = -1;

struct SlotAction {
  int phase = 0;
  int micro = 0;
  bool weight = false;  // the weight half, where it is a separate instruction
};

// The time slots of one rank.
class RankSlots {
 public:
  RankSlots(const std::array<int, kPhases>& starts, int micros, bool whole)
      : micros_(micros), whole_(whole) {
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int micro = 0; micro < micros; ++micro) {
        const int start = starts[static_cast<std::size_t>(phase)] + kPeriod * micro;
        starts_[phase].push_back(start);
        put(phase, micro, start);
      }
    }
  }

  int start(int phase, int micro) const { return starts_[phase][static_cast<std::size_t>(micro)]; }
  int length(int phase) const { return whole_ && phase >= 2 ? 2 : 1; }
  int phases() const { return starts_[kPhases].empty() ? kPhases : kWithWeights; }
  int end(int phase, int micro) const { return start(phase, micro) + length(phase); }

  // Moves the instruction to the first free slot from `earliest` on with which the rank keeps at
  // most `most` chunks.
  void move_ahead(int phase, int micro, int earliest, int most) {
    const int now = start(phase, micro);
    clear(phase, now);
    for (int place = earliest; place < now; ++place) {
      if (!is_free(place, length(phase))) continue;
      put(phase, micro, place);
      if (peak() <= most) return;
      clear(phase, place);
    }
    put(phase, micro, now);
  }

  // All actions with their slots. Weight halves without a slot of their own take free ones.
  std::vector<std::pair<int, SlotAction>> actions() const {
    std::vector<std::pair<int, SlotAction>> out;
    std::deque<SlotAction> weights;
    const auto size = static_cast<int>(units_.size());
    for (int at = 0; at < size || !weights.empty(); ++at) {
      const int here = at < size ? units_[static_cast<std::size_t>(at)] : kFree;
      if (here == kFree && !weights.empty()) {
        out.emplace_back(at, weights.front());
        weights.pop_front();
      }
      const bool goes_on = at > 0 && at < size && units_[static_cast<std::size_t>(at - 1)] == here;
      if (here == kFree || goes_on) continue;
      const int phase = here / micros_;
      const bool weight = phase >= kPhases;
      out.emplace_back(at, SlotAction{weight ? phase - 2 : phase, here % micros_, weight});
      const bool halves = !whole_ && phase >= 2 && !weight && starts_[kPhases].empty();
      if (halves) weights.push_back({phase, here % micros_, true});
    }
    return out;
  }

  // Assigns to weight halves the slots that actions() would give them.
  void place_weights() {
    const std::vector<std::pair<int, SlotAction>> all = actions();
    for (int phase = kPhases; phase < kWithWeights; ++phase) {
      starts_[phase].resize(static_cast<std::size_t>(micros_));
    }
    for (const auto& [unit, action] : all) {
      if (action.weight) put(action.phase + 2, action.micro, unit);
    }
  }
  void drop_weights() {
    for (int phase = kPhases; phase < kWithWeights; ++phase) {
      for (const int unit : starts_[phase]) clear(phase, unit);
      starts_[phase].clear();
    }
  }

  int peak() const {
    int live = 0;
    int peak = 0;
    for (const auto& [unit, action] : actions()) {
      if (action.phase < 2) peak = std::max(peak, ++live);
      if (action.phase >= 2 && action.weight != whole_) --live;
    }
    return peak;
  }

 private:
  bool is_free(int place, int length) const {
    for (int at = place; at < place + length; ++at) {
      const auto index = static_cast<std::size_t>(at);
      if (index < units_.size() && units_[index] != kFree) return false;
    }
    return true;
  }
  void put(int phase, int micro, int place) {
    const auto end = static_cast<std::size_t>(place + length(phase));
    if (units_.size() < end) units_.resize(end, kFree);
    FM_CHECK(is_free(place, length(phase)), "a building block meets itself");
    starts_[phase][static_cast<std::size_t>(micro)] = place;
    for (std::size_t at = end - static_cast<std::size_t>(length(phase)); at < end; ++at) {
      units_[at] = phase * micros_ + micro;
    }
  }
  void clear(int phase, int place) {
    for (int at = place; at < place + length(phase); ++at) {
      units_[static_cast<std::size_t>(at)] = kFree;
    }
  }

  int micros_;
  bool whole_;
  std::vector<int> starts_[kWithWeights];
  std::vector<int> units_;  // phase x micros + micro, or kFree
};

// The first slot at which the input of the instruction is available.
int earliest(const std::vector<RankSlots>& rows, std::size_t rank, int phase, int micro) {
  if (phase >= kPhases) return rows[rank].end(phase - 2, micro);
  int unit = 0;
  const bool down = phase % 2 == 0;  // from rank 0 to the last one
  if (down && rank > 0) unit = rows[rank - 1].end(phase, micro);
  if (!down && rank + 1 < rows.size()) unit = rows[rank + 1].end(phase, micro);
  if (phase > 0) unit = std::max(unit, rows[rank].end(phase - 1, micro));
  if (micro > 0) unit = std::max(unit, rows[rank].end(phase, micro - 1));
  return unit;
}

// Moves ahead the instructions that begin in [first, last), in order of time.
void move_ahead(std::vector<RankSlots>& rows, int first, int last, int micros, int most) {
  std::vector<std::tuple<int, std::size_t, int, int>> by_time;  // start, rank, phase, micro
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (int phase = 0; phase < rows[rank].phases(); ++phase) {
      for (int micro = 0; micro < micros; ++micro) {
        const int start = rows[rank].start(phase, micro);
        if (start >= first && start < last) by_time.emplace_back(start, rank, phase, micro);
      }
    }
  }
  std::ranges::sort(by_time);
  for (const auto& [start, rank, phase, micro] : by_time) {
    rows[rank].move_ahead(phase, micro, earliest(rows, rank, phase, micro), most);
  }
}

// In the warm-up weight halves keep their slots until they are moved; in the cool-down they follow.
void move_all_ahead(std::vector<RankSlots>& rows, BuildingBlock::Moves moves, int micros) {
  constexpr int kEnd = std::numeric_limits<int>::max();
  int most = 0;
  for (const RankSlots& row : rows) most = std::max(most, row.peak());
  if (moves == BuildingBlock::Moves::kAll) return move_ahead(rows, 0, kEnd, micros, most);
  const int warm = rows.front().start(kPhases - 1, 0);
  for (RankSlots& row : rows) row.place_weights();
  move_ahead(rows, 0, warm, micros, most);
  for (RankSlots& row : rows) row.drop_weights();
  const int cool = rows.front().start(0, micros - 1) + 1;
  move_ahead(rows, cool, kEnd, micros, most);
}

}  // namespace

std::vector<Program> repeat_block(const BuildingBlock& block, const PipeShape& shape) {
  const bool whole = block.backward == BuildingBlock::Backward::kWhole;
  std::vector<RankSlots> rows;
  for (const auto& starts : block.starts) rows.emplace_back(starts, shape.micros, whole);
  move_all_ahead(rows, block.moves, shape.micros);
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    Emitter emit(shape, rank);
    for (const auto& [unit, action] : rows[static_cast<std::size_t>(rank)].actions()) {
      const int chunk = kChunkOf[action.phase];
      if (action.phase < 2) emit.forward(action.micro, chunk);
      if (action.phase >= 2 && whole) emit.backward(action.micro, chunk);
      if (action.phase >= 2 && !whole && !action.weight) emit.backward_input(action.micro, chunk);
      if (action.weight) emit.backward_weight(action.micro, chunk);
    }
    programs.push_back(emit.finish());
  }
  return programs;
}

}  // namespace fm::pipeline
