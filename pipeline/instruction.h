// A step is data: one flat list of instructions per pipe rank, made before step 1, checked for all
// ranks together, printable without a model, executed by one loop.
//
// Grammar of the pictures (print and parse are inverse):
//   program     = { instruction " " }
//   instruction = "K" | "N" | "O" | "Rt"                         no operand
//               | ("L" | "X" | "sa" | "ra" | "sg" | "rg") micro
//               | ("g" | "r" | "f" | "u" | "s" | "p") "." unit
//               | ("F" | "B" | "I" | "W" | "C") micro "." unit
//               | "R" [micro] "." unit                           R.3 once per step, R0.3 per micro
//   micro, unit = decimal number
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace_recorder.h"

namespace fm::pipeline {

enum class Op : std::uint8_t {
  kCount,           // K   valid labels of the whole step, over all data ranks: the loss divisor
  kLoad,            // L0  next micro-batch: tokens on the first pipe rank, labels on the last
  kSendAct,         // sa0 hidden state to the next pipe rank
  kRecvAct,         // ra0 hidden state from the previous pipe rank
  kSendGrad,        // sg0 its gradient to the previous pipe rank
  kRecvGrad,        // rg0 its gradient from the next pipe rank
  kGather,          // g.3 unit 3 whole in a slot
  kRelease,         // r.3 slot given back
  kForward,         // F0.3
  kLoss,            // X0  the head's forward and whole backward, in chunks
  kBackward,        // B0.3 = I0.3 W0.3
  kBackwardInput,   // I0.3
  kBackwardWeight,  // W0.3
  kRecompute,       // C0.3 forward again, to fill what backward needs
  kReduce,          // R.3 / R0.3 gradient to its owner
  kReduceTied,      // Rt  head's and embedding's gradient of the shared matrix, added
  kNorm,            // N   the one global number
  kFetch,           // f.3 optimizer slice from its tier
  kUpdate,          // u.3 the update rule
  kStore,           // s.3 optimizer slice back to its tier
  kPublish,         // p.3 new weights to every rank
  kReport,          // O   loss, norm and skip flag to everyone; the end of the step
};

struct Instruction {
  Op op = Op::kReport;
  int micro = -1;  // -1: none
  int unit = -1;   // -1: none
  bool operator==(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

// What is known of an op beside what it does. A new one is an enumerator above, a row of the table
// in instruction.cc, and a case of engine::StepRuntime::run with its handler.
struct OpRow {
  enum class Operand : std::uint8_t { kNever, kMaybe, kAlways };
  // The pipe ranks that must come to it, or to its partner, for it to happen.
  enum class Meets : std::uint8_t { kNobody, kNextRank, kPreviousRank, kTiedEnds, kEveryRank };
  enum class Weights : std::uint8_t { kNotRead, kRead, kReadByBlocks };

  Op op = Op::kReport;
  std::string_view picture;
  core::TraceForm trace;
  Operand micro = Operand::kNever;
  Operand unit = Operand::kNever;
  double forwards = 0.0;  // its time, in forwards of its unit
  Weights weights = Weights::kNotRead;
  bool writes_gradient = false;
  Meets meets = Meets::kNobody;
  Op partner = op;  // what the others come to
};
const OpRow& row_of(Op op);

std::string print(const Instruction& instruction);
std::string print(const Program& program);  // every instruction followed by one space
// Throws UserError naming the word that is no instruction.
Program parse(std::string_view pictures);

}  // namespace fm::pipeline
