// One attempt of the search of ZB-1p and ZB-2p (arXiv 2401.10241): decides for all pipe ranks
// together, one micro-batch after the other, and tracks the clock and memory of every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/placement.h"

namespace fm::pipeline {

class WeightFilling {
 public:
  enum class Phase : std::uint8_t { kForward, kInput, kWeight };
  struct Way {
    bool bubble_before_first_input = false;  // a warm-up forward may end after the first gradient
    bool prefer_inputs = false;              // a rank may skip a forward that no rank waits for
    bool always_fill = false;                // put a weight half into every gap, however small
  };

  // limit: how many micro-batches a rank may keep, each counted as the larger of held and parked.
  WeightFilling(const PipeShape& shape, double limit, Way way);

  // False when the memory does not suffice.
  bool run();
  double longest_stage() const;
  const std::vector<Phase>& order_of(int rank) const { return at(rank).order; }

 private:
  struct Rank {
    PhaseCosts costs;
    double limit = 0.0;
    double clock = 0.0;
    double memory = 0.0;
    double idle = 0.0;  // since its first forward
    int count[3] = {};  // done, by phase
    std::vector<double> end[3] = {};
    std::vector<Phase> order = {};
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  static int done(const Rank& rank, Phase phase) { return rank.count[static_cast<int>(phase)]; }
  static double time(const Rank& rank, Phase phase);
  static double memory(const Rank& rank, Phase phase);
  static bool has_weight(const Rank& rank) {
    return done(rank, Phase::kWeight) < done(rank, Phase::kInput);
  }
  int last() const { return static_cast<int>(ranks_.size()) - 1; }
  bool forwards_left(const Rank& rank, int planned = 0) const {
    return done(rank, Phase::kForward) + planned < micros_;
  }

  // The time at which the input from a neighbour for the rank's next instruction of this phase
  // arrives.
  double arrival(int rank, Phase phase) const;
  double most_idle() const;
  void place(int rank, Phase phase);
  bool place_with_weights(int rank, Phase phase);
  bool make_room(int rank, Phase phase);
  void fill_gap(int rank, double until);
  void warm_up();
  int warmup_forwards(int rank, double first_gradient) const;
  bool wants_forward(int rank) const;
  bool turn();

  int micros_;
  Way way_;
  std::vector<Rank> ranks_;
};

}  // namespace fm::pipeline
