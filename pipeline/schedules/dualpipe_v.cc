// DualPipeV (deepseek-ai/DualPipe, DeepSeek-V3 report, arXiv 2412.19437): the eight steps of
// DualPipe with both directions folded into a V. A forward and a backward that DualPipe overlaps
// run one after the other here. Needs m >= 2p; keeps (p + 1/2) M.
#include <deque>

#include "pipeline/schedules.h"

namespace fm::pipeline {
namespace {

// Weight halves wait in one queue, first in, first out.
class Turns {
 public:
  Turns(const PipeShape& shape, int pipe_rank) : emit_(shape, pipe_rank) {}

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

Program dualpipe_v(const PipeShape& shape, int pipe_rank) {
  const int before = pipe_rank + 1;
  const int behind = shape.pipe_ranks - before;
  Turns turns(shape, pipe_rank);
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
