// What each instruction consumes and produces: the meaning of DESIGN 1 as a table, for the
// mutation test. Knows nothing of the validator.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/instruction.h"
#include "pipeline/placement.h"
#include "pipeline/ring_places.h"

namespace fm::pipeline {

enum class ValueKind : std::uint8_t {
  kDivisor,        // valid labels of the step
  kBatch,          // tokens and labels of a micro-batch
  kHidden,         // output of a unit
  kHiddenGrad,     // its gradient
  kKept,           // what backward of a unit needs
  kParked,         // what backward-input leaves for backward-weight
  kGathered,       // whole weights of a unit
  kGradientSlot,   // the one place for a whole gradient that goes to its owner
  kGradient,       // gradient of a unit, added up over the step
  kReduced,        // gradient of a unit at its owner
  kNorm,           // micro: kPart, kBefore; -1: what an update needs of it
  kValidated,      // the step before
  kFetched,        // optimizer slice on the device
  kRingPlace,      // unit: the place, of slices that are awake
  kGradientPlace,  // unit: the place, of gradients that rest
  kUpdated,        // new weights at their owner
  kPublished,      // new weights everywhere
  kOnTheWire,      // something a neighbouring pipe rank waits for
};

struct Value {
  ValueKind kind = ValueKind::kNorm;
  int micro = -1;
  int unit = -1;
  bool operator==(const Value&) const = default;
};

struct Effects {
  std::vector<Value> consumes;
  std::vector<Value> produces;  // or destroys: whoever wants the old value must come before
  bool ends_the_step = false;
};

struct StepForm {
  const Placement& units;
  int micros = 1;
  bool reduce_every_micro = false;
  Ring ring = {};
  int gradient_places = 0;  // of that of gradients which rest
};

Effects effects_of(const Instruction& at, const StepForm& form, int pipe_rank);

enum class Dependence : std::uint8_t { kNone, kHere, kThroughOtherRanks };

// Whether the order of two neighbours of one program matters, and where it would show.
Dependence dependence(const Effects& first, const Effects& second);

}  // namespace fm::pipeline
