// Cuts one block of memory into arrays, each on 64 bytes. With a null base it only counts.
#pragma once

#include <cstdint>

#include "core/arena.h"

namespace fm::model {

class Carver {
 public:
  explicit Carver(float* base) : base_(base) {}

  float* take(std::int64_t elements) {
    float* taken = base_ == nullptr ? nullptr : base_ + used_;
    used_ += core::Arena::aligned(elements);
    return taken;
  }
  std::int64_t used() const { return used_; }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

}  // namespace fm::model
