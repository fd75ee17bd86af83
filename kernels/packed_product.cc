// Blocks, panels and tiles. A block of B (at most 512 terms of 512 columns) is packed into panels
// of two vectors' columns, a block of A into panels of few rows; a panel of both gives one tile of
// C, whose sums stay in registers for all terms of the block. A panel of B stays in the L1 cache
// while the panels of A's block pass it, which come from L2. What is packed next is asked for, some
// lines a tile, while tiles are computed.
#include "kernels/packed_product.h"

#include <algorithm>
#include <type_traits>

#include "kernels/gemm_source.h"
#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {
namespace {

// Of a tile. 12 sums (24 of AVX-512) leave registers for two vectors of B and one number of A; 10
// chains would hide the latency of two multiply-add ports.
constexpr std::int64_t kRows = kVectorFloats == 16 ? 12 : 6;
constexpr std::int64_t kColumns = 2 * kVectorFloats;
// Of a block.
constexpr std::int64_t kTerms = 512;
constexpr std::int64_t kBlockRows = 96;
constexpr std::int64_t kBlockColumns = 512;

constexpr std::int64_t panels_of(std::int64_t vectors, std::int64_t width) {
  return (vectors + width - 1) / width;
}

// Four neighbours in memory, as fp32.
using Four [[gnu::vector_size(16)]] = float;
using Two [[gnu::vector_size(8)]] = float;
[[gnu::always_inline]] inline Four load_four(const float* from) {
  using Anywhere [[gnu::vector_size(16), gnu::aligned(4)]] = float;
  return *reinterpret_cast<const Anywhere*>(from);
}
[[gnu::always_inline]] inline Four load_four(const core::Bf16* from) {
  using Halves [[gnu::vector_size(8)]] = std::uint16_t;
  using HalvesAnywhere [[gnu::vector_size(8), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
  using Bits [[gnu::vector_size(16)]] = std::uint32_t;
  const Halves halves = *reinterpret_cast<const HalvesAnywhere*>(from);
  return std::bit_cast<Four>(__builtin_convertvector(halves, Bits) << 16);
}
[[gnu::always_inline]] inline void store_four(Four value, float* to) {
  using Anywhere [[gnu::vector_size(16), gnu::aligned(4)]] = float;
  *reinterpret_cast<Anywhere*>(to) = value;
}
// Of widths that are no multiple of four.
[[maybe_unused, gnu::always_inline]] inline void store_two(Two value, float* to) {
  using Anywhere [[gnu::vector_size(8), gnu::aligned(4)]] = float;
  *reinterpret_cast<Anywhere*>(to) = value;
}

// Four terms of four vectors, `stride` apart, become four vectors' numbers of each term, kWidth
// apart.
template <std::int64_t kWidth, class T>
[[gnu::always_inline]] inline void turn_four(const T* from, std::int64_t stride, float* to) {
  const Four a = load_four(from);
  const Four b = load_four(from + stride);
  const Four c = load_four(from + 2 * stride);
  const Four d = load_four(from + 3 * stride);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_four(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), to);
  store_four(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), to + kWidth);
  store_four(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * kWidth);
  store_four(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * kWidth);
}
// The same of two vectors.
template <std::int64_t kWidth, class T>
[[gnu::always_inline]] inline void turn_two(const T* from, std::int64_t stride, float* to) {
  const Four a = load_four(from);
  const Four b = load_four(from + stride);
  const Four low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  store_two(__builtin_shufflevector(low, low, 0, 1), to);
  store_two(__builtin_shufflevector(low, low, 2, 3), to + kWidth);
  store_two(__builtin_shufflevector(high, high, 0, 1), to + 2 * kWidth);
  store_two(__builtin_shufflevector(high, high, 2, 3), to + 3 * kWidth);
}

// The terms of one number after the other: what is left of a panel, with zeros for the vectors that
// are missing.
template <std::int64_t kWidth, class T>
void pack_singly(const Source<T>& source, Place place, Extent extent, float* to) {
  for (std::int64_t term = 0; term < extent.terms; ++term) {
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const bool there = i < extent.vectors;
      to[term * kWidth + i] =
          there ? core::to_float(*source.at(place.vector + i, place.term + term)) : 0.0F;
    }
  }
}

// A panel: kWidth numbers of every term, zeros for vectors beyond the extent.
template <std::int64_t kWidth, class T>
void pack_panel(const Source<T>& source, Place place, Extent extent, float* to) {
  if (extent.vectors < kWidth) return pack_singly<kWidth>(source, place, extent, to);
  const T* const from = source.at(place.vector, place.term);
  if (!source.adjacent_terms) {
    for (std::int64_t term = 0; term < extent.terms; ++term) {
      for (std::int64_t i = 0; i < kWidth; ++i)
        to[term * kWidth + i] = core::to_float(from[term * source.stride + i]);
    }
    return;
  }
  const std::int64_t whole = extent.terms / 4 * 4;
  constexpr std::int64_t kFours = kWidth / 4 * 4;
  for (std::int64_t i = 0; i < kFours; i += 4) {
    for (std::int64_t term = 0; term < whole; term += 4)
      turn_four<kWidth>(from + i * source.stride + term, source.stride, to + term * kWidth + i);
  }
  if constexpr (kFours < kWidth) {
    for (std::int64_t term = 0; term < whole; term += 4) {
      turn_two<kWidth>(from + kFours * source.stride + term, source.stride,
                       to + term * kWidth + kFours);
    }
  }
  pack_singly<kWidth>(source, {place.vector, place.term + whole}, {kWidth, extent.terms - whole},
                      to + whole * kWidth);
}

// Lines of an operand that will be packed, asked for a few at a time.
template <class T>
class Ahead {
 public:
  // `turns`: how often ask() will be called.
  void start(const Source<T>& source, Place place, Extent extent, std::int64_t turns) {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    run_ = source.at(place.vector, place.term);
    stride_ = source.stride;
    run_lines_ = ((source.adjacent_terms ? extent.terms : extent.vectors) + kLine - 1) / kLine;
    lines_ = run_lines_ * (source.adjacent_terms ? extent.vectors : extent.terms);
    a_turn_ = (lines_ + turns - 1) / turns;
    at_ = 0;
  }
  [[gnu::always_inline]] void ask() {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const std::int64_t count = std::min(a_turn_, lines_);
    lines_ -= count;
    for (std::int64_t i = 0; i < count; ++i) {
      __builtin_prefetch(run_ + at_ * kLine, 0, 2);
      if (++at_ == run_lines_) {
        at_ = 0;
        run_ += stride_;
      }
    }
  }

 private:
  const T* run_ = nullptr;
  std::int64_t stride_ = 0;
  std::int64_t run_lines_ = 1;
  std::int64_t lines_ = 0;
  std::int64_t a_turn_ = 0;
  std::int64_t at_ = 0;
};

// The numbers of a tile's rows, term after term: of a packed panel, or of fp32 rows where they lie.
struct PackedRows {
  const float* data;

  [[gnu::always_inline]] float at(std::int64_t row) const { return data[row]; }
  [[gnu::always_inline]] void go_on() { data += kRows; }
};
struct RowsInPlace {
  const float* data;
  std::int64_t stride;

  [[gnu::always_inline]] float at(std::int64_t row) const { return data[row * stride]; }
  [[gnu::always_inline]] void go_on() { ++data; }
};

template <class Rows>
struct Panels {
  std::int64_t terms;
  Rows a;
  const float* b;
};

// Sums of one tile.
using Sums = Vector[kRows][2];

// The products of one term.
template <class Rows>
[[gnu::always_inline]] inline void multiply_term(Panels<Rows>& panels, Sums& sums) {
  const Vector left = load(panels.b);
  const Vector right = load(panels.b + kVectorFloats);
#pragma GCC unroll 12
  for (std::int64_t i = 0; i < kRows; ++i) {
    const Vector number = splat(panels.a.at(i));
    sums[i][0] = fused(number, left, sums[i][0]);
    sums[i][1] = fused(number, right, sums[i][1]);
  }
  panels.a.go_on();
  panels.b += kColumns;
  // Terms stay apart: of two at once GCC moves sums between registers, and spills one.
  asm volatile("" ::: "memory");
}

template <class Rows>
[[gnu::always_inline]] inline void multiply(Panels<Rows> panels, Sums& sums) {
  constexpr std::int64_t kTogether = 4;
  std::int64_t term = 0;
  for (; term + kTogether <= panels.terms; term += kTogether) {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kTogether; ++i) multiply_term(panels, sums);
  }
  for (; term < panels.terms; ++term) multiply_term(panels, sums);
}

// C [kRows, kColumns] = product, or += product.
template <class Rows>
void whole_tile(const Panels<Rows>& panels, const Target<float>& c) {
  // Every loop over rows is unrolled: sums that are addressed by a variable lie in memory.
#pragma GCC unroll 12
  for (std::int64_t i = 0; i < kRows; ++i) __builtin_prefetch(c.data + i * c.stride, 1);
  Sums sums;
#pragma GCC unroll 12
  for (std::int64_t i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = Vector{};
  multiply(panels, sums);
  if (c.beta == Beta::kOne) {
#pragma GCC unroll 12
    for (std::int64_t i = 0; i < kRows; ++i) {
      sums[i][0] = load(c.data + i * c.stride) + sums[i][0];
      sums[i][1] = load(c.data + i * c.stride + kVectorFloats) + sums[i][1];
    }
  }
#pragma GCC unroll 12
  for (std::int64_t i = 0; i < kRows; ++i) {
    store(sums[i][0], c.data + i * c.stride);
    store(sums[i][1], c.data + i * c.stride + kVectorFloats);
  }
}

// The same of the first rows and columns of a tile.
template <class Rows>
void part_of_tile(const Panels<Rows>& panels, std::int64_t rows, std::int64_t columns,
                  const Target<float>& c) {
  float sums[kRows * kColumns];
  whole_tile(panels, {sums, kColumns, Beta::kZero});
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      float& to = c.data[i * c.stride + j];
      const float sum = sums[i * kColumns + j];
      to = c.beta == Beta::kOne ? to + sum : sum;
    }
  }
}

template <class T>
class Product {
 public:
  Product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b, const Target<float>& c)
      : shape_(shape),
        a_{a.data, a.stride, a.form == Form::kAsIs},
        b_{b.data, b.stride, b.form == Form::kTransposed},
        c_(c) {}

  void run() {
    for (std::int64_t column = 0; column < shape_.n; column += kBlockColumns) {
      for (std::int64_t term = 0; term < shape_.k; term += kTerms) {
        for (std::int64_t row = 0; row < shape_.m; row += kBlockRows) block({row, column, term});
      }
    }
  }

 private:
  struct Corner {
    std::int64_t row;
    std::int64_t column;
    std::int64_t term;
  };

  Extent a_extent(const Corner& at) const {
    return {std::min(kBlockRows, shape_.m - at.row), std::min(kTerms, shape_.k - at.term)};
  }
  Extent b_extent(const Corner& at) const {
    return {std::min(kBlockColumns, shape_.n - at.column), std::min(kTerms, shape_.k - at.term)};
  }

  // The block of A that follows.
  Corner next(Corner at) const {
    at.row += kBlockRows;
    if (at.row < shape_.m) return at;
    at.row = 0;
    at.term += kTerms;
    if (at.term < shape_.k) return at;
    return {0, at.column + kBlockColumns, 0};
  }

  // Whether whole panels of A need not be packed: where rows of fp32 lie close to each other.
  static constexpr bool kFp32 = std::is_same_v<T, float>;
  static constexpr std::int64_t kFarRows = 2048;
  bool lies_in_rows() const { return kFp32 && a_.adjacent_terms && a_.stride < kFarRows; }

  // A panel of B is packed when the first rows need it, one of A when the first columns do.
  void block(const Corner& at) {
    const Extent a = a_extent(at);
    const Extent b = b_extent(at);
    const std::int64_t a_panels = panels_of(a.vectors, kRows);
    const std::int64_t b_panels = panels_of(b.vectors, kColumns);
    const Corner following = next(at);
    if (following.column < shape_.n) {
      a_ahead_.start(a_, {following.row, following.term}, a_extent(following), a_panels * b_panels);
    }
    if (!a_.adjacent_terms) pack_rows({at.row, at.term}, a);
    for (std::int64_t j = 0; j < b_panels; ++j) {
      const std::int64_t column = j * kColumns;
      if (at.row == 0) pack_columns(at, b, column, a_panels);
      for (std::int64_t i = 0; i < a_panels; ++i) {
        const std::int64_t row = i * kRows;
        const Extent rest{a.vectors - row, a.terms};
        const bool in_place = lies_in_rows() && rest.vectors >= kRows;
        if (j == 0 && a_.adjacent_terms && !in_place) {
          pack_panel<kRows>(a_, {at.row + row, at.term}, rest, packed_a_ + row * a.terms);
        }
        a_ahead_.ask();
        if (at.row == 0) b_ahead_.ask();
        Target<float> c = c_;
        c.data += (at.row + row) * c.stride + at.column + column;
        if (at.term > 0) c.beta = Beta::kOne;
        const float* const right = packed_b_ + column * a.terms;
        if constexpr (kFp32) {
          if (in_place) {
            const RowsInPlace left{a_.at(at.row + row, at.term), a_.stride};
            tile(Panels<RowsInPlace>{a.terms, left, right}, rest, b.vectors - column, c);
            continue;
          }
        }
        const PackedRows left{packed_a_ + row * a.terms};
        tile(Panels<PackedRows>{a.terms, left, right}, rest, b.vectors - column, c);
      }
    }
  }

  template <class Rows>
  static void tile(const Panels<Rows>& panels, const Extent& a, std::int64_t columns,
                   const Target<float>& c) {
    if (a.vectors >= kRows && columns >= kColumns) return whole_tile(panels, c);
    part_of_tile(panels, std::min(a.vectors, kRows), std::min(columns, kColumns), c);
  }

  // The panel of B at a column of its block; the one after it is asked for from here on.
  void pack_columns(const Corner& at, Extent b, std::int64_t column, std::int64_t turns) {
    pack_panel<kColumns>(b_, {at.column + column, at.term}, {b.vectors - column, b.terms},
                         packed_b_ + column * b.terms);
    const std::int64_t after = column + kColumns;
    if (after < b.vectors) {
      b_ahead_.start(b_, {at.column + after, at.term},
                     {std::min(kColumns, b.vectors - after), b.terms}, turns);
    }
  }

  // A block of A whose rows are adjacent: a few terms of all panels, in the order of memory.
  void pack_rows(Place place, Extent extent) {
    constexpr std::int64_t kTogether = 8;
    for (std::int64_t term = 0; term < extent.terms; term += kTogether) {
      const std::int64_t terms = std::min(kTogether, extent.terms - term);
      for (std::int64_t row = 0; row < extent.vectors; row += kRows) {
        pack_panel<kRows>(a_, {place.vector + row, place.term + term},
                          {extent.vectors - row, terms},
                          packed_a_ + row * extent.terms + term * kRows);
      }
    }
  }

  GemmShape shape_;
  Source<T> a_;
  Source<T> b_;
  Target<float> c_;
  Ahead<T> a_ahead_;
  Ahead<T> b_ahead_;
  alignas(64) float packed_a_[panels_of(kBlockRows, kRows) * kRows * kTerms];
  alignas(64) float packed_b_[panels_of(kBlockColumns, kColumns) * kColumns * kTerms];
};

}  // namespace

template <class T>
void packed_product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c) {
  Product<T>(shape, a, b, c).run();
}
template void packed_product(const GemmShape& shape, const Operand<float>& a,
                             const Operand<float>& b, const Target<float>& c);
template void packed_product(const GemmShape& shape, const Operand<core::Bf16>& a,
                             const Operand<core::Bf16>& b, const Target<float>& c);

}  // namespace fm::kernels::FM_SIMD
