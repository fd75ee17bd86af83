// The rules of one pipe rank's program, checked instruction by instruction. Used by validate.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/tile_order.h"
#include "pipeline/validate.h"

namespace fm::pipeline {

// Invariant: the state describes exactly the effects of the accepted instructions.
// Thread:    one.
// Lifetime:  the rules outlive it.
class RankRules {
 public:
  RankRules(const ProgramRules& rules, int pipe_rank);

  // "" when the instruction may be next, else the reason why not.
  std::string check(const Instruction& instruction);
  // "" when the program may end here.
  std::string check_end() const;

 private:
  using MicroUnit = std::pair<int, int>;
  using Rule = std::string (RankRules::*)(const Instruction& instruction);

  static Rule rule_of(Op op);
  std::string check_operands(const Instruction& instruction) const;
  std::string check_weights(const Instruction& instruction);
  std::string count(const Instruction& instruction);
  std::string load(const Instruction& instruction);
  std::string forward(const Instruction& instruction);
  std::string loss(const Instruction& instruction);
  std::string backward(const Instruction& instruction);
  std::string backward_input(const Instruction& instruction);
  std::string backward_weight(const Instruction& instruction);
  std::string recompute(const Instruction& instruction);
  std::string send(const Instruction& instruction);
  std::string receive(const Instruction& instruction);
  std::string gather(const Instruction& instruction);
  std::string release(const Instruction& instruction);
  std::string reduce(const Instruction& instruction);
  std::string rest(const Instruction& instruction);
  std::string reduce_tied(const Instruction& instruction);
  std::string norm(const Instruction& instruction);
  std::string norm_part(const Instruction& instruction);
  std::string receive_norm(const Instruction& instruction);
  std::string send_norm(const Instruction& instruction);
  std::string validate(const Instruction& instruction);
  std::string update(const Instruction& instruction);
  std::string publish(const Instruction& instruction);
  std::string fetch(const Instruction& instruction);
  std::string store(const Instruction& instruction);
  std::string report(const Instruction& instruction);

  // "" when the tensor that `at` takes from a neighbouring unit is available.
  std::string check_input(const Instruction& instruction) const;
  void give(const Instruction& instruction);
  std::string take_gradient_slot(int micro, int unit);
  std::string take_tied_slot(int micro);
  std::string take_ring_place(int unit);
  void leave_ring_place(int unit);
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
  TileOrder tiles_;

  bool counted_ = false;
  bool tied_ = false;
  bool parted_ = false;    // this rank's part of the norm is known
  bool received_ = false;  // and so is that of the previous ranks
  bool normed_ = false;
  bool validated_ = false;
  bool reported_ = false;
  std::set<int> loaded_;            // by micro
  std::set<Instruction> messages_;  // sent and received
  std::set<Handover> made_;         // by instructions of this rank
  // Loss does all three for the head.
  std::set<MicroUnit> forward_, input_, weight_;
  std::set<MicroUnit> recomputed_, reduced_;
  std::set<int> gathered_, unused_;    // by unit; unused_: gathered and not read yet
  std::set<int> updated_, published_;  // by unit
  std::set<int> fetched_, stored_;     // the same
  std::map<int, int> occupied_;        // places of the ring: by whom, until that is stored
  MicroUnit gradient_slot_{-1, -1};    // the complete gradient that waits for its Reduce
  std::set<int> rested_;               // by unit
  std::vector<int> ring_;              // the unit whose gradient has the place, -1: none
  int tied_micro_ = -1;                // the micro-batch whose tied gradient waits for a Reduce
};

}  // namespace fm::pipeline
