// Blocks, panels and tiles. A block of B (at most 512 terms of 512 columns) is packed into panels
// of one to three vectors' columns, a block of A into panels of few rows where it cannot be read as
// it lies; a panel of both gives one tile of C, whose sums stay in registers for all terms of the
// block. A panel of B stays near while the panels of A's block pass it. Between the terms, what
// comes next of A, B and C is asked for, line by line.
#include <algorithm>
#include <type_traits>

#include "core/types.h"
#include "kernels/gemm/libraries.h"
#include "kernels/gemm/panel_packing.h"
#include "kernels/gemm/product_ahead.h"
#include "kernels/gemm/source.h"
#include "kernels/rows.h"
#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {
namespace {

// Of a tile. 12 sums (24 of AVX-512) leave registers for the vectors of B and one number of A; 10
// chains would hide the latency of two multiply-add ports.
constexpr std::int64_t kRows = kVectorFloats == 16 ? 8 : 6;
constexpr int kMostVectors = kVectorFloats == 16 ? 3 : 2;
// Columns of the panel that begins `left` columns before the end of its block.
constexpr std::int64_t panel_columns(std::int64_t left) {
  return panel_vectors(core::ceil_div(left, kVectorFloats), kMostVectors) * kVectorFloats;
}
template <int kCount>
using Vectors = std::integral_constant<int, kCount>;
// function(Vectors<n>) for a panel of n vectors.
template <class Function>
[[gnu::always_inline]] inline void with_vectors(std::int64_t columns, const Function& function) {
  switch (columns / kVectorFloats) {
    case 1: return function(Vectors<1>());
    case 2: return function(Vectors<2>());
    default: return function(Vectors<kMostVectors>());  // no panel is wider
  }
}
// Of a block.
constexpr std::int64_t kTerms = 512;
constexpr std::int64_t kBlockRows = kVectorFloats == 16 ? 192 : 96;
constexpr std::int64_t kBlockColumns = kVectorFloats == 16 ? 480 : 512;  // whole widest panels

// The numbers of a tile's rows, term after term: of rows side by side (of a packed panel too) or
// of terms side by side.
struct AdjacentRows {
  const float* data;
  std::int64_t stride;

  [[gnu::always_inline]] float at(std::int64_t row) const { return data[row]; }
  [[gnu::always_inline]] void go_on() { data += stride; }
};
struct AdjacentTerms {
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

// What is asked for between the terms: the next block of A, the next panel of B.
template <class T>
struct Next {
  BlockAhead<T> a, b;
};

// Sums of one tile.
template <int kCount>
using Sums = Vector[kRows][kCount];

// The products of one term.
template <int kCount, class Rows>
[[gnu::always_inline]] inline void multiply_term(Panels<Rows>& panels, Sums<kCount>& sums) {
  Vector row[kCount];
#pragma GCC unroll 3
  for (int v = 0; v < kCount; ++v) row[v] = load(panels.b + v * kVectorFloats);
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < kRows; ++i) {
    const Vector number = splat(panels.a.at(i));
#pragma GCC unroll 3
    for (int v = 0; v < kCount; ++v) sums[i][v] = fused(number, row[v], sums[i][v]);
  }
  panels.a.go_on();
  panels.b += kCount * kVectorFloats;
  // Terms stay apart: of two at once GCC moves sums between registers, and spills one.
  asm volatile("" ::: "memory");
}

template <int kCount, class Rows, class Ask>
[[gnu::always_inline]] inline void multiply(Panels<Rows> panels, Sums<kCount>& sums,
                                            const Ask& ask) {
  constexpr std::int64_t kTogether = 8;
  std::int64_t term = 0;
  for (; term + kTogether <= panels.terms; term += kTogether) {
    ask();
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kTogether; ++i) multiply_term<kCount>(panels, sums);
  }
  for (; term < panels.terms; ++term) multiply_term<kCount>(panels, sums);
}

// function(row, vector) of every sum of a tile, unrolled: sums that are addressed by a variable lie
// in memory.
template <int kCount, class Function>
[[gnu::always_inline]] inline void for_each_sum(const Function& function) {
#pragma GCC unroll 8
  for (std::int64_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kCount; ++v) function(i, v);
  }
}

// C [kRows, kCount vectors] = product, or += product.
template <int kCount, class Rows, class T>
void whole_tile(const Panels<Rows>& panels, Next<T>& next, const Target<float>& c) {
  const auto at = [&](std::int64_t i, int v) { return c.data + i * c.stride + v * kVectorFloats; };
  Sums<kCount> sums;
  for_each_sum<kCount>([&](std::int64_t i, int v) { sums[i][v] = Vector{}; });
  TileAhead tile(c.data, c.stride, kRows, kCount);
  multiply<kCount>(panels, sums, [&] {
    tile.ask();
    next.a.ask();
    next.b.ask();
  });
  if (c.beta == Beta::kOne) {
    for_each_sum<kCount>([&](std::int64_t i, int v) { sums[i][v] = load(at(i, v)) + sums[i][v]; });
  }
  for_each_sum<kCount>([&](std::int64_t i, int v) { store(sums[i][v], at(i, v)); });
}

// The same of the first rows and columns of a tile.
template <int kCount, class Rows, class T>
void part_of_tile(const Panels<Rows>& panels, Next<T>& next, const RowShape& part,
                  const Target<float>& c) {
  constexpr std::int64_t kColumns = kCount * kVectorFloats;
  float sums[kRows * kColumns];
  whole_tile<kCount>(panels, next, {sums, kColumns, Beta::kZero});
  for (std::int64_t i = 0; i < part.rows; ++i) {
    for (std::int64_t j = 0; j < part.width; ++j) {
      float& to = c.data[i * c.stride + j];
      const float sum = sums[i * kColumns + j];
      to = c.beta == Beta::kOne ? to + sum : sum;
    }
  }
}

// `rest`: rows and columns of C from the tile's first on.
template <int kCount, class Rows, class T>
void tile(const Panels<Rows>& panels, Next<T>& next, const RowShape& rest, const Target<float>& c) {
  constexpr std::int64_t kColumns = kCount * kVectorFloats;
  if (rest.rows >= kRows && rest.width >= kColumns) return whole_tile<kCount>(panels, next, c);
  const RowShape part{std::min(rest.rows, kRows), std::min(rest.width, kColumns)};
  part_of_tile<kCount>(panels, next, part, c);
}

template <class T>
class Product {
 public:
  Product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b, const Target<float>& c)
      : shape_(shape),
        a_{a.data, a.stride, a.form == Form::kAsIs},
        b_{b.data, b.stride, b.form == Form::kTransposed},
        c_(c),
        in_place_(kFp32 && (a_.adjacent_terms ? a_.stride < kFarRows : kVectorFloats == 16)) {}

  void run() {
    for (std::int64_t column = 0; column < shape_.n; column += kBlockColumns) {
      for (std::int64_t term = 0; term < shape_.k; term += kTerms) {
        for (std::int64_t row = 0; row < shape_.m; row += kBlockRows) {
          const Corner at{row, column, term};
          compute({at, a_extent(at), b_extent(at)});
        }
      }
    }
  }

 private:
  struct Corner {
    std::int64_t row;
    std::int64_t column;
    std::int64_t term;
  };

  struct OutputBlock {
    Corner at;
    Extent a;
    Extent b;
  };

  Extent a_extent(const Corner& at) const {
    return {std::min(kBlockRows, shape_.m - at.row), std::min(kTerms, shape_.k - at.term)};
  }
  Extent b_extent(const Corner& at) const {
    return {std::min(kBlockColumns, shape_.n - at.column), std::min(kTerms, shape_.k - at.term)};
  }

  void ask_for_next_rows(const OutputBlock& block) {
    const Corner next = following(block.at);
    if (next.column < shape_.n) next_.a = ask_for(a_, {next.row, next.term}, a_extent(next));
  }

  // The block of A that follows.
  Corner following(Corner at) const {
    at.row += kBlockRows;
    if (at.row < shape_.m) return at;
    at.row = 0;
    at.term += kTerms;
    if (at.term < shape_.k) return at;
    return {0, at.column + kBlockColumns, 0};
  }

  // A panel of B is packed when the first rows need it, one of A when the first columns do.
  void compute(const OutputBlock& block) {
    ask_for_next_rows(block);
    const bool by_rows = in_place_ || a_.adjacent_terms;
    if (!by_rows) pack_rows({block.at.row, block.at.term}, block.a);
    std::int64_t columns = 0;
    for (std::int64_t column = 0; column < block.b.vectors; column += columns) {
      columns = panel_columns(block.b.vectors - column);
      if (block.at.row == 0) pack_columns(block, column);
      for (std::int64_t row = 0; row < block.a.vectors; row += kRows) {
        if (column == 0 && by_rows && !in_place(block, row)) pack_row(block, row);
        compute_tile(block, row, column);
      }
    }
  }

  // Whether a panel of A need not be packed.
  bool in_place(const OutputBlock& block, std::int64_t row) const {
    return in_place_ && block.a.vectors - row >= kRows;
  }

  // The tile at a row and a column of its block.
  void compute_tile(const OutputBlock& block, std::int64_t row, std::int64_t column) {
    Target<float> c = c_;
    c.data += (block.at.row + row) * c.stride + block.at.column + column;
    if (block.at.term > 0) c.beta = Beta::kOne;
    const std::int64_t terms = block.a.terms;
    const float* const right = packed_b_ + column * terms;
    const RowShape rest{block.a.vectors - row, block.b.vectors - column};
    with_vectors(panel_columns(rest.width), [&](auto vectors) {
      const auto of = [&](const auto& rows) {
        tile<vectors>(Panels<std::decay_t<decltype(rows)>>{terms, rows, right}, next_, rest, c);
      };
      if constexpr (kFp32) {
        const float* const left = a_.at(block.at.row + row, block.at.term);
        if (in_place(block, row) && a_.adjacent_terms) return of(AdjacentTerms{left, a_.stride});
        if (in_place(block, row)) return of(AdjacentRows{left, a_.stride});
      }
      of(AdjacentRows{packed_a_ + row * terms, kRows});
    });
  }

  // Packs the panel of B at a column of its block; the one after it is prefetched from here on.
  void pack_columns(const OutputBlock& block, std::int64_t column) {
    const Corner& at = block.at;
    const Extent rest{block.b.vectors - column, block.b.terms};
    const std::int64_t columns = panel_columns(rest.vectors);
    with_vectors(columns, [&](auto vectors) {
      pack_panel<vectors * kVectorFloats>(b_, {at.column + column, at.term}, rest,
                                          packed_b_ + column * rest.terms);
    });
    next_.b = {};
    const std::int64_t left = rest.vectors - columns;
    if (left <= 0) return;
    next_.b = ask_for(b_, {at.column + column + columns, at.term},
                      {std::min(left, panel_columns(left)), rest.terms});
  }

  // The panel of A at a row of its block.
  void pack_row(const OutputBlock& block, std::int64_t row) {
    pack_panel<kRows>(a_, {block.at.row + row, block.at.term},
                      {block.a.vectors - row, block.a.terms}, packed_a_ + row * block.a.terms);
  }

  // A block of A whose rows are adjacent: a few terms of all panels, in the order of memory.
  void pack_rows(OperandOffset place, Extent extent) {
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

  // Rows of fp32 are read as they lie; half as wide a vector leaves them less time.
  static constexpr bool kFp32 = std::is_same_v<T, float>;
  static constexpr std::int64_t kFarRows = kVectorFloats == 16 ? INT64_MAX : 2048;

  GemmShape shape_;
  Source<T> a_;
  Source<T> b_;
  Target<float> c_;
  bool in_place_;
  Next<T> next_;
  static_assert(kBlockRows % kRows == 0 && kBlockColumns % kVectorFloats == 0);
  alignas(64) float packed_a_[kBlockRows * kTerms];
  alignas(64) float packed_b_[kBlockColumns * kTerms];
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
template void packed_product(const GemmShape& shape, const Operand<core::F16>& a,
                             const Operand<core::F16>& b, const Target<float>& c);

}  // namespace fm::kernels::FM_SIMD
