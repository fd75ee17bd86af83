#include "core/phases.h"

namespace fm::core {

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kLoss: return "loss";
    case Phase::kBackward: return "backward";
    case Phase::kGather: return "gather";
    case Phase::kReduce: return "reduce";
    case Phase::kPipe: return "pipe";
    case Phase::kOptimizer: return "optimizer";
    case Phase::kData: return "data";
    case Phase::kOther: return "other";
  }
  return "?";
}

}  // namespace fm::core
