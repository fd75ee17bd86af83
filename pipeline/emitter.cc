#include "pipeline/emitter.h"

#include <utility>

namespace fm::pipeline {

void Emitter::forward(int micro, int chunk) {
  const bool needs = shape_.chunk_of(pipe_rank_, chunk) == 0 || is_last(chunk);
  if (needs && loaded_.insert(micro).second) program_.push_back({Op::kLoad, micro, -1});
  program_.push_back({Op::kForward, micro, chunk});
}

void Emitter::loss(int micro, int chunk) {
  if (is_last(chunk)) program_.push_back({Op::kLoss, micro, -1});
}

void Emitter::backward(int micro, int chunk) {
  loss(micro, chunk);
  program_.push_back({Op::kBackward, micro, chunk});
}

void Emitter::backward_input(int micro, int chunk) {
  loss(micro, chunk);
  program_.push_back({Op::kBackwardInput, micro, chunk});
}

void Emitter::backward_weight(int micro, int chunk) {
  program_.push_back({Op::kBackwardWeight, micro, chunk});
}

Program Emitter::finish() {
  program_.push_back({Op::kReport, -1, -1});
  return std::move(program_);
}

}  // namespace fm::pipeline
