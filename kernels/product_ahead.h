// What a product asks the caches for before it needs it (kernels/packed_product.cc).
#pragma once

#include <cstdint>

#include "kernels/gemm.h"
#include "kernels/gemm_source.h"
#include "kernels/vector.h"

namespace fm::kernels::FM_SIMD {

// Lines of a block of an operand, asked for one after the other. Many at once would keep
// the numbers that are needed now waiting.
template <class T>
class Ahead {
 public:
  void start(const Source<T>& source, Place place, Extent extent) {
    run_ = source.at(place.vector, place.term);
    stride_ = source.stride;
    run_lines_ = ((source.adjacent_terms ? extent.terms : extent.vectors) + kLine - 1) / kLine;
    lines_ = run_lines_ * (source.adjacent_terms ? extent.vectors : extent.terms);
    at_ = 0;
  }
  [[gnu::always_inline]] void ask() {
    if (lines_ == 0) return;
    --lines_;
    __builtin_prefetch(run_ + at_ * kLine, 0, 3);
    if (++at_ == run_lines_) {
      at_ = 0;
      run_ += stride_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64 / sizeof(T);
  const T* run_ = nullptr;
  std::int64_t stride_ = 0;
  std::int64_t run_lines_ = 1;
  std::int64_t lines_ = 0;
  std::int64_t at_ = 0;
};

// The next blocks of both operands.
template <class T>
struct NextBlocks {
  Ahead<T> a;
  Ahead<T> b;
};

// Lines of a tile of C, `count` vectors a row.
class TileAhead {
 public:
  TileAhead(const Target<float>& c, std::int64_t rows, std::int64_t count)
      : row_(c.data), stride_(c.stride), count_(count), left_(rows * count) {}
  [[gnu::always_inline]] void ask() {
    if (left_ == 0) return;
    --left_;
    __builtin_prefetch(row_ + at_ * kVectorFloats, 1);
    if (++at_ == count_) {
      at_ = 0;
      row_ += stride_;
    }
  }

 private:
  const float* row_;
  std::int64_t stride_;
  std::int64_t count_;
  std::int64_t left_;
  std::int64_t at_ = 0;
};

}  // namespace fm::kernels::FM_SIMD
