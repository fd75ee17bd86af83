// Divides one block of memory into arrays, each aligned to 64 bytes. With a null base it only
// counts their bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/arena.h"
#include "core/check.h"

namespace fm::model {

class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {
    FM_CHECK(reinterpret_cast<std::uintptr_t>(base) % 64 == 0,
             "arrays are cut from 64 bytes on, not from ", base);
  }

  template <class T>
  T* take(std::int64_t count) {
    T* taken = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_.count());
    used_ += core::Arena::aligned<T>(count);
    return taken;
  }
  core::Bytes used() const { return used_; }

 private:
  std::byte* base_;
  core::Bytes used_;
};

}  // namespace fm::model
