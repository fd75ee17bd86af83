#include "zero/reduce_tied.h"

#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::DType;
using core::Home;

TiedReduction::TiedReduction(const Layout& layout, core::Ledger& ledger, comm::Communicator& pipe)
    : layout_(layout), pipe_(pipe), other_(reserve(layout, Role::kOtherEnd, ledger, nullptr)) {}

void TiedReduction::run(GradStore& grads) {
  const TiedEnds& tied = layout_.tied;
  for (const int group : {tied.head, tied.embedding}) {
    if (group >= 0) grads.changed(group);
  }
  const int here = tied.head >= 0 ? tied.head : tied.embedding;
  const bool all = layout_.plan.optimizer == Home::kEveryRank;
  const auto part = [&](int group) { return all ? grads.kept(group) : grads.slice(group); };
  float* const mine = part(here);
  if (tied.peer < 0) {
    kernels::add(layout_.at(tied.embedding).optimizer.count.count(), mine, part(tied.embedding));
    return;
  }
  float* const other = other_.front().f32();
  comm::Pending sent = pipe_.send({mine, tied.exchanged, DType::kF32}, tied.peer);
  pipe_.receive({other, tied.exchanged, DType::kF32}, tied.peer).wait();
  sent.wait();
  kernels::add(tied.exchanged.count(), other, mine);  // head + embedding = embedding + head
}

}  // namespace fm::zero
