#include "zero/param_store.h"

namespace fm::zero {

using core::DType;
using core::Home;

ParamStore::ParamStore(const GroupLayout& layout, core::Ledger& ledger, comm::Communicator& dp)
    : layout_(layout), dp_(dp) {
  for (int group = 0; group < layout.count(); ++group) {
    const bool own = layout.at(group).alias < 0;
    const core::Elements elements =
        own ? layout.kept(group, layout.plan.params) : core::Elements(0);
    buffers_.push_back(core::make_f32(ledger, core::Account::kParams, elements));
  }
}

int ParamStore::home_of(int group) const {
  const int alias = layout_.at(group).alias;
  return alias < 0 ? group : alias;
}

float* ParamStore::kept(int group) {
  return buffers_[static_cast<std::size_t>(home_of(group))].f32();
}

float* ParamStore::whole(int group) {
  return layout_.plan.params == Home::kEveryRank ? kept(group) : nullptr;
}

float* ParamStore::slice(int group) {
  const bool whole_here = layout_.plan.params == Home::kEveryRank;
  return kept(group) + (whole_here ? layout_.slice_first(group).count() : 0);
}

comm::Pending ParamStore::gather(int group, float* slot) {
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), DType::kF32},
                        {slot, map.padded(), DType::kF32});
}

comm::Pending ParamStore::publish(int group) {
  const core::ShardMap& map = layout_.at(group).map;
  return dp_.all_gather({slice(group), map.slice(), DType::kF32},
                        {whole(group), map.padded(), DType::kF32});
}

}  // namespace fm::zero
