// The rules of one pipe rank's program, checked instruction by instruction. Used by validate.
#pragma once

#include <array>
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
  using Rule = std::string (RankRules::*)(const Instruction& at);

  static Rule rule_of(Op op);
  std::string check_operands(const Instruction& at) const;
  std::string check_weights(const Instruction& at);
  std::string count(const Instruction& at);
  std::string load(const Instruction& at);
  std::string forward(const Instruction& at);
  std::string loss(const Instruction& at);
  std::string backward(const Instruction& at);
  std::string backward_input(const Instruction& at);
  std::string backward_weight(const Instruction& at);
  std::string recompute(const Instruction& at);
  std::string send(const Instruction& at);
  std::string receive(const Instruction& at);
  std::string gather(const Instruction& at);
  std::string release(const Instruction& at);
  std::string reduce(const Instruction& at);
  std::string reduce_tied(const Instruction& at);
  std::string norm(const Instruction& at);
  std::string norm_part(const Instruction& at);
  std::string receive_norm(const Instruction& at);
  std::string send_norm(const Instruction& at);
  std::string validate(const Instruction& at);
  std::string update(const Instruction& at);
  std::string publish(const Instruction& at);
  std::string offload(const Instruction& at);
  std::string report(const Instruction& at);

  // "" when what `at` takes from a neighbouring unit is at hand.
  std::string check_input(const Instruction& at) const;
  void give(const Instruction& at);
  std::string take_gradient_slot(int micro, int unit);
  std::string take_tied_slot(int micro);
  std::string incomplete_compute() const;
  std::string incomplete_exchange() const;
  std::string incomplete_boundary() const;
  std::string incomplete_reductions() const;
  bool reduced(int unit) const;
  // The instruction that writes the gradient of a unit, or its output.
  Instruction backward_of(int micro, int unit) const;
  Instruction forward_of(int micro, int unit) const;

  const ProgramRules& rules_;
  const Placement& units_;
  int rank_;

  bool counted_ = false;
  bool tied_ = false;
  bool parted_ = false;    // this rank's part of the norm is known
  bool received_ = false;  // and that of the ranks before
  bool normed_ = false;
  bool validated_ = false;
  bool reported_ = false;
  std::set<int> loaded_;            // by micro
  std::set<Instruction> messages_;  // sent and received
  std::set<Handover> made_;         // by instructions of this rank
  // Of the head all three are done by its Loss.
  std::set<MicroUnit> forward_, input_, weight_;
  std::set<MicroUnit> recomputed_, reduced_;
  std::set<int> gathered_, unused_;    // by unit; unused_: gathered and not read yet
  std::set<int> updated_, published_;  // by unit
  MicroUnit gradient_slot_{-1, -1};    // whole gradient that waits for its Reduce
  int tied_micro_ = -1;                // whose tied gradient waits for the embedding's Reduce
};

}  // namespace fm::pipeline
