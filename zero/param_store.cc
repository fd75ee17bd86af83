#include "zero/param_store.h"

#include "core/check.h"

namespace fm::zero {

using core::DType;
using core::Home;

ParamStore::ParamStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp)
    : layout_(layout), dp_(dp) {
  for (int group = 0; group < layout.count(); ++group) {
    const bool own = layout.at(group).alias < 0;
    const core::Elements kept = own ? layout.kept(group, layout.plan.params) : core::Elements(0);
    if (!shared() || !own) {
      buffers_.push_back(core::make_f32(ledger, core::Account::kParams, kept));
      continue;
    }
    FM_CHECK(dp.common_memory() != nullptr, "parameters of one host need shared memory");
    buffers_.emplace_back(ledger, core::Account::kParams,
                          core::bytes_of(layout.at(group).map.padded(), DType::kF32),
                          dp.common_memory(), core::bytes_of(kept, DType::kF32));
  }
}

bool ParamStore::shared() const { return layout_.plan.params == Home::kOncePerHost; }

int ParamStore::home_of(int group) const {
  const int alias = layout_.at(group).alias;
  return alias < 0 ? group : alias;
}

float* ParamStore::buffer(int group) {
  return buffers_[static_cast<std::size_t>(home_of(group))].f32();
}

float* ParamStore::whole(int group) {
  return layout_.plan.params == Home::kOneSliceEach ? nullptr : buffer(group);
}

float* ParamStore::slice(int group) {
  float* const all = whole(group);
  return all == nullptr ? buffer(group) : all + layout_.slice_first(group).count();
}

float* ParamStore::kept(int group) {
  return layout_.plan.params == Home::kEveryRank ? buffer(group) : slice(group);
}

comm::Pending ParamStore::gather(int group, float* slot) {
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), DType::kF32},
                        {slot, map.padded(), DType::kF32});
}

comm::Pending ParamStore::publish(int group) {
  if (shared()) return dp_.barrier();
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), DType::kF32},
                        {whole(group), map.padded(), DType::kF32});
}

}  // namespace fm::zero
