// Hidden states and their gradients on their way between pipe ranks.
#pragma once

#include <array>

#include "core/phases.h"
#include "engine/step/rank_state.h"

namespace fm::engine {

// A hidden state or its gradient, maybe still on its way.
struct Hidden {
  void* data = nullptr;
  comm::Pending arriving;
};

// Invariant: of each direction at most kMostLeaving buffers are leaving, lent from the pool until
//            then.
// Thread:    the rank's thread.
// Lifetime:  state and clock outlive it.
class HiddenExchange {
 public:
  enum class Direction : std::uint8_t { kForward, kBackward };

  HiddenExchange(RankState& state, core::PhaseClock& clock) : state_(state), clock_(clock) {}

  Hidden receive_from(int pipe_rank);
  void wait_for(Hidden& hidden);
  // Takes the buffer over; waits until the one that was sent kMostLeaving before has left.
  void send_to(int pipe_rank, void* data, Direction direction);
  void settle();  // nothing is leaving any more

 private:
  struct Sent {
    void* data = nullptr;
    comm::Pending leaving;
  };
  struct Leaving {
    std::array<Sent, pipeline::kMostLeaving> sent;
    std::size_t oldest = 0;
  };
  void settle(Sent& sent);
  void settle(Leaving& leaving);
  comm::Span span_of(void* data) const { return {data, state_.plan.hidden, state_.model.element}; }

  RankState& state_;
  core::PhaseClock& clock_;
  Leaving forward_, backward_;
};

}  // namespace fm::engine
