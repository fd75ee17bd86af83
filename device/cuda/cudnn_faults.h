// What versions of cuDNN compute wrongly.
#pragma once

#include <cstddef>
#include <string>

#include "device/cuda/attention_pieces.h"

namespace fm::device::cuda {

// Why a version (91900 for 9.19.0) may not do a piece; "": it may. No piece: may do none.
std::string fault_of(std::size_t version, const AttentionPiece& piece);

}  // namespace fm::device::cuda
