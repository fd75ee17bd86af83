#include "pipeline/schedules/v_shaped.h"

#include <algorithm>
#include <deque>

#include "pipeline/emitter.h"

namespace fm::pipeline {
namespace {

// Counts micro-batches per chunk; those that the step does not have are skipped, so fewer than
// 2p - 1 micro-batches give the full schedule with gaps.
class ZbVTurns {
 public:
  ZbVTurns(const PipeShape& shape, int pipe_rank)
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

// Weight halves wait in one queue, first in, first out.
class DualPipeTurns {
 public:
  DualPipeTurns(const PipeShape& shape, int pipe_rank) : emit_(shape, pipe_rank) {}

  void forward(int chunk) { emit_.forward(forwards_[chunk]++, chunk); }
  void backward(int chunk) { emit_.backward(backwards_[chunk]++, chunk); }
  void input(int chunk) {
    waiting_.push_back({chunk, backwards_[chunk]});
    emit_.backward_input(backwards_[chunk]++, chunk);
  }
  void weight() {
    emit_.backward_weight(waiting_.front().second, waiting_.front().first);
    waiting_.pop_front();
  }
  void pair(int forward_chunk, int backward_chunk) {
    forward(forward_chunk);
    backward(backward_chunk);
  }
  Program finish() {
    while (!waiting_.empty()) weight();
    return emit_.finish();
  }

 private:
  Emitter emit_;
  int forwards_[2] = {}, backwards_[2] = {};
  std::deque<std::pair<int, int>> waiting_;  // (chunk, micro)
};

}  // namespace

Program zb_v(const PipeShape& shape, int pipe_rank) {
  const int behind = shape.pipe_ranks - pipe_rank;
  ZbVTurns turns(shape, pipe_rank);
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

Program dualpipe_v(const PipeShape& shape, int pipe_rank) {
  const int before = pipe_rank + 1;
  const int behind = shape.pipe_ranks - before;
  DualPipeTurns turns(shape, pipe_rank);
  for (int i = 0; i < 2 * behind; ++i) turns.forward(0);
  for (int i = 0; i < before; ++i) {
    turns.forward(0);
    turns.forward(1);
  }
  for (int i = 0; i < behind; ++i) {
    turns.input(1);
    turns.weight();
    turns.forward(1);
  }
  for (int i = 0; i < shape.micros - 2 * shape.pipe_ranks + before; ++i) {
    turns.pair(0, 1);
    turns.pair(1, 0);
  }
  for (int i = 0; i < behind; ++i) {
    turns.backward(1);
    turns.pair(1, 0);
  }
  for (int i = 0; i < 2 * before; ++i) {  // the second half leaves its weight halves for later
    const int chunk = i % 2 == 0 ? 1 : 0;
    if (i < before) {
      turns.backward(chunk);
    } else {
      turns.input(chunk);
    }
  }
  for (int i = 0; i < behind; ++i) {
    turns.weight();
    turns.input(0);
  }
  return turns.finish();
}

}  // namespace fm::pipeline
