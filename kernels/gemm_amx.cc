// Blocks, strips and tiles. The smaller of the two operands is held: a block of it, at most 512
// terms deep, lies packed in the L2 cache. The other one flows past in strips of 32 rows or
// columns; each is packed and multiplied with every strip of the held block. A strip of both gives
// 32 x 32 elements of C in four tiles; the other four tiles hold parts of the operands.
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/amx_strips.h"
#include "kernels/amx_tiles.h"
#include "kernels/gemm_libraries.h"

namespace fm::kernels::amx {
namespace {

constexpr std::int64_t kDepth = 512;             // terms of a block
constexpr std::int64_t kHeldElements = 1 << 17;  // of a block: 768 KiB when packed
constexpr std::int64_t kHeldBytes = kHeldElements / (kStrip * kStep) * kStepBytes;
constexpr std::int64_t kStripBytes = kDepth / kStep * kStepBytes;

// Lines that will be needed, asked for while tiles multiply.
struct Ahead {
  const float* next;         // two lines of each row: the strip that flows next
  std::int64_t next_stride;  // elements
  const float* c;            // two lines of each of 32 rows: what the products are added to
  std::int64_t c_stride;
};

struct Corner {
  float* data;
  std::int64_t stride;
};

// to [32, 32] = a strip of the left factor times one of the right.
void multiply_strips(const std::byte* left, const std::byte* right, std::int64_t steps,
                     const Corner& to, Ahead ahead) {
  zero_corner();
  const std::int64_t c_rows = (kStrip + steps - 1) / steps;
  const auto prefetch = [&](int product) {
    if (product == 1) {
      for (std::int64_t row = 0; row < c_rows; ++row, ahead.c += ahead.c_stride) {
        __builtin_prefetch(ahead.c, 1);
        __builtin_prefetch(ahead.c + kSide, 1);
      }
    }
    if (product != 0 && product != 2) return;
    _mm_prefetch(ahead.next, _MM_HINT_T1);
    _mm_prefetch(ahead.next + kSide, _MM_HINT_T1);
    ahead.next += ahead.next_stride;
  };
  for (std::int64_t i = 0; i < steps; ++i, left += kStepBytes, right += kStepBytes) {
    multiply_step(left, right, prefetch);
  }
  store_corner(to.data, to.stride);
}

// C [rows, columns] = products, or += products.
void write_corner(const float* products, Extent extent, const Target<float>& c) {
  const __mmask16 first = first_lanes(extent.terms);
  const __mmask16 second = first_lanes(extent.terms - kSide);
  for (std::int64_t row = 0; row < extent.vectors; ++row) {
    float* to = c.data + row * c.stride;
    __m512 low = _mm512_load_ps(products + row * kStrip);
    __m512 high = _mm512_load_ps(products + row * kStrip + kSide);
    if (c.beta == Beta::kOne) {
      low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(first, to));
      high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(second, to + kSide));
    }
    _mm512_mask_storeu_ps(to, first, low);
    _mm512_mask_storeu_ps(to + kSide, second, high);
  }
}

// What all threads of a product share.
template <Side kHeldSide>
class Product {
 public:
  static constexpr Side kFlowingSide = kHeldSide == Side::kLeft ? Side::kRight : Side::kLeft;

  Product(const GemmShape& shape, const Source& left, const Source& right, const Target<float>& c)
      : held_(kHeldSide == Side::kLeft ? left : right),
        flowing_(kHeldSide == Side::kLeft ? right : left),
        held_vectors_(kHeldSide == Side::kLeft ? shape.m : shape.n),
        flowing_vectors_(kHeldSide == Side::kLeft ? shape.n : shape.m),
        depth_(shape.k),
        c_(c) {}

  // One of `threads` that call it together.
  void run(std::byte* packed) const {
    const Tiles tiles;
    alignas(64) std::byte strip[kStripBytes];
    const std::int64_t deepest = std::min(kDepth, steps_of(depth_) * kStep);
    const std::int64_t widest = kHeldElements / deepest / kStrip * kStrip;
    for (std::int64_t vector = 0; vector < held_vectors_; vector += widest) {
      for (std::int64_t term = 0; term < depth_; term += kDepth) {
        const Block block{
            {vector, term},
            {std::min(widest, held_vectors_ - vector), std::min(kDepth, depth_ - term)},
            packed};
        const std::int64_t pieces = (held_.adjacent_terms ? block.extent.vectors + kStrip - 1
                                                          : block.extent.terms + kStep - 1) /
                                    kStrip;
#pragma omp for
        for (std::int64_t i = 0; i < pieces; ++i) {
          pack_piece<kHeldSide>(held_, block.place, block.extent, i, packed);
        }
#pragma omp for
        for (std::int64_t at = 0; at < flowing_vectors_; at += kStrip) {
          flow(block, at, strip);
        }
      }
    }
  }

 private:
  struct Block {
    Place place;
    Extent extent;
    const std::byte* packed;
  };

  // The strip at `at` flows past the block.
  void flow(const Block& block, std::int64_t at, std::byte* strip) const {
    const Extent extent{std::min(kStrip, flowing_vectors_ - at), block.extent.terms};
    pack_strip<kFlowingSide>(flowing_, {at, block.place.term}, extent, strip);
    const std::int64_t steps = steps_of(extent.terms);
    const std::int64_t next = std::min(at + kStrip, flowing_vectors_ - 1);
    for (std::int64_t vector = 0; vector < block.extent.vectors; vector += kStrip) {
      const std::byte* held = block.packed + vector / kStrip * steps * kStepBytes;
      const std::int64_t held_at = block.place.vector + vector;
      const Extent c_extent = kHeldSide == Side::kLeft
                                  ? Extent{block.extent.vectors - vector, extent.vectors}
                                  : Extent{extent.vectors, block.extent.vectors - vector};
      Target<float> c = c_;
      c.data += kHeldSide == Side::kLeft ? held_at * c.stride + at : at * c.stride + held_at;
      if (block.place.term > 0) c.beta = Beta::kOne;
      const std::byte* left = kHeldSide == Side::kLeft ? held : strip;
      const std::byte* right = kHeldSide == Side::kLeft ? strip : held;
      multiply_into({left, right, steps}, c_extent, c,
                    ahead_of({next, block.place.term}, vector / kStrip * steps, c));
    }
  }

  // Every step of a product asks for two pairs of lines: rows of 32 vectors, or, where terms are
  // adjacent, 64 terms of a vector.
  Ahead ahead_of(Place next, std::int64_t steps_before, const Target<float>& c) const {
    const std::int64_t pairs = 2 * steps_before;
    const bool adjacent = flowing_.adjacent_terms;
    const std::int64_t in_vector = std::min(kDepth, depth_ - next.term) / kStrip;
    const std::int64_t vector = adjacent ? pairs / std::max<std::int64_t>(1, in_vector) : 0;
    const std::int64_t term = adjacent ? 0 : pairs;
    const bool inside = adjacent ? vector < kStrip : term < in_vector * kStrip;
    return {.next = flowing_.at(next.vector, next.term) +
                    (inside ? (adjacent ? vector : term) * flowing_.stride : 0),
            .next_stride = adjacent ? kStrip : flowing_.stride,
            .c = c.data,
            .c_stride = c.stride};
  }

  struct Strips {
    const std::byte* left;
    const std::byte* right;
    std::int64_t steps;
  };

  static void multiply_into(const Strips& strips, Extent extent, const Target<float>& c,
                            const Ahead& ahead) {
    const Extent whole{std::min(extent.vectors, kStrip), std::min(extent.terms, kStrip)};
    if (c.beta == Beta::kZero && whole.vectors == kStrip && whole.terms == kStrip) {
      multiply_strips(strips.left, strips.right, strips.steps, {c.data, c.stride}, ahead);
      return;
    }
    alignas(64) float products[kStrip * kStrip];
    multiply_strips(strips.left, strips.right, strips.steps, {products, kStrip}, ahead);
    write_corner(products, whole, c);
  }

  Source held_;
  Source flowing_;
  std::int64_t held_vectors_;
  std::int64_t flowing_vectors_;
  std::int64_t depth_;
  Target<float> c_;
};

template <Side kHeldSide>
void run_product(const GemmShape& shape, const Source& left, const Source& right,
                 const Target<float>& c) {
  const Product<kHeldSide> product(shape, left, right, c);
  const std::int64_t strips = (std::max(shape.m, shape.n) + kStrip - 1) / kStrip;
  const auto threads = static_cast<int>(std::min<std::int64_t>(kernel_threads(), strips));
  alignas(64) std::byte packed[kHeldBytes];  // on the stack: a product allocates nothing
#pragma omp parallel num_threads(threads) if (threads > 1)
  product.run(packed);
}

}  // namespace
}  // namespace fm::kernels::amx

namespace fm::kernels {

void amx_gemm(const GemmShape& shape, const Operand<float>& a, const Operand<float>& b,
              const Target<float>& c) {
  const amx::Source left{a.data, a.stride, a.form == Form::kAsIs};
  const amx::Source right{b.data, b.stride, b.form == Form::kTransposed};
  (shape.m <= shape.n ? amx::run_product<amx::Side::kLeft>
                      : amx::run_product<amx::Side::kRight>)(shape, left, right, c);
}

}  // namespace fm::kernels
