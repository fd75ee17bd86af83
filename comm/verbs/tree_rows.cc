#include "comm/verbs/tree_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/pointwise/sums.h"

namespace fm::comm {
namespace {

constexpr std::size_t kBlock = 1024;  // elements; a block of every row stays in the cache

template <class T>
void add(const T* a, const T* b, T* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

// Adds one block. `nodes` holds the leaves and is overwritten. The sums of a level go to slots
// [0, pairs) of `count` elements: pair i / 2 has read slot i already, and the slot of a leftover
// lies beyond all later pairs.
template <class T>
void tree_block(std::vector<const T*>& nodes, std::vector<T>& slots, T* out, std::size_t count) {
  std::size_t live = nodes.size();
  while (live > 2) {
    const std::size_t pairs = live / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      T* const sum = slots.data() + i * count;
      add(nodes[2 * i], nodes[2 * i + 1], sum, count);
      nodes[i] = sum;
    }
    if (live % 2 == 1) nodes[pairs] = nodes[live - 1];
    live = pairs + live % 2;
  }
  if (live == 2) {
    add(nodes[0], nodes[1], out, count);
  } else if (nodes[0] != out) {
    std::memcpy(out, nodes[0], count * sizeof(T));
  }
}

template <class T>
void tree_rows_of(std::span<const void* const> rows, T* out, std::size_t elements) {
  std::vector<const T*> nodes(rows.size());
  // A sum of two rows needs no slots, and most sums have few elements.
  std::vector<T> slots(rows.size() > 2 ? rows.size() / 2 * std::min(kBlock, elements) : 0);
  for (std::size_t begin = 0; begin < elements; begin += kBlock) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      nodes[r] = static_cast<const T*>(rows[r]) + begin;
    }
    tree_block(nodes, slots, out + begin, std::min(kBlock, elements - begin));
  }
}

void tree_floats(std::span<const void* const> rows, float* out, std::int64_t elements) {
  RowList<const float*> floats(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) floats[i] = static_cast<const float*>(rows[i]);
  kernels::tree_add(core::Work(), floats, elements, out);
}

}  // namespace

void tree_sum_rows(std::span<const void* const> rows, Span out) {
  FM_CHECK(!rows.empty(), "a sum needs at least one rank");
  const auto elements = static_cast<std::size_t>(out.elements.count());
  switch (out.dtype) {
    case core::DType::kF32:
      return tree_floats(rows, static_cast<float*>(out.data), out.elements.count());
    case core::DType::kF64: return tree_rows_of(rows, static_cast<double*>(out.data), elements);
    case core::DType::kI64:
      return tree_rows_of(rows, static_cast<std::int64_t*>(out.data), elements);
    case core::DType::kBF16:
    case core::DType::kF16:
    case core::DType::kI32:
    case core::DType::kU8: break;
  }
  FM_CHECK(false, "sums over ranks exist for fp32, fp64 and int64, not ", name_of(out.dtype));
}

}  // namespace fm::comm
