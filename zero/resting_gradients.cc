#include "zero/resting_gradients.h"

#include <span>
#include <utility>

namespace fm::zero {

RestingGradients::RestingGradients(const Layout& layout, SleepPlan plan, offload::SliceStore& store,
                                   GradStore& grads)
    : layout_(layout), plan_(std::move(plan)), store_(store), grads_(grads) {
  moves_.resize(static_cast<std::size_t>(layout.ring_places()));
}

offload::Move& RestingGradients::move_of(int flat_param) {
  return moves_[static_cast<std::size_t>(layout_.ring_place(flat_param))];
}

void RestingGradients::claim(int flat_param) {
  if (layout_.at(flat_param).in_gradient_ring) move_of(flat_param).wait();
}

void RestingGradients::rest(int flat_param) {
  if (!rests(flat_param)) return;
  claim(flat_param);
  move_of(flat_param) =
      store_.write(plan_.at({Role::kGrads, flat_param}), std::as_bytes(grads_.slice(flat_param)));
}

void RestingGradients::fetch(int flat_param) {
  if (!rests(flat_param)) return;
  claim(flat_param);
  move_of(flat_param) = store_.read(plan_.at({Role::kGrads, flat_param}),
                                    std::as_writable_bytes(grads_.slice(flat_param)));
}

void RestingGradients::wake(int flat_param) {
  if (rests(flat_param)) move_of(flat_param).wait();
}

void RestingGradients::settle() {
  for (offload::Move& move : moves_) move.wait();
}

}  // namespace fm::zero
