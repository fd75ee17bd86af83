#include "zero/optimizer_shard.h"

#include <algorithm>

#include "core/check.h"
#include "kernels/pointwise/elements.h"

namespace fm::zero {

using core::Elements;
using core::Home;

namespace {

// From the end to the beginning, in parts that the prefetcher does not notice: the last parts of
// the sum were made last, and may still be in the cache.
constexpr Elements kPart(64 * 1024);

// Part of the master becomes the same part of the parameters.
void round(core::DType element, void* params, const float* master, Elements first, Elements count) {
  const float* const from = master + first.count();
  void* const to = core::element_at(params, first, element);
  if (element == core::DType::kF16) {
    kernels::cast(count.count(), from, static_cast<core::F16*>(to));
  } else {
    kernels::cast(count.count(), from, static_cast<core::Bf16*>(to));
  }
}

}  // namespace

OptimizerShard::OptimizerShard(const Layout& layout, core::Ledger& ledger,
                               const optim::OptimizerOptions& options)
    : layout_(layout),
      options_(options),
      moments_(static_cast<int>(optim::moments_of(options).size())),
      buffers_(reserve(layout, Role::kMoment, ledger, nullptr)),
      masters_(reserve(layout, Role::kMaster, ledger, nullptr)) {
  FM_CHECK(layout.element == core::DType::kF32 || layout.element == core::DType::kBF16 ||
               layout.element == core::DType::kF16,
           "no parameters of ", core::name_of(layout.element));
  FM_CHECK(layout.moments == moments_, "the layout has ", layout.moments, " moments, not ",
           moments_);
}

float* OptimizerShard::kept(int group, int index) {
  return buffers_[static_cast<std::size_t>(group * moments_ + index)].f32();
}

std::shared_ptr<core::TensorSource> OptimizerShard::source(int group, int index) {
  return core::in_memory(kept(group, index));
}

float* OptimizerShard::slice(int group, int index) {
  const bool whole_here = layout_.plan.optimizer == Home::kEveryRank;
  return kept(group, index) + (whole_here ? layout_.at(group).owned.first.count() : 0);
}

float* OptimizerShard::master(int group) {
  return masters_.empty() ? nullptr : masters_[static_cast<std::size_t>(group)].f32();
}

void* OptimizerShard::updated(int group, ParamStore& params) const {
  return layout_.plan.optimizer == Home::kEveryRank ? params.kept(group) : params.slice(group);
}

void OptimizerShard::round_master(int group, ParamStore& params) {
  round(layout_.element, updated(group, params), master(group), Elements(0),
        layout_.at(group).optimizer.count);
}

void OptimizerShard::update(int group, const optim::UpdateScalars& scalars, ParamStore& params,
                            GradStore& grads) {
  if (layout_.at(group).alias >= 0) return;  // the other end updates the shared matrix
  const bool all = layout_.plan.optimizer == Home::kEveryRank;
  const Elements first = layout_.at(group).optimizer.first;
  const Elements last = first + layout_.at(group).optimizer.count;
  const Elements boundary = std::clamp(layout_.at(group).table->decayed(), first, last);
  void* const values = updated(group, params);
  float* const param = layout_.has_master() ? master(group) : static_cast<float*>(values);
  const float* const grad = all ? grads.kept(group) : grads.slice(group);
  const auto run = [&](Elements begin, Elements end, bool decay) {
    for (Elements until = end; until > begin;) {
      const Elements from = std::max(begin, until - kPart);
      const std::int64_t at = (from - first).count();
      optim::UpdateSlice slice{param + at, grad + at, {}, until - from, decay};
      for (int index = 0; index < moments_; ++index) slice.moment[index] = kept(group, index) + at;
      optim::update(options_, scalars, slice);
      if (layout_.has_master()) round(layout_.element, values, param, from - first, until - from);
      until = from;
    }
  };
  run(boundary, last, false);
  run(first, boundary, true);
}

}  // namespace fm::zero
