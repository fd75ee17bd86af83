// Handcrafted ZB-V (arXiv 2405.15362; ScheduleZBVZeroBubble of PyTorch): two chunks per rank in a
// V, so the loss is on the rank of the tokens. No bubble from first to last instruction of a rank
// where F = I = W and m >= 2p - 1; keeps p M on every rank.
#include <algorithm>

#include "pipeline/schedules.h"

namespace fm::pipeline {
namespace {

// Counts micro-batches per chunk; those that the step does not have are skipped, so fewer than
// 2p - 1 micro-batches give the full schedule with gaps.
class Turns {
 public:
  Turns(const PipeShape& shape, int pipe_rank)
      : emit_(shape, pipe_rank),
        micros_(shape.micros),
        padded_(std::max(2 * shape.pipe_ranks - 1, shape.micros)) {}

  bool left(int chunk) const { return forwards_[chunk] < padded_; }
  bool chunks_are_apart() const { return forwards_[1] < forwards_[0]; }
  bool weights_left(int chunk) const { return weights_[chunk] < padded_; }

  void forward(int chunk) {
    if (const int micro = forwards_[chunk]++; micro < micros_) emit_.forward(micro, chunk);
  }
  void input(int chunk) {
    if (const int micro = inputs_[chunk]++; micro < micros_) emit_.backward_input(micro, chunk);
  }
  void weight(int chunk) {
    if (const int micro = weights_[chunk]++; micro < micros_) emit_.backward_weight(micro, chunk);
  }
  void backward(int chunk) {
    input(chunk);
    weight(chunk);
  }
  Program finish() { return emit_.finish(); }

 private:
  Emitter emit_;
  int micros_;
  int padded_;
  int forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
};

}  // namespace

Program zb_v(const PipeShape& shape, int pipe_rank) {
  const int behind = shape.pipe_ranks - pipe_rank;
  Turns turns(shape, pipe_rank);
  for (int i = 0; i < 2 * behind - 1; ++i) turns.forward(0);
  for (int i = 0; i < pipe_rank; ++i) {
    turns.forward(1);
    turns.forward(0);
  }
  for (int i = 0; i < behind; ++i) {
    turns.forward(1);
    turns.backward(1);
  }
  while (turns.chunks_are_apart() || turns.left(0)) {
    if (turns.left(0)) turns.forward(0);
    turns.backward(0);
    turns.forward(1);
    turns.backward(1);
  }
  for (int i = 0; i < pipe_rank; ++i) {
    turns.input(0);
    turns.input(1);
  }
  for (int i = 0; i < behind; ++i) turns.backward(0);
  for (const int chunk : {1, 0}) {
    while (turns.weights_left(chunk)) turns.weight(chunk);
  }
  return turns.finish();
}

}  // namespace fm::pipeline
