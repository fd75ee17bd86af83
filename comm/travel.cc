#include "comm/travel.h"

#include <cstring>

#include "comm/communicator.h"
#include "core/element.h"
#include "kernels/pointwise/elements.h"
#include "kernels/pointwise/quantize.h"

namespace fm::comm {
namespace {

using core::DType;

std::int64_t scale_bytes(core::Elements elements) {
  return 4 * kernels::quant_blocks(elements.count());
}

// Scales, then q.
struct PackedBlocks {
  float* scales;
  std::byte* q;
  std::int8_t* q8() const { return reinterpret_cast<std::int8_t*>(q); }
  std::uint8_t* q4() const { return reinterpret_cast<std::uint8_t*>(q); }
};
PackedBlocks blocks_of(const std::byte* packed, core::Elements elements) {
  auto* const first = const_cast<std::byte*>(packed);  // a reader only reads
  return {reinterpret_cast<float*>(first), first + scale_bytes(elements)};
}

template <class Visit>
void with_elements(const Span& values, const Visit& visit) {
  if (values.dtype == DType::kF32) return visit(static_cast<float*>(values.data));
  if (values.dtype == DType::kBF16) return visit(static_cast<core::Bf16*>(values.data));
  FM_CHECK(values.dtype == DType::kF16, "no blocks of ", core::name_of(values.dtype));
  visit(static_cast<core::F16*>(values.data));
}

}  // namespace

Travel travel_of(Travel asked, DType dtype) {
  const bool narrow = dtype == DType::kBF16 || dtype == DType::kF16;
  const bool travels = dtype == DType::kF32 || (narrow && asked == Travel::kInt8);
  return travels ? asked : Travel::kWhole;
}

core::Bytes travel_bytes(Travel travel, core::Elements elements, DType dtype) {
  const std::int64_t count = elements.count();
  switch (travel_of(travel, dtype)) {
    case Travel::kWhole: break;
    case Travel::kBF16:
    case Travel::kF16: return core::Bytes(2 * count);
    case Travel::kInt8: return core::Bytes(scale_bytes(elements) + count);
    case Travel::kInt4: return core::Bytes(scale_bytes(elements) + core::ceil_div(count, 2));
  }
  return core::bytes_of(elements, dtype);
}

void pack(Travel travel, const ConstSpan& values, std::byte* packed) {
  const std::int64_t count = values.elements.count();
  const PackedBlocks blocks = blocks_of(packed, values.elements);
  const auto* const floats = static_cast<const float*>(values.data);
  const core::Work here;
  switch (travel_of(travel, values.dtype)) {
    case Travel::kWhole:
      if (count > 0) {
        std::memcpy(packed, values.data, static_cast<std::size_t>(values.bytes().count()));
      }
      return;
    case Travel::kBF16:
      return kernels::cast(here, count, floats, reinterpret_cast<core::Bf16*>(packed));
    case Travel::kF16:
      return kernels::cast(here, count, floats, reinterpret_cast<core::F16*>(packed));
    case Travel::kInt8:
      return with_elements(
          {const_cast<void*>(values.data), values.elements, values.dtype},  // only read
          [&](auto* x) { kernels::quantize8(count, x, blocks.scales, blocks.q8()); });
    case Travel::kInt4: return kernels::quantize4(count, floats, blocks.scales, blocks.q4());
  }
}

void unpack(Travel travel, const std::byte* packed, const Span& values) {
  const std::int64_t count = values.elements.count();
  const PackedBlocks blocks = blocks_of(packed, values.elements);
  auto* const floats = static_cast<float*>(values.data);
  const core::Work here;
  switch (travel_of(travel, values.dtype)) {
    case Travel::kWhole:
      if (count > 0) {
        std::memcpy(values.data, packed, static_cast<std::size_t>(values.bytes().count()));
      }
      return;
    case Travel::kBF16:
      return kernels::cast(here, count, reinterpret_cast<const core::Bf16*>(packed), floats);
    case Travel::kF16:
      return kernels::cast(here, count, reinterpret_cast<const core::F16*>(packed), floats);
    case Travel::kInt8:
      return with_elements(
          values, [&](auto* x) { kernels::dequantize8(count, blocks.scales, blocks.q8(), x); });
    case Travel::kInt4: return kernels::dequantize4(count, blocks.scales, blocks.q4(), floats);
  }
}

}  // namespace fm::comm
