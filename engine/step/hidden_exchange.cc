#include "engine/step/hidden_exchange.h"

namespace fm::engine {

using core::Phase;
using core::TraceRange;

Hidden HiddenExchange::receive_from(int pipe_rank) {
  Hidden hidden{state_.hidden.lend(), {}};
  hidden.arriving = state_.pipe->receive(span_of(hidden.data), pipe_rank);
  return hidden;
}

void HiddenExchange::wait_for(Hidden& hidden) {
  if (hidden.arriving.done()) return;
  const TraceRange range(clock_, Phase::kPipe);
  hidden.arriving.wait(state_.work);
}

void HiddenExchange::send_to(int pipe_rank, void* data, Direction direction) {
  Leaving& leaving = direction == Direction::kForward ? forward_ : backward_;
  Sent& sent = leaving.sent[leaving.oldest];
  leaving.oldest = (leaving.oldest + 1) % leaving.sent.size();
  settle(sent);
  sent.data = data;
  sent.leaving = state_.pipe->send(span_of(data), pipe_rank);
}

void HiddenExchange::settle() {
  settle(forward_);
  settle(backward_);
}

void HiddenExchange::settle(Leaving& leaving) {
  for (std::size_t at = 0; at < leaving.sent.size(); ++at) {
    settle(leaving.sent[(leaving.oldest + at) % leaving.sent.size()]);
  }
}

void HiddenExchange::settle(Sent& sent) {
  if (sent.data == nullptr) return;
  const TraceRange range(clock_, Phase::kPipe);
  sent.leaving.wait(state_.work);
  state_.hidden.take_back(std::exchange(sent.data, nullptr));
}

}  // namespace fm::engine
