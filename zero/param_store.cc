#include "zero/param_store.h"

#include "core/check.h"

namespace fm::zero {

using core::Home;

ParamStore::ParamStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp)
    : layout_(layout), dp_(dp) {
  for (int group = 0; group < layout.count(); ++group) {
    const bool own = layout.at(group).alias < 0;
    const core::Elements kept = own ? layout.kept(group, layout.plan.params) : core::Elements(0);
    if (!shared() || !own) {
      buffers_.emplace_back(ledger, core::Account::kParams, core::bytes_of(kept, layout.element));
      continue;
    }
    FM_CHECK(dp.common_memory() != nullptr, "parameters of one host need shared memory");
    buffers_.emplace_back(ledger, core::Account::kParams,
                          core::bytes_of(layout.at(group).map.padded(), layout_.element),
                          dp.common_memory(), core::bytes_of(kept, layout_.element));
  }
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
  return core::element_at(all, layout_.slice_first(group), layout_.element);
}

void* ParamStore::kept(int group) {
  return layout_.plan.params == Home::kEveryRank ? buffer(group) : slice(group);
}

comm::Pending ParamStore::gather(int group, void* slot) {
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), layout_.element},
                        {slot, map.padded(), layout_.element});
}

comm::Pending ParamStore::publish(int group) {
  if (shared()) return dp_.barrier();
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), layout_.element},
                        {whole(group), map.padded(), layout_.element});
}

}  // namespace fm::zero
