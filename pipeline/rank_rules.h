// The rules of one pipe rank's program, checked instruction by instruction. Used by validate.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/validate.h"

namespace fm::pipeline {

// Invariant: after a sequence of accepted instructions the state says exactly what has happened.
// Thread:    one.
// Lifetime:  the rules outlive it.
class RankRules {
 public:
  RankRules(const ProgramRules& rules, int pipe_rank);

  // "" when the instruction may come next, else the reason why not.
  std::string check(const Instruction& at);
  // "" when the program may end here.
  std::string check_end() const;

 private:
  using MicroUnit = std::pair<int, int>;

  std::string check_operands(const Instruction& at) const;
  std::string check_weights(const Instruction& at);
  std::string dispatch(const Instruction& at);
  std::string count();
  std::string load(int micro);
  std::string forward(int micro, int unit);
  std::string loss(int micro);
  std::string backward_input(int micro, int unit);
  std::string backward_weight(int micro, int unit);
  std::string recompute(int micro, int unit);
  std::string send(const Instruction& at);
  std::string receive(const Instruction& at);
  std::string gather(int unit);
  std::string release(int unit);
  std::string reduce(int micro, int unit);
  std::string take_gradient_slot(int micro, int unit);
  std::string take_tied_slot(int micro);
  std::string reduce_tied();
  std::string norm();
  std::string update(int unit);
  std::string publish(int unit);
  std::string report();
  std::string incomplete_compute() const;
  std::string incomplete_exchange() const;
  std::string incomplete_boundary() const;
  std::string incomplete_reductions() const;
  bool reduced(int unit) const;

  const ProgramRules& rules_;
  const UnitRow& row_;
  int rank_;
  UnitRange range_;
  UnitRange body_;

  bool counted_ = false;
  bool tied_ = false;
  bool normed_ = false;
  bool reported_ = false;
  std::set<int> loaded_, lost_;  // by micro; lost_: Loss done
  std::set<Instruction, bool (*)(const Instruction&, const Instruction&)> exchanged_;
  std::set<MicroUnit> forward_, input_, weight_, recomputed_, reduced_;
  std::set<int> gathered_, unused_;    // by unit; unused_: gathered and not read yet
  std::set<int> updated_, published_;  // by unit
  MicroUnit gradient_slot_{-1, -1};    // whole gradient that waits for its Reduce
  int tied_micro_ = -1;                // whose tied gradient waits for the embedding's Reduce
  MicroUnit parked_{-1, -1};           // whose BackwardInput waits for its BackwardWeight
  MicroUnit recompute_slot_{-1, -1};   // Recompute that waits for its backward
};

}  // namespace fm::pipeline
