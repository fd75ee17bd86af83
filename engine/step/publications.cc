#include "engine/step/publications.h"

namespace fm::engine {

void Publications::publish(int flat_param) {
  if (state_.on_host && state_.on_host->has(flat_param)) {
    if (state_.dp->size() > 1) not_begun_.insert(flat_param);
    return;
  }
  under_way_[flat_param] = state_.params.publish(flat_param);
  if (!state_.plan.overlap) wait_for(flat_param);
}

void Publications::wait_for(int flat_param) {
  state_.arrive(flat_param);
  if (not_begun_.erase(flat_param) > 0) under_way_[flat_param] = state_.params.publish(flat_param);
  const auto at = under_way_.find(flat_param);
  if (at == under_way_.end()) return;
  at->second.wait(state_.work);
  under_way_.erase(at);
}

void Publications::settle() {
  while (!not_begun_.empty()) wait_for(*not_begun_.begin());
  while (!under_way_.empty()) wait_for(under_way_.begin()->first);
}

}  // namespace fm::engine
