#include "zero/optimizer_shard.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "core/check.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/moves.h"

namespace fm::zero {

using core::Elements;
using core::Home;

namespace {

// From the end to the beginning, in parts that the prefetcher does not notice: the last parts of
// the sum were made last, and may still be in the cache.
constexpr Elements kPart(64 * 1024);

// Part of the master becomes the same part of the parameters.
void round(const core::Work& work, core::DType element, void* params, const float* master,
           Elements first, Elements count) {
  const float* const from = master + first.count();
  void* const to = core::element_at(params, first, element);
  if (element == core::DType::kF32)
    return kernels::copy(work, count.count(), from, static_cast<float*>(to));
  if (element == core::DType::kF16) {
    kernels::cast(work, count.count(), from, static_cast<core::F16*>(to));
  } else {
    kernels::cast(work, count.count(), from, static_cast<core::Bf16*>(to));
  }
}

// body(begin, end) on parts of the range, which threads take in turn.
template <class Body>
void for_parts(int threads, const Range& range, const Body& body) {
  const std::int64_t parts = core::ceil_div(range.count.count(), kPart.count());
  std::atomic<std::int64_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::int64_t part = next++; part < parts; part = next++) {
        const Elements begin = range.first + kPart * part;
        body(begin, std::min(begin + kPart, range.first + range.count));
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::int64_t i = 1; i < std::min<std::int64_t>(threads, parts); ++i) {
      others.emplace_back(run);
    }
    run();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

OptimizerShard::OptimizerShard(const Layout& layout, const StateMemory& memory,
                               const optim::OptimizerOptions& options, const UpdateRanks& others)
    : layout_(layout),
      options_(options),
      others_(others),
      moments_(static_cast<int>(optim::moments_of(options).size())),
      buffers_(reserve(layout, Role::kMoment, memory, nullptr)),
      masters_(reserve(layout, Role::kMaster, memory, nullptr)),
      directions_(reserve(layout, Role::kDirections, memory, nullptr)),
      matrix_room_(reserve(layout, Role::kMatrixRoom, memory, nullptr)),
      before_(reserve(layout, Role::kBefore, memory, nullptr)) {
  FM_CHECK(layout.element == core::DType::kF32 || layout.element == core::DType::kBF16 ||
               layout.element == core::DType::kF16,
           "no parameters of ", core::name_of(layout.element));
  FM_CHECK(layout.moments == moments_, "the layout has ", layout.moments, " moments, not ",
           moments_);
  FM_CHECK(layout.matrices == options.rule->by_matrix, "the layout is of another optimizer");
  const bool cut = layout.plan.optimizer != Home::kEveryRank && layout.dp_size > 1;
  const bool whole = options.rule->by_tensor != nullptr || layout.directions.count() > 0;
  FM_CHECK(!cut || !whole || others.data != nullptr, options.rule->name,
           " moves whole tensors, which needs the other data ranks");
  if (others.data != nullptr) check_ranks(layout, *others.data);
  if (options.rule->by_tensor == nullptr) return;
  std::int64_t most = 0;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    const FlatParam& at = layout.at(flat_param);
    most = std::max(most, blocks_of_tensors(*at.table, at.optimizer.count.count()));
  }
  squares_ = BlockSquares(memory, most);
}

std::size_t OptimizerShard::index_of(Role role, int flat_param) const {
  layout_.check_trained(flat_param);
  return static_cast<std::size_t>(layout_.sleeps(role) ? layout_.ring_place(flat_param)
                                                       : flat_param);
}

std::vector<RingArray> OptimizerShard::rings() const {
  std::vector<RingArray> out;
  const auto add = [&](Role role, const std::vector<core::Buffer>& buffers, int arrays) {
    if (!layout_.sleeps(role) || buffers.empty()) return;
    for (int array = 0; array < arrays; ++array) {
      RingArray& ring = out.emplace_back(RingArray{.role = role, .moment = array, .places = {}});
      for (auto at = static_cast<std::size_t>(array); at < buffers.size();
           at += static_cast<std::size_t>(arrays)) {
        ring.places.push_back(buffers[at].span());
      }
    }
  };
  add(Role::kMoment, buffers_, moments_);
  add(Role::kMaster, masters_, 1);
  return out;
}

float* OptimizerShard::kept(int flat_param, int index) {
  FM_CHECK(index >= 0 && index < moments_, options_.rule->name, " has ", moments_,
           " moments, and none is ", index);
  const std::size_t first =
      index_of(Role::kMoment, flat_param) * static_cast<std::size_t>(moments_);
  return buffers_[first + static_cast<std::size_t>(index)].f32();
}

float* OptimizerShard::slice(int flat_param, int index) {
  const bool whole_here = layout_.plan.optimizer == Home::kEveryRank;
  return kept(flat_param, index) + (whole_here ? layout_.at(flat_param).owned.first.count() : 0);
}

float* OptimizerShard::master(int flat_param) {
  const std::size_t index = index_of(Role::kMaster, flat_param);
  return masters_.empty() ? nullptr : masters_[index].f32();
}

void* OptimizerShard::updated(int flat_param, ParamStore& params) const {
  return layout_.plan.optimizer == Home::kEveryRank ? params.kept(flat_param)
                                                    : params.slice(flat_param);
}

void OptimizerShard::round_master(const core::Work& work, int flat_param, ParamStore& params) {
  FM_CHECK(layout_.has_master(flat_param) && !layout_.at(flat_param).on_host, "flat parameter ",
           flat_param, " has no master to round here");
  round(work, layout_.element, updated(flat_param, params), master(flat_param), Elements(0),
        layout_.at(flat_param).optimizer.count);
}

OptimizerShard::Owned OptimizerShard::owned_of(int flat_param, ParamStore& params,
                                               GradStore& grads) {
  const bool all = layout_.plan.optimizer == Home::kEveryRank;
  layout_.check_trained(flat_param);
  const Range& updates = layout_.at(flat_param).optimizer;
  const std::span<float> grad = all ? grads.kept(flat_param) : grads.slice(flat_param);
  FM_CHECK(std::ssize(grad) == updates.count.count(), "flat parameter ", flat_param, " updates ",
           updates.count.count(), " elements, and its gradient has ", grad.size());
  Owned at;
  at.first = updates.first;
  at.last = at.first + updates.count;
  at.values = updated(flat_param, params);
  FM_CHECK(!layout_.at(flat_param).on_host, "the host updates flat parameter ", flat_param);
  at.param = layout_.has_master() ? master(flat_param) : static_cast<float*>(at.values);
  at.grad = grad.data();
  return at;
}

std::vector<float*> OptimizerShard::changed_by_update(int flat_param, const Owned& at) {
  std::vector<float*> out = {at.param};
  for (int moment = 0; moment < moments_; ++moment) out.push_back(kept(flat_param, moment));
  if (layout_.keeps_gradients) out.push_back(at.grad);
  return out;
}

float* OptimizerShard::before_of(int flat_param, std::size_t arrays) {
  FM_CHECK(layout_.undoes && layout_.at(flat_param).alias < 0, "no update of flat parameter ",
           flat_param, " is ever undone");
  const std::span<float> before = before_[static_cast<std::size_t>(flat_param)].floats();
  const Elements needed =
      layout_.at(flat_param).optimizer.count * static_cast<std::int64_t>(arrays);
  FM_CHECK(std::ssize(before) == needed.count(), "an update changes ", needed.count(),
           " elements, and ", before.size(), " are set aside");
  return before.data();
}

void OptimizerShard::set_aside(core::Work& work, int flat_param, ParamStore& params,
                               GradStore& grads) {
  if (layout_.at(flat_param).alias >= 0) return;
  const Elements count = layout_.at(flat_param).optimizer.count;
  const std::vector<float*> changed =
      changed_by_update(flat_param, owned_of(flat_param, params, grads));
  float* before = before_of(flat_param, changed.size());
  for (const float* const values : changed) {
    kernels::copy(work, count.count(), values, before);
    before += count.count();
  }
}

void OptimizerShard::undo(core::Work& work, int flat_param, ParamStore& params, GradStore& grads) {
  if (layout_.at(flat_param).alias >= 0) return;
  const Elements count = layout_.at(flat_param).optimizer.count;
  const std::vector<float*> changed =
      changed_by_update(flat_param, owned_of(flat_param, params, grads));
  const float* before = before_of(flat_param, changed.size());
  for (float* const values : changed) {
    kernels::copy(work, count.count(), before, values);
    before += count.count();
  }
  if (layout_.has_master()) round_master(work, flat_param, params);
}

void OptimizerShard::update(core::Work& work, int flat_param, const optim::UpdateScalars& scalars,
                            ParamStore& params, GradStore& grads) {
  if (layout_.at(flat_param).alias >= 0) return;  // the other end updates the shared matrix
  const Owned at = owned_of(flat_param, params, grads);
  if (options_.rule->by_matrix != nullptr) {
    update_entries(work, flat_param, scalars, at);
    return;
  }
  update_parts(work, flat_param, scalars, at);
  if (options_.rule->by_tensor != nullptr) move_tensors(work, flat_param, scalars, at);
}

optim::UpdateSlice OptimizerShard::slice_of(int flat_param, const Owned& at, Elements begin,
                                            Elements end) {
  const std::int64_t index = (begin - at.first).count();
  optim::UpdateSlice slice{at.param + index,
                           at.grad + index,
                           {},
                           end - begin,
                           begin < layout_.at(flat_param).table->decayed()};
  for (int moment = 0; moment < moments_; ++moment) {
    slice.moment[moment] = kept(flat_param, moment) + index;
  }
  return slice;
}

void OptimizerShard::round_moved(const core::Work& work, const Owned& at, Elements begin,
                                 Elements end) {
  if (at.values == nullptr || at.values == at.param) return;
  round(work, layout_.element, at.values, at.param, begin - at.first, end - begin);
}

void OptimizerShard::update_parts(const core::Work& work, int flat_param,
                                  const optim::UpdateScalars& scalars, const Owned& at) {
  const bool moves = options_.rule->by_tensor == nullptr;
  const auto run = [&](Elements begin, Elements end) {
    // A device has no such cache, and each part is two kernels to start.
    const Elements part = work.queue == nullptr ? kPart : end - begin;
    for (Elements until = end; until > begin;) {
      const Elements from = std::max(begin, until - part);
      optim::update(work, options_, scalars, slice_of(flat_param, at, from, until));
      if (moves) round_moved(work, at, from, until);
      until = from;
    }
  };
  const Elements boundary = std::clamp(layout_.at(flat_param).table->decayed(), at.first, at.last);
  run(boundary, at.last);
  run(at.first, boundary);
}

OptimizerShard::Owned OptimizerShard::owned_on_host(const HostSlice& slice) {
  const FlatParam& here = layout_.at(slice.flat_param);
  FM_CHECK(here.on_host, "the device updates flat parameter ", slice.flat_param);
  Owned at;
  at.first = here.optimizer.first;
  at.last = at.first + here.optimizer.count;
  at.values = slice.rounded;
  at.param = master(slice.flat_param);
  at.grad = slice.grad;
  return at;
}

void OptimizerShard::update_on_host(int threads, const HostSlice& slice,
                                    const optim::UpdateScalars& scalars) {
  FM_CHECK(options_.rule->by_tensor == nullptr && options_.rule->by_matrix == nullptr,
           options_.rule->name, " moves tensors as a whole");
  const Owned at = owned_on_host(slice);
  const Elements decayed = layout_.at(slice.flat_param).table->decayed();
  for_parts(threads, {at.first, at.last - at.first}, [&](Elements begin, Elements end) {
    const core::Work here;
    const Elements boundary = std::clamp(decayed, begin, end);
    for (const auto& [from, until] : {std::pair(begin, boundary), std::pair(boundary, end)}) {
      if (from == until) continue;
      optim::update(here, options_, scalars, slice_of(slice.flat_param, at, from, until));
    }
    round_moved(here, at, begin, end);
  });
}

void OptimizerShard::round_on_host(int threads, const HostSlice& slice) {
  const Owned at = owned_on_host(slice);
  for_parts(threads, {at.first, at.last - at.first},
            [&](Elements begin, Elements end) { round_moved({}, at, begin, end); });
}

float* OptimizerShard::all_directions(const core::Work& work, int flat_param, const Owned& at) {
  if (layout_.directions.count() == 0) return at.grad;
  float* const whole = directions_.front().f32();
  const core::ShardMap& map = layout_.at(flat_param).map;
  others_.data
      ->all_gather({at.grad, map.slice(), core::DType::kF32},
                   {whole, map.padded(), core::DType::kF32})
      .wait(work);
  return whole;
}

void OptimizerShard::update_entries(core::Work& work, int flat_param,
                                    const optim::UpdateScalars& scalars, const Owned& at) {
  const optim::MatrixRule& rule = *options_.rule->by_matrix;
  const std::vector<core::ParamEntry>& entries = layout_.at(flat_param).table->entries();
  const auto for_own = [&](bool matrices, const auto& body) {
    for (const core::ParamEntry& entry : entries) {
      const Elements begin = std::max(entry.offset, at.first);
      const Elements end = std::min(entry.offset + entry.numel, at.last);
      if (begin < end && rule.moves(entry) == matrices) body(entry, begin, end);
    }
  };
  for_own(false, [&](const core::ParamEntry&, Elements begin, Elements end) {
    optim::update(work, options_, scalars, slice_of(flat_param, at, begin, end));
    round_moved(work, at, begin, end);
  });
  if (std::ranges::none_of(entries, rule.moves)) return;
  for_own(true, [&](const core::ParamEntry&, Elements begin, Elements end) {
    rule.begin(work, options_, scalars, slice_of(flat_param, at, begin, end));
  });
  float* const directions = all_directions(work, flat_param, at);
  // A matrix that two ranks share is finished by both.
  for_own(true, [&](const core::ParamEntry& entry, Elements begin, Elements end) {
    const std::int64_t rows = entry.shape[0];
    const std::int64_t cols = entry.shape[1];
    FM_CHECK(entry.numel.count() == rows * cols, entry.name, " moves as a whole, and ",
             entry.numel.count(), " of its ", rows * cols, " elements are here");
    const std::span direction(directions + entry.offset.count(),
                              static_cast<std::size_t>(rows * cols));
    rule.finish(work, rows, cols, direction, matrix_room_.front().floats());
    optim::UpdateSlice slice = slice_of(flat_param, at, begin, end);
    slice.grad = directions + begin.count();
    rule.move(work, options_, scalars, entry, slice);
    round_moved(work, at, begin, end);
  });
}

void OptimizerShard::move_tensors(const core::Work& work, int flat_param,
                                  const optim::UpdateScalars& scalars, const Owned& at) {
  const core::ParamTable& table = *layout_.at(flat_param).table;
  const optim::TensorRule& rule = *options_.rule->by_tensor;
  NormRanks others = others_.norms;
  if (layout_.plan.optimizer == Home::kEveryRank) others.data = nullptr;
  const auto norms = [&](const float* values) {
    const auto count = static_cast<std::size_t>((at.last - at.first).count());
    return tensor_norms(work, table, at.first, {values, count}, squares_, others);
  };
  const std::vector<double> params = norms(at.param);
  const std::vector<double> directions = norms(at.grad);
  for (std::size_t i = 0; i < params.size(); ++i) {
    const core::ParamEntry& entry = table.at(static_cast<int>(i));
    const Elements begin = std::max(entry.offset, at.first);
    const Elements end = std::min(entry.offset + entry.numel, at.last);
    if (begin >= end) continue;
    const std::int64_t index = (begin - at.first).count();
    const double rate = rule.rate(options_, scalars, params[i], directions[i]);
    rule.move(work, static_cast<float>(rate), (end - begin).count(), at.grad + index,
              at.param + index);
    round_moved(work, at, begin, end);
  }
}

}  // namespace fm::zero
