// A step is data: one flat list of instructions per pipe rank, made before step 1, checked for all
// ranks together, printable without a model, executed by one loop.
//
// Grammar of the pictures (print and parse are inverse):
//   program     = { instruction " " }
//   instruction = "K" | "N" | "Np" | "rn" | "sn" | "V" | "O" | "Rt"   no operand
//               | ("L" | "X") micro
//               | ("g" | "r" | "z" | "f" | "u" | "s" | "p") "." unit
//               | ("F" | "B" | "I" | "W" | "C") micro "." unit
//               | ("sa" | "ra") micro "." unit                 the hidden state that the unit reads
//               | ("sg" | "rg") micro "." unit                 the gradient of what the unit wrote
//               | "R" [micro] "." unit                           R.3 once per step, R0.3 per micro
//   micro, unit = decimal number
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace.h"

namespace fm::pipeline {

enum class Op : std::uint8_t {
  kCount,           // K   valid labels of the whole step, over all data ranks: the loss divisor
  kLoad,            // L0  next micro-batch: tokens for the embedding, labels for the head
  kSendAct,         // sa0.3 hidden state to the pipe rank of unit 3, which reads it
  kRecvAct,         // ra0.3 the same, from the pipe rank of unit 2
  kSendGrad,        // sg0.3 gradient of unit 3's output to its pipe rank
  kRecvGrad,        // rg0.3 the same, from the pipe rank of unit 4
  kGather,          // g.3 gathers all of unit 3 into a slot
  kRelease,         // r.3 frees the slot
  kForward,         // F0.3; tiles: pipeline/insert_tiles.h
  kLoss,            // X0  the head's forward and whole backward, in chunks
  kBackward,        // B0.3 = I0.3 W0.3
  kBackwardInput,   // I0.3
  kBackwardWeight,  // W0.3
  kRecompute,       // C0.3 forward again, to restore the activations that backward reads
  kReduce,          // R.3 / R0.3 gradient to its owner
  kRest,            // z.3 the finished gradient to its tier, until the update fetches it
  kReduceTied,      // Rt  adds the head's and the embedding's gradient of the shared matrix
  kNorm,            // N   the global gradient norm
  kNormPart,        // Np  instead of N: this pipe rank's part of it (pipeline/post_validation.h)
  kRecvNorm,        // rn  the parts of the pipe ranks before this one
  kSendNorm,        // sn  theirs and this rank's, to the next pipe rank
  kValidate,        // V   all parts of the last step are known: keeps or undoes its update
  kFetch,           // f.3 optimizer slice from its tier
  kUpdate,          // u.3 the update rule
  kStore,           // s.3 optimizer slice back to its tier
  kPublish,         // p.3 new weights to every rank
  kReport,          // O   loss, norm and skip flag to every rank; the end of the step
};
inline constexpr auto kOpCount = static_cast<std::size_t>(Op::kReport) + 1;

struct Instruction {
  Op op = Op::kReport;
  int micro = -1;  // -1: none
  int unit = -1;   // -1: none
  auto operator<=>(const Instruction&) const = default;
};

using Program = std::vector<Instruction>;

// The most sends of a kind that may be under way: a late receive then blocks no other message.
inline constexpr int kMostLeaving = 2;

// Buffers of one micro-batch at one unit: a hidden state or its gradient; the activations that a
// block saves for backward; the gradients that backward-input saves for backward-weight.
// What the passes over the tiles of a head know of the rows of logits is in kBetween.
enum class Pool : std::uint8_t { kHidden, kKept, kParked, kBetween };

// A buffer taken from a pool (+1) or given back (-1).
struct BufferMove {
  enum class When : std::uint8_t {
    kAlways,
    kBlock,         // the unit is a block
    kPassingBlock,  // a block whose kept values are recomputed later, or never needed
    kFed,           // the unit has an input: it is not the embedding
    kFedForward,    // it has an input, and no backward
    kGives,         // the previous unit takes the gradient of its input
    kGivesNothing,  // the previous unit takes none
    kInnerBlock,    // a recomputed block that does not start a segment: its input is recomputed
    kBeforeInner,   // a recomputed block that does not end one
    kAfterLeaving,  // a send gives back what was sent kMostLeaving sends of its kind before
  };
  Pool pool = Pool::kHidden;
  int change = 0;
  When when = When::kAlways;
};

// The properties of an op. A new op is an enumerator above, a row of the table in instruction.cc,
// and a handler of engine::StepRuntime with its case in run(); constraints on its order that the
// columns cannot express are a rule in rank_rules.cc.
struct OpRow {
  enum class Operand : std::uint8_t { kNever, kMaybe, kAlways };
  // The pipe ranks that must reach this op, or its partner, for it to happen.
  enum class Meets : std::uint8_t {
    kNobody,
    kOwner,        // of its unit
    kOwnerBefore,  // of the unit before it
    kOwnerAfter,   // of the unit after it
    kTiedEnds,
    kRankBefore,
    kRankBehind,
    kEveryRank
  };
  enum class Weights : std::uint8_t { kNotRead, kRead, kReadByBlocks };

  Op op = Op::kReport;
  std::string_view picture;
  core::TraceForm trace;
  Operand micro = Operand::kNever;
  Operand unit = Operand::kNever;
  double forwards = 0.0;  // its duration, in forwards of its unit
  Weights weights = Weights::kNotRead;
  bool makes_output = false;          // from the unit's input
  bool makes_input_gradient = false;  // from the output's gradient
  bool writes_gradient = false;       // of the unit's parameters
  // Nothing is lost when what it did is thrown away: it writes neither gradients nor weights, and
  // sends none.
  bool discardable = false;
  Meets meets = Meets::kNobody;
  Op partner = op;                         // the op that the other ranks execute
  std::span<const BufferMove> moves = {};  // in this order
};
const OpRow& row_of(Op op);

// Whether its results can be discarded: it neither writes nor sends gradients or weights.
inline bool can_be_discarded(Op op) { return row_of(op).discardable; }

std::string print(const Instruction& instruction);
std::string print(const Program& program);  // every instruction followed by one space
// Throws UserError naming a word that is no instruction.
Program parse(std::string_view pictures);

}  // namespace fm::pipeline
