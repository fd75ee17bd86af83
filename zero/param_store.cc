#include "zero/param_store.h"

#include <cstdint>

#include "core/check.h"

namespace fm::zero {

using core::Home;

namespace {

bool is_aligned(const void* array, core::DType element) {
  return reinterpret_cast<std::uintptr_t>(array) %
             static_cast<std::uintptr_t>(core::size_of(element).count()) ==
         0;
}

}  // namespace

ParamStore::ParamStore(const Layout& layout, core::Ledger& ledger, comm::Communicator& dp)
    : layout_(layout), dp_(dp), buffers_(reserve(layout, Role::kParams, ledger, &dp)) {
  check_ranks(layout, dp);
}

bool ParamStore::shared() const { return layout_.plan.params == Home::kOncePerHost; }

int ParamStore::home_of(int group) const {
  const int alias = layout_.at(group).alias;
  return alias < 0 ? group : alias;
}

void* ParamStore::buffer(int group) {
  return buffers_[static_cast<std::size_t>(home_of(group))].data();
}

void* ParamStore::whole(int group) {
  return layout_.plan.params == Home::kOneSliceEach ? nullptr : buffer(group);
}

void* ParamStore::slice(int group) {
  void* const all = whole(group);
  if (all == nullptr) return buffer(group);
  return core::element_at(all, layout_.at(group).owned.first, layout_.element);
}

void* ParamStore::kept(int group) {
  return layout_.plan.params == Home::kEveryRank ? buffer(group) : slice(group);
}

comm::Pending ParamStore::gather(int group, void* slot) {
  FM_CHECK(layout_.plan.params == Home::kOneSliceEach, "group ", group, " is whole where it lies");
  FM_CHECK(slot != nullptr && is_aligned(slot, layout_.element), "group ", group,
           " is gathered into an array of ", core::name_of(layout_.element), ", and none is at ",
           slot);
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), layout_.element},
                        {slot, map.padded(), layout_.element});
}

comm::Pending ParamStore::publish(int group) {
  layout_.check_trained(group);
  FM_CHECK(layout_.plan.publishes() && layout_.at(group).alias < 0, "group ", group,
           " has no update that other ranks wait for");
  if (shared()) return dp_.barrier();
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), layout_.element},
                        {whole(group), map.padded(), layout_.element});
}

}  // namespace fm::zero
