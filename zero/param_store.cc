#include "zero/param_store.h"

#include <cstdint>
#include <utility>

#include "core/check.h"
#include "kernels/pointwise/moves.h"
#include "zero/gather_from.h"

namespace fm::zero {

using core::Home;

namespace {

bool is_aligned(const void* array, core::DType element) {
  return reinterpret_cast<std::uintptr_t>(array) %
             static_cast<std::uintptr_t>(core::size_of(element).count()) ==
         0;
}

}  // namespace

ParamStore::ParamStore(const Layout& layout, const StateMemory& memory, comm::Communicator& dp,
                       const GatherRanks& gathers)
    : layout_(layout),
      dp_(dp),
      across_(gathers.across == nullptr ? dp : *gathers.across),
      near_(gathers.near),
      buffers_(reserve(layout, Role::kParams, memory, &dp)),
      secondary_(reserve(layout, Role::kSecondary, memory, gathers.near)),
      kept_(layout.flat_params.size(), false),
      going_up_(reserve(layout, Role::kGoingUp, memory, nullptr)) {
  check_ranks(layout, dp);
  check_ranks(layout, across_);
  FM_CHECK(secondary_.empty() || near_->size() == layout.plan.secondary, "a second copy of ",
           layout.plan.secondary, " ranks");
}

void ParamStore::sleep_in(offload::SliceStore& store) {
  FM_CHECK(layout_.sleeps(Role::kParams), "no parameters of this layout sleep");
  store_ = &store;
  // In fp32 the update goes on from what was there, elsewhere it rounds the masters.
  const bool reads = !layout_.has_master() && !layout_.beside_device;
  RingArray ring{.role = Role::kParams, .places = {}, .reads = reads};
  for (std::size_t at = layout_.flat_params.size(); at < buffers_.size(); ++at) {
    ring.places.push_back(buffers_[at].span());
  }
  asleep_.emplace(layout_, SleepPlan(layout_, {Role::kParams}), store, std::vector{ring});
  if (device_ != nullptr)
    up_.emplace(SlicesUp::Ends{*device_, store, across_}, std::move(going_up_));
}

bool ParamStore::shared() const { return layout_.plan.params == Home::kOncePerHost; }

void* ParamStore::buffer(int flat_param) {
  const int home = layout_.home_of(flat_param);
  if (!layout_.at(home).sleeps) return buffers_[static_cast<std::size_t>(home)].data();
  layout_.check_trained(home);  // others are never awake
  const int place = layout_.count() + layout_.ring_place(home);
  return buffers_[static_cast<std::size_t>(place)].data();
}

void* ParamStore::whole(int flat_param) {
  return layout_.plan.params == Home::kOneSliceEach ? nullptr : buffer(flat_param);
}

void* ParamStore::slice(int flat_param) {
  void* const all = whole(flat_param);
  if (all == nullptr) return buffer(flat_param);
  return core::element_at(all, layout_.at(flat_param).owned.first, layout_.element);
}

void* ParamStore::kept(int flat_param) {
  return layout_.plan.params == Home::kEveryRank ? buffer(flat_param) : slice(flat_param);
}

comm::Pending ParamStore::gather(int flat_param, void* slot) {
  FM_CHECK(layout_.plan.params == Home::kOneSliceEach, "flat parameter ", flat_param,
           " is whole where it lies");
  FM_CHECK(slot != nullptr && is_aligned(slot, layout_.element), "flat parameter ", flat_param,
           " is gathered into an array of ", core::name_of(layout_.element), ", and none is at ",
           slot);
  const core::ShardMap& map = layout_.at(flat_param).map;
  const comm::Span whole = {slot, map.padded(), layout_.element};
  const auto home = static_cast<std::size_t>(layout_.home_of(flat_param));
  if (kept_[home]) {
    const core::Elements part(map.padded().count() / near_->size());
    return near_->all_gather({secondary_[home].data(), part, layout_.element}, whole);
  }
  if (layout_.at(layout_.home_of(flat_param)).sleeps) {
    FM_CHECK(asleep_, "flat parameter ", flat_param, " sleeps in a store, and none is open");
    const core::Bytes at = asleep_->newest(Role::kParams, layout_.home_of(flat_param));
    if (up_) return up_->gather(at, whole);
    return gather_from(*store_, at, whole, across_);
  }
  if (layout_.at(layout_.home_of(flat_param)).params_on_host) {
    FM_CHECK(device_ != nullptr, "flat parameter ", flat_param, " lies beside a device");
    return gather_up(*device_, slice(flat_param), whole, across_);
  }
  return across_.all_gather({slice(flat_param), map.slice(), layout_.element}, whole);
}

void ParamStore::keep(const core::Work& work, int flat_param, const void* slot) {
  if (secondary_.empty()) return;
  const auto home = static_cast<std::size_t>(layout_.home_of(flat_param));
  if (kept_[home]) return;
  const core::Elements part(layout_.at(flat_param).map.padded().count() / near_->size());
  const core::Bytes bytes = core::bytes_of(part, layout_.element);
  kernels::copy_bytes(work, bytes.count(),
                      static_cast<const std::byte*>(slot) + bytes.count() * near_->rank(),
                      secondary_[home].data());
  kept_[home] = true;
}

void ParamStore::changed() { kept_.assign(kept_.size(), false); }

void ParamStore::changed(int flat_param) {
  kept_[static_cast<std::size_t>(layout_.home_of(flat_param))] = false;
}

comm::Pending ParamStore::publish(int flat_param) {
  layout_.check_trained(flat_param);
  FM_CHECK(layout_.plan.publishes() && layout_.at(flat_param).alias < 0, "flat parameter ",
           flat_param, " has no update that other ranks wait for");
  if (shared()) return dp_.barrier();
  const core::ShardMap& map = layout_.at(flat_param).map;
  return dp_.all_gather({slice(flat_param), map.slice(), layout_.element},
                        {whole(flat_param), map.padded(), layout_.element});
}

}  // namespace fm::zero
