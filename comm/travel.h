// In what form numbers travel between hosts (docs/between_hosts.md). Sums are fp32 on arrival.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.h"

namespace fm::comm {

struct Span;
struct ConstSpan;

// kWhole: as they are. kInt8, kInt4: blocks with a scale (kernels/pointwise/quantize.h).
enum class Travel : std::uint8_t { kWhole, kBF16, kF16, kInt8, kInt4 };

// How numbers of a type do travel where `asked` is asked for: blocks of 8 bits of any floating
// type of a model's elements, the others of fp32 only; what remains, as it is.
Travel travel_of(Travel asked, core::DType dtype);

// Of so many numbers of a type under way.
core::Bytes travel_bytes(Travel travel, core::Elements elements, core::DType dtype);

// `packed` [travel_bytes] is aligned as a float is. unpack: what every receiver, and the owner
// itself where all must hold the same, reads.
void pack(Travel travel, const ConstSpan& values, std::byte* packed);
void unpack(Travel travel, const std::byte* packed, const Span& values);

}  // namespace fm::comm
