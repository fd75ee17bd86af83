// Memory that is mapped twice: the host sees addresses that it may not touch, the kernels of the
// fake device the same bytes where they may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <type_traits>

#include "core/types.h"

namespace fm::device {

// Thread:   any.
// Lifetime: outlives what is allocated in it.
class TwoViews {
 public:
  // Takes addresses, not memory, for so many bytes. Throws MachineError (out of memory) when the
  // system refuses.
  explicit TwoViews(core::Bytes bytes);
  ~TwoViews();
  TwoViews(const TwoViews&) = delete;
  TwoViews& operator=(const TwoViews&) = delete;

  // For the host; null: all is taken. The bytes are what the last owner left.
  void* allocate(core::Bytes bytes);
  void release(void* data);

  bool holds(const void* host) const {
    return at(host) >= at(host_) && at(host) < at(host_) + size_;
  }
  // The same bytes for kernels. What does not lie in this memory is a defect, but null.
  template <class T>
  T* seen_by_kernels(T* host) const {
    if (host == nullptr) return nullptr;
    check(host);
    return reinterpret_cast<T*>(at(kernels_) + (at(host) - at(host_)));
  }

 private:
  static std::uintptr_t at(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  void check(const void* host) const;

  std::size_t size_;
  int file_ = -1;
  std::byte* host_ = nullptr;
  std::byte* kernels_ = nullptr;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_, taken_;  // offset -> bytes
};

}  // namespace fm::device
