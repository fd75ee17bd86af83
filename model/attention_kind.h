// Which attention computes.
#pragma once

#include <cstdint>

namespace fm::model {

enum class AttentionKind : std::uint8_t {
  kOwn,    // kernels/attention/attention.h: the same bits with every number of threads
  kTorch,  // LibTorch's CPU flash attention, for comparison
};

}  // namespace fm::model
