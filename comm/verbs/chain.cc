#include "comm/verbs/chain.h"

namespace fm::comm {

bool Chain::advance() {
  bool moved = false;
  while (!finished()) {
    if (running_ != nullptr && !running_->finished()) return moved;
    running_.reset();
    moved = true;
    if (next_ < parts_.size()) running_ = parts_[next_++]();
  }
  return moved;
}

}  // namespace fm::comm
