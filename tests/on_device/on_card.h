// Arrays in a card's own memory: NVIDIA's libraries may not work in the host's.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "core/check.h"

namespace fm::emulated {

inline void expect_success(cudaError_t answer) {
  FM_CHECK(answer == cudaSuccess, cudaGetErrorString(answer));
}

// A copy of `values` on the card that the thread uses.
template <class T>
class OnCard {
 public:
  explicit OnCard(const std::vector<T>& values) : count_(values.size()) {
    void* memory = nullptr;
    expect_success(cudaMalloc(&memory, std::max<std::size_t>(bytes(), 1)));
    data_ = static_cast<T*>(memory);
    expect_success(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~OnCard() { cudaFree(data_); }
  OnCard(const OnCard&) = delete;
  OnCard& operator=(const OnCard&) = delete;

  T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    expect_success(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::size_t count_;
  T* data_ = nullptr;
};

}  // namespace fm::emulated
