#include "pipeline/weight_filling.h"

#include <algorithm>

#include "core/check.h"

namespace fm::pipeline {

WeightFilling::WeightFilling(const PipeShape& shape, double limit, Way way)
    : micros_(shape.micros), way_(way), ranks_(static_cast<std::size_t>(shape.pipe_ranks)) {
  constexpr double kSlack = 1e-9;  // rounding of sums in different orders
  for (int rank = 0; rank < shape.pipe_ranks; ++rank) {
    at(rank).costs = shape.costs_of(rank);
    const double each = std::max(at(rank).costs.held, at(rank).costs.parked);
    at(rank).limit = limit * each * (1.0 + kSlack);
  }
}

double WeightFilling::time(const Rank& rank, Phase phase) {
  const double times[] = {rank.costs.forward, rank.costs.input, rank.costs.weight};
  return times[static_cast<int>(phase)];
}

double WeightFilling::memory(const Rank& rank, Phase phase) {
  const double change[] = {rank.costs.held, rank.costs.parked - rank.costs.held,
                           -rank.costs.parked};
  return change[static_cast<int>(phase)];
}

double WeightFilling::arrival(int rank, Phase phase) const {
  const bool down = phase == Phase::kForward && rank > 0;
  const bool up = phase == Phase::kInput && rank < last();
  if (!down && !up) return 0.0;
  const Rank& from = at(down ? rank - 1 : rank + 1);
  const std::vector<double>& ends = from.end[static_cast<int>(phase)];
  const auto micro = static_cast<std::size_t>(done(at(rank), phase));
  FM_CHECK(micro < ends.size(), "pipe rank ", rank, " waits for what is not there");
  return ends[micro] + at(rank).costs.comm;
}

double WeightFilling::most_idle() const {
  return std::ranges::max_element(ranks_, {}, &Rank::idle)->idle;
}

void WeightFilling::place(int rank, Phase phase) {
  Rank& here = at(rank);
  const double start = std::max(here.clock, arrival(rank, phase));
  if (done(here, Phase::kForward) > 0) here.idle += start - here.clock;
  here.clock = start + time(here, phase);
  here.memory += memory(here, phase);
  here.end[static_cast<int>(phase)].push_back(here.clock);
  here.order.push_back(phase);
  ++here.count[static_cast<int>(phase)];
}

bool WeightFilling::make_room(int rank, Phase phase) {
  Rank& here = at(rank);
  while (here.memory + memory(here, phase) > here.limit) {
    if (!has_weight(here)) return false;
    place(rank, Phase::kWeight);
  }
  return true;
}

// A gap that is shorter than a weight half is filled only if leaving it would make this the most
// idle rank.
void WeightFilling::fill_gap(int rank, double until) {
  Rank& here = at(rank);
  while (has_weight(here) && here.clock + here.costs.weight <= until) place(rank, Phase::kWeight);
  if (!has_weight(here) || here.clock >= until) return;
  const bool shows = until - here.clock > most_idle() - here.idle;
  if (shows || way_.always_fill) place(rank, Phase::kWeight);
}

bool WeightFilling::place_with_weights(int rank, Phase phase) {
  if (!make_room(rank, phase)) return false;
  fill_gap(rank, arrival(rank, phase));
  const bool only_backward = rank == 0 && !forwards_left(at(rank));
  while (phase == Phase::kInput && only_backward && has_weight(at(rank))) {
    place(rank, Phase::kWeight);
  }
  place(rank, phase);
  return true;
}

int WeightFilling::warmup_forwards(int rank, double first_gradient) const {
  const Rank& here = at(rank);
  double clock = here.clock;
  double kept = here.memory;
  int count = 0;
  const double each = std::max(here.costs.held, here.costs.parked);
  while (forwards_left(here, count) && kept + each <= here.limit) {
    const double ends = clock + here.costs.forward;
    const bool late =
        way_.bubble_before_first_input ? ends > first_gradient : clock >= first_gradient;
    if (late) break;
    clock = ends;
    kept += here.costs.held;
    ++count;
  }
  return count;
}

// The first micro-batch passes through all ranks; every rank adds forwards until its gradient comes
// back, fewer than the rank before it while it has forwards left.
void WeightFilling::warm_up() {
  for (int rank = 0; rank <= last(); ++rank) place(rank, Phase::kForward);
  std::vector<int> more(ranks_.size(), 0);
  double input_end = at(last()).clock + at(last()).costs.input;
  for (int rank = last() - 1; rank >= 0; --rank) {
    const double gradient = input_end + at(rank).costs.comm;
    int& count = more[static_cast<std::size_t>(rank)];
    count = warmup_forwards(rank, gradient);
    const double clock = at(rank).clock + count * at(rank).costs.forward;
    input_end = std::max(clock, gradient) + at(rank).costs.input;
  }
  for (int rank = 0; rank <= last(); ++rank) {
    int& count = more[static_cast<std::size_t>(rank)];
    const int before = rank > 0 ? more[static_cast<std::size_t>(rank - 1)] : micros_;
    // As many as the previous rank only where it has no forwards left.
    while (count > before || (count == before && count > 0 && forwards_left(at(rank), count))) {
      --count;
    }
    for (int i = 0; i < count; ++i) place(rank, Phase::kForward);
  }
  for (int rank = last(); rank >= 0; --rank) place(rank, Phase::kInput);
}

bool WeightFilling::wants_forward(int rank) const {
  const Rank& here = at(rank);
  if (!forwards_left(here)) return false;
  if (rank == last() || !way_.prefer_inputs) return true;
  const Rank& behind = at(rank + 1);
  if (done(here, Phase::kForward) < done(behind, Phase::kForward) + 2) return true;
  const double needed = behind.clock + behind.costs.forward + behind.costs.input + here.costs.comm;
  if (here.clock >= needed) return false;
  double kept = here.memory + here.costs.held;
  double weights = 0.0;
  const int waiting = done(here, Phase::kInput) - done(here, Phase::kWeight);
  for (int i = 0; i < waiting && kept > here.limit; ++i) {
    weights += here.costs.weight;
    kept -= here.costs.parked;
  }
  if (here.clock + here.costs.forward + weights <= needed) return true;
  return needed - here.clock > most_idle() - here.idle;
}

bool WeightFilling::turn() {
  std::vector<bool> wanted;
  for (int rank = 0; rank <= last(); ++rank) wanted.push_back(wants_forward(rank));
  for (std::size_t rank = ranks_.size() - 1; rank > 0; --rank) {
    wanted[rank - 1] = wanted[rank - 1] && wanted[rank];
  }
  for (int rank = 0; rank <= last(); ++rank) {
    const bool comes =
        rank == 0 || done(at(rank - 1), Phase::kForward) > done(at(rank), Phase::kForward);
    if (!wanted[static_cast<std::size_t>(rank)] || !comes) continue;
    place_with_weights(rank, Phase::kForward);  // skipped where memory does not suffice
  }
  for (int rank = last(); rank >= 0; --rank) {
    if (!place_with_weights(rank, Phase::kInput)) return false;
  }
  return true;
}

bool WeightFilling::run() {
  for (const Rank& rank : ranks_) {
    if (std::max(rank.costs.held, rank.costs.parked) > rank.limit) return false;
  }
  warm_up();
  for (int micro = 1; micro < micros_; ++micro) {
    if (!turn()) return false;
  }
  for (int rank = 0; rank <= last(); ++rank) {
    while (has_weight(at(rank))) place(rank, Phase::kWeight);
  }
  return true;
}

double WeightFilling::longest_stage() const {
  double longest = 0.0;
  for (const Rank& rank : ranks_) {
    const double start = rank.end[0].front() - rank.costs.forward;
    longest = std::max(longest, rank.clock - start);
  }
  return longest;
}

}  // namespace fm::pipeline
