// Blocks, strips and tiles. The smaller of the two operands is held: a block of it, at most kDepth
// terms deep, lies packed in the L2 cache. The other one flows past in strips of 32 rows or
// columns; each is packed and multiplied with every strip of the held block. A strip of both gives
// 32 x 32 elements of C in four tiles; the other four tiles hold parts of the operands. While the
// tiles multiply, the vector units write the sums of the corner before into C and, of fp32, split
// and pack the strip that comes next.
#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm/amx_packer.h"
#include "kernels/gemm/amx_strips.h"
#include "kernels/gemm/amx_tiles.h"
#include "kernels/gemm/libraries.h"
#include "kernels/threads.h"

namespace fm::kernels::amx {
namespace {

// Terms of a block. Targets of bf16 are made of one block, so that they are rounded once.
template <class T>
constexpr std::int64_t kDepth = 512;
template <>
constexpr std::int64_t kDepth<core::Bf16> = 2048;
// Of a block: 768 KiB when packed, 1 MiB of bf16.
template <class T>
constexpr std::int64_t kHeldElements = 1 << 17;
template <>
constexpr std::int64_t kHeldElements<core::Bf16> = 1 << 19;
template <class T>
constexpr std::int64_t kHeldBytes = kHeldElements<T> / (kStrip * kStep) * kStepBytesOf<T>;
template <class T>
constexpr std::int64_t kStripBytes = kDepth<T> / kStep* kStepBytesOf<T>;
template <class T>
constexpr std::int64_t kProductsOf = kPartsOf<T> == 1 ? 1 : 6;  // of parts, a step

// Lines that will be needed, asked for while tiles multiply.
template <class T, class C>
struct RowPrefetch {
  const T* next;             // 32 elements of each row: the strip that flows next
  std::int64_t next_stride;  // elements
  const C* c;                // 32 elements of each of 32 rows: what the products are added to
  std::int64_t c_stride;

  void ask_for_next() {
    constexpr std::int64_t kLine = 64 / sizeof(T);
    for (std::int64_t i = 0; i < kStrip; i += kLine) _mm_prefetch(next + i, _MM_HINT_T1);
    next += next_stride;
  }
  void ask_for_c(std::int64_t rows) {
    constexpr std::int64_t kLine = 64 / sizeof(C);
    for (std::int64_t row = 0; row < rows; ++row, c += c_stride) {
      for (std::int64_t i = 0; i < kStrip; i += kLine) __builtin_prefetch(c + i, 1);
    }
  }
};

struct Strips {
  const std::byte* left;
  const std::byte* right;
  std::int64_t steps;
};

// So many rows of a corner a step are all of them in `steps`.
std::int64_t rows_a_step(std::int64_t steps) { return (kStrip + steps - 1) / steps; }

// to [32, 32] = a strip of the left factor times one of the right. meanwhile(i) is called after
// product i of every step.
template <class T, class C, class Meanwhile>
void multiply_strips(Strips strips, float* to, RowPrefetch<T, C> ahead,
                     const Meanwhile& meanwhile) {
  zero_corner();
  const std::int64_t c_rows = rows_a_step(strips.steps);
  const auto beside = [&](int product) {
    constexpr bool kOnce = kPartsOf<T> == 1;
    if (kOnce || product == 1) ahead.ask_for_c(c_rows);
    if (kOnce || product == 0 || product == 2) ahead.ask_for_next();
    if (kOnce) ahead.ask_for_next();
    meanwhile(product);
  };
  for (std::int64_t i = 0; i < strips.steps; ++i) {
    if constexpr (kPartsOf<T> == 1) {
      multiply_bf16_step(strips.left, strips.right, beside);
    } else {
      multiply_step(strips.left, strips.right, beside);
    }
    strips.left += kStepBytesOf<T>;
    strips.right += kStepBytesOf<T>;
  }
  store_corner(to, kStrip);
}

// 16 elements of C as fp32, and back.
__m512 load_row(__mmask16 lanes, const float* from) { return _mm512_maskz_loadu_ps(lanes, from); }
void store_row(__mmask16 lanes, __m512 row, float* to) { _mm512_mask_storeu_ps(to, lanes, row); }
__m512 load_row(__mmask16 lanes, const core::Bf16* from) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
// core::to_bf16 without its care for NaN: those of sums of bf16 end in zeros, which rounding keeps.
void store_row(__mmask16 lanes, __m512 row, core::Bf16* to) {
  const __m512i bits = _mm512_castps_si512(row);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
  _mm256_mask_storeu_epi16(to, lanes, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

// C [rows, columns] = products, or += products; from `row` on.
template <class C>
void write_corner(const float* products, Extent extent, const Target<C>& c, std::int64_t row) {
  const __mmask16 first = first_lanes(extent.terms);
  const __mmask16 second = first_lanes(extent.terms - kSide);
  for (; row < extent.vectors; ++row) {
    C* to = c.data + row * c.stride;
    __m512 low = _mm512_load_ps(products + row * kStrip);
    __m512 high = _mm512_load_ps(products + row * kStrip + kSide);
    if (c.beta == Beta::kOne) {
      low = _mm512_add_ps(low, load_row(first, to));
      high = _mm512_add_ps(high, load_row(second, to + kSide));
    }
    store_row(first, low, to);
    store_row(second, high, to + kSide);
  }
}

// Sums wait here and are written while the tiles multiply for the next corner.
template <class C>
class Waiting {
 public:
  // Where the next sums go.
  float* next() { return products_[turn_]; }
  // They are there, for a corner of C. What waited before is written.
  void put(Extent extent, const Target<C>& c) {
    from_ = next();
    turn_ = 1 - turn_;
    extent_ = extent;
    c_ = c;
    row_ = 0;
  }
  void write(std::int64_t rows) {
    if (row_ >= extent_.vectors) return;
    const std::int64_t end = std::min(row_ + rows, extent_.vectors);
    write_corner(from_, {end, extent_.terms}, c_, row_);
    row_ = end;
  }

 private:
  alignas(64) float products_[2][kStrip * kStrip];
  const float* from_ = nullptr;
  std::int64_t turn_ = 0;
  Extent extent_{0, 0};
  Target<C> c_;
  std::int64_t row_ = 0;
};

// What all threads of a product share.
template <Side kHeldSide, class T, class C>
class Product {
 public:
  static constexpr Side kFlowingSide = kHeldSide == Side::kLeft ? Side::kRight : Side::kLeft;

  Product(const GemmShape& shape, const Source<T>& left, const Source<T>& right, const Target<C>& c)
      : held_(kHeldSide == Side::kLeft ? left : right),
        flowing_(kHeldSide == Side::kLeft ? right : left),
        held_vectors_(kHeldSide == Side::kLeft ? shape.m : shape.n),
        flowing_vectors_(kHeldSide == Side::kLeft ? shape.n : shape.m),
        depth_(shape.k),
        c_(c) {}

  // One of `threads` that call it together.
  void run(std::byte* packed) const {
    const Tiles tiles;
    Flow flow;
    const std::int64_t deepest = std::min(kDepth<T>, steps_of(depth_) * kStep);
    const std::int64_t widest = kHeldElements<T> / deepest / kStrip * kStrip;
    for (std::int64_t vector = 0; vector < held_vectors_; vector += widest) {
      for (std::int64_t term = 0; term < depth_; term += kDepth<T>) {
        const PackedPart block{
            {vector, term},
            {std::min(widest, held_vectors_ - vector), std::min(kDepth<T>, depth_ - term)},
            packed};
        const std::int64_t pieces = (held_.adjacent_terms ? block.extent.vectors + kStrip - 1
                                                          : block.extent.terms + kStep - 1) /
                                    kStrip;
#pragma omp for
        for (std::int64_t i = 0; i < pieces; ++i) {
          pack_piece<kHeldSide>(held_, block.place, block.extent, i, packed);
        }
        pass(block, flow);
#pragma omp barrier
      }
    }
  }

 private:
  struct PackedPart {
    OperandOffset place;
    Extent extent;
    const std::byte* packed;
  };

  // What a thread works with.
  struct Flow {
    FlowingStrips<kFlowingSide, T, kStripBytes<T>> strips;
    Waiting<C> waiting;
  };

  // This thread's strips flow past the block.
  void pass(const PackedPart& block, Flow& flow) const {
    const std::int64_t strips = (flowing_vectors_ + kStrip - 1) / kStrip;
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t end = strips * (thread + 1) / threads * kStrip;
    const auto announce = [&](std::int64_t at) {
      if (at < end) flow.strips.announce(flowing_, {at, block.place.term}, extent_at(block, at));
    };
    std::int64_t at = strips * thread / threads * kStrip;
    announce(at);
    for (; at < end; at += kStrip) {
      const std::byte* strip = flow.strips.take();
      announce(at + kStrip);
      multiply_strip(block, at, strip, flow);
    }
    flow.waiting.write(kStrip);
  }

  Extent extent_at(const PackedPart& block, std::int64_t at) const {
    return {std::min(kStrip, flowing_vectors_ - at), block.extent.terms};
  }

  // The strip at `at` with every strip of the block.
  void multiply_strip(const PackedPart& block, std::int64_t at, const std::byte* strip,
                      Flow& flow) const {
    const Extent extent = extent_at(block, at);
    const std::int64_t steps = steps_of(extent.terms);
    const std::int64_t corners = (block.extent.vectors + kStrip - 1) / kStrip;
    const std::int64_t products = corners * steps * kProductsOf<T>;
    const std::int64_t portions = (flow.strips.left() + products - 1) / products;
    const std::int64_t soon = std::min(at + flow.strips.kReadAhead * kStrip, flowing_vectors_ - 1);
    for (std::int64_t vector = 0; vector < block.extent.vectors; vector += kStrip) {
      const std::byte* held = block.packed + vector / kStrip * steps * kStepBytesOf<T>;
      const std::int64_t held_at = block.place.vector + vector;
      const Extent c_extent = kHeldSide == Side::kLeft
                                  ? Extent{block.extent.vectors - vector, extent.vectors}
                                  : Extent{extent.vectors, block.extent.vectors - vector};
      Target<C> c = c_;
      c.data += kHeldSide == Side::kLeft ? held_at * c.stride + at : at * c.stride + held_at;
      if (block.place.term > 0) c.beta = Beta::kOne;
      const std::byte* left = kHeldSide == Side::kLeft ? held : strip;
      const std::byte* right = kHeldSide == Side::kLeft ? strip : held;
      const auto ahead = ahead_of({soon, block.place.term}, vector / kStrip * steps, c);
      multiply_into({left, right, steps}, {c_extent, c}, ahead, portions, flow);
    }
  }

  // Every step of a product asks for two pairs of lines: rows of 32 vectors, or, where terms are
  // adjacent, 64 terms of a vector.
  RowPrefetch<T, C> ahead_of(OperandOffset next, std::int64_t steps_before,
                             const Target<C>& c) const {
    const std::int64_t pairs = 2 * steps_before;
    const bool adjacent = flowing_.adjacent_terms;
    const std::int64_t in_vector = std::min(kDepth<T>, depth_ - next.term) / kStrip;
    const std::int64_t vector = adjacent ? pairs / std::max<std::int64_t>(1, in_vector) : 0;
    const std::int64_t term = adjacent ? 0 : pairs;
    const bool inside = adjacent ? vector < kStrip : term < in_vector * kStrip;
    return {.next = flowing_.at(next.vector, next.term) +
                    (inside ? (adjacent ? vector : term) * flowing_.stride : 0),
            .next_stride = adjacent ? kStrip : flowing_.stride,
            .c = c.data,
            .c_stride = c.stride};
  }

  struct OutputPart {
    Extent extent;
    Target<C> c;
  };
  static void multiply_into(const Strips& strips, const OutputPart& part,
                            const RowPrefetch<T, C>& ahead, std::int64_t portions, Flow& flow) {
    const Extent whole{std::min(part.extent.vectors, kStrip), std::min(part.extent.terms, kStrip)};
    const std::int64_t rows = rows_a_step(strips.steps);
    const auto meanwhile = [&](int product) {
      if (product == 0) flow.waiting.write(rows);
      flow.strips.go_on(portions);
    };
    multiply_strips(strips, flow.waiting.next(), ahead, meanwhile);
    flow.waiting.put(whole, part.c);
  }

  Source<T> held_;
  Source<T> flowing_;
  std::int64_t held_vectors_;
  std::int64_t flowing_vectors_;
  std::int64_t depth_;
  Target<C> c_;
};

template <Side kHeldSide, class T, class C>
void run_product(const GemmShape& shape, const Source<T>& left, const Source<T>& right,
                 const Target<C>& c) {
  const Product<kHeldSide, T, C> product(shape, left, right, c);
  const std::int64_t strips = (std::max(shape.m, shape.n) + kStrip - 1) / kStrip;
  const auto threads = static_cast<int>(std::min<std::int64_t>(kernel_threads(), strips));
  alignas(64) std::byte packed[kHeldBytes<T>];  // on the stack: a product allocates nothing
#pragma omp parallel num_threads(threads) if (threads > 1)
  product.run(packed);
}

template <class T, class C>
void multiply_operands(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                       const Target<C>& c) {
  const Source<T> left{a.data, a.stride, a.form == Form::kAsIs};
  const Source<T> right{b.data, b.stride, b.form == Form::kTransposed};
  (shape.m <= shape.n ? run_product<Side::kLeft, T, C>
                      : run_product<Side::kRight, T, C>)(shape, left, right, c);
}

}  // namespace
}  // namespace fm::kernels::amx

namespace fm::kernels {

void amx_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
              const Target<float>& c) {
  amx::multiply_operands(shape, a, b, c);
}

void amx_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
              const Target<float>& c) {
  amx::multiply_operands(shape, a, b, c);
}

void amx_gemm(const GemmShape& shape, const Operand<core::Bf16>& a, const Operand<core::Bf16>& b,
              const Target<core::Bf16>& c) {
  // More than one block of terms would round C between two.
  if (shape.k > amx::kDepth<core::Bf16>) {
    rounded_gemm(shape, a, b, c, amx_gemm);
    return;
  }
  amx::multiply_operands(shape, a, b, c);
}

}  // namespace fm::kernels
