#include "zero/reduce_tied.h"

#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::DType;
using core::Elements;
using core::Home;

TiedReduction::TiedReduction(const GroupLayout& layout, core::Ledger& ledger,
                             comm::Communicator& pipe, const Ends& ends)
    : layout_(layout), pipe_(pipe), ends_(ends) {
  if (!layout.tied) return;
  for (int group = 0; group < layout.count(); ++group) {
    if (layout.at(group).tied_end) head_ = group;
    if (layout.at(group).unit == 0) embedding_ = group;
  }
  if (ends.embedding == ends.head || (head_ < 0 && embedding_ < 0)) return;
  const int here = head_ >= 0 ? head_ : embedding_;
  other_ =
      core::make_f32(ledger, core::Account::kScratch, layout.kept(here, layout.plan.optimizer));
}

void TiedReduction::run(GradStore& grads) {
  for (const int group : {head_, embedding_}) {
    if (group >= 0) grads.changed(group);
  }
  const int here = head_ >= 0 ? head_ : embedding_;
  const bool all = layout_.plan.optimizer == Home::kEveryRank;
  const auto part = [&](int group) { return all ? grads.kept(group) : grads.slice(group); };
  const Elements count = layout_.kept(here, layout_.plan.optimizer);
  float* const mine = part(here);
  if (ends_.embedding == ends_.head) {
    kernels::add(count.count(), mine, part(embedding_));
    return;
  }
  const int peer = head_ >= 0 ? ends_.embedding : ends_.head;
  comm::Pending sent = pipe_.send({mine, count, DType::kF32}, peer);
  pipe_.receive({other_.data(), count, DType::kF32}, peer).wait();
  sent.wait();
  kernels::add(count.count(), other_.f32(), mine);  // head + embedding = embedding + head
}

}  // namespace fm::zero
