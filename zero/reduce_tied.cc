#include "zero/reduce_tied.h"

#include "comm/exchange.h"
#include "core/check.h"
#include "kernels/pointwise/sums.h"

namespace fm::zero {

using core::DType;
using core::Home;

TiedReduction::TiedReduction(const Layout& layout, const core::RankMemory& memory,
                             comm::Communicator& pipe)
    : layout_(layout), pipe_(pipe), other_(reserve(layout, Role::kOtherEnd, memory, nullptr)) {}

void TiedReduction::run(const core::Work& work, GradStore& grads) {
  const TiedEnds& tied = layout_.tied;
  for (const int flat_param : {tied.head, tied.embedding}) {
    if (flat_param >= 0) grads.changed(flat_param);
  }
  const int here = tied.head >= 0 ? tied.head : tied.embedding;
  FM_CHECK(here >= 0 && (tied.peer >= 0 || tied.embedding >= 0),
           "a gradient of a tied matrix is added where both ends meet");
  const bool all = layout_.plan.optimizer == Home::kEveryRank;
  const auto part = [&](int flat_param) {
    return all ? grads.kept(flat_param) : grads.slice(flat_param);
  };
  const std::span<float> mine = part(here);
  const std::span<float> other = tied.peer < 0 ? part(tied.embedding) : other_.front().floats();
  FM_CHECK(mine.size() == other.size(),
           "both ends of a tied matrix have gradients of one size: ", mine.size(), " and ",
           other.size(), " elements");
  if (tied.peer < 0) {
    kernels::add(work, std::ssize(mine), mine.data(), other.data());
    return;
  }
  comm::Exchange ends = comm::exchange(pipe_, {mine.data(), tied.exchanged, DType::kF32}, tied.peer,
                                       {other.data(), tied.exchanged, DType::kF32}, tied.peer);
  ends.received.wait(work);
  ends.sent.wait(work);
  kernels::add(work, std::ssize(mine), other.data(), mine.data());  // head + embedding, either way
}

}  // namespace fm::zero
