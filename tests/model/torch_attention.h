// LibTorch's CPU flash attention, in fp32, to compare ours with: a library of its own, because a
// program that links LibTorch takes 0.15 s longer to start.
#pragma once

#include "core/process.h"
#include "kernels/attention/attention.h"

namespace fm::model {

// Both allocate what they need. logsumexp has an order that only `backward` knows.
struct TorchAttention {
  void (*forward)(const kernels::AttentionShape& shape, const kernels::AttentionForward<float>& at,
                  int threads) = nullptr;
  void (*backward)(const kernels::AttentionShape& shape,
                   const kernels::AttentionBackward<float>& at, int threads) = nullptr;
};

// Loads it at the first call.
inline const TorchAttention& torch_attention() {
  using Get = const TorchAttention* (*)();
  static const TorchAttention& kAttention =
      *reinterpret_cast<Get>(core::late_symbol("libfm_torch_attention.so", "fm_torch_attention"))();
  return kAttention;
}

}  // namespace fm::model
