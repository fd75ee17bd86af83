// The strips of an AMX product that flow past a held block (kernels/gemm/amx.cc). One of fp32 is
// packed in portions of some 25 to 50 instructions while the tiles multiply the one before: longer
// portions would leave the tiles idle. Gains a fifth: 280 to 340 GFLOP/s of a core were 240 to 280.
#pragma once

#include "kernels/gemm/amx_strips.h"

namespace fm::kernels::amx {

// A whole tile (16 vectors, 32 terms), portion by portion, with the bits of pack_tile(). A portion
// is a row; where tiles are transposed, four rows come together in a portion before theirs.
template <Side kWanted, bool kAdjacentTerms>
class TilePortions {
 public:
  static constexpr bool kTransposed = kAdjacentTerms != (kWanted == Side::kLeft);
  static constexpr int kCount = kTransposed ? kSide + kSide / 4 : kSide;

  // Portions 0 to kCount - 1, in order.
  void pack(int portion, const float* from, std::int64_t stride, std::byte* to) {
    const std::int64_t second = kAdjacentTerms ? kSide : kSide * stride;
    if constexpr (kTransposed) {
      const int four = portion / 5;
      const int row = portion % 5 - 1;
      if (row < 0) {
        const std::int64_t row_bytes = stride * static_cast<std::int64_t>(sizeof(float));
        first_ = four_columns(from + 4 * four, row_bytes);
        second_ = four_columns(from + 4 * four + second, row_bytes);
        return;
      }
      store_parts(_mm512_castsi512_ps(first_.row[row]), _mm512_castsi512_ps(second_.row[row]),
                  to + (4 * four + row) * kRowBytes);
    } else {
      const float* row = from + portion * stride;
      store_parts(_mm512_loadu_ps(row), _mm512_loadu_ps(row + second), to + portion * kRowBytes);
    }
  }

 private:
  FourRows first_;   // terms 0 to 15 of the step
  FourRows second_;  // terms 16 to 31
};

// Packs a strip a few portions at a time.
//
// Invariant: after finish() the strip is packed as by pack_strip().
// Thread:    one.
template <Side kWanted>
class StripPacker {
 public:
  // A strip that is not whole is packed at once.
  void start(const Source<float>& source, OperandOffset place, Extent extent, std::byte* to) {
    if (extent.vectors < kStrip || extent.terms % kStep != 0) {
      pack_strip<kWanted>(source, place, extent, to);
      return;
    }
    source_ = source;
    place_ = place;
    to_ = to;
    tiles_ = 2 * extent.terms / kStep;
    tile_ = 0;
  }
  // Portions that are left.
  std::int64_t left() const {
    const int of_tile = source_.adjacent_terms ? adjacent_terms_.kCount : adjacent_vectors_.kCount;
    return (tiles_ - tile_) * of_tile - portion_;
  }
  void go_on(std::int64_t portions) {
    for (; portions > 0 && tile_ < tiles_; --portions) {
      if (source_.adjacent_terms) {
        pack_portion(adjacent_terms_);
      } else {
        pack_portion(adjacent_vectors_);
      }
    }
  }
  void finish() { go_on(left()); }

 private:
  template <class Portions>
  void pack_portion(Portions& portions) {
    const std::int64_t step = tile_ / 2;
    const std::int64_t second = tile_ % 2;
    const float* from = source_.at(place_.vector + second * kSide, place_.term + step * kStep);
    portions.pack(portion_, from, source_.stride, to_ + step * kStepBytes + second * kTileBytes);
    if (++portion_ < portions.kCount) return;
    portion_ = 0;
    ++tile_;
  }

  Source<float> source_{};
  OperandOffset place_{};
  std::byte* to_ = nullptr;
  std::int64_t tiles_ = 0;  // of the strip
  std::int64_t tile_ = 0;   // packed
  int portion_ = 0;         // of the next tile: packed
  TilePortions<kWanted, true> adjacent_terms_;
  TilePortions<kWanted, false> adjacent_vectors_;
};

// The strip that flows now and the one that comes next, each packed in at most kBytes.
//
// Thread: one.
template <Side kWanted, class T, std::int64_t kBytes>
class FlowingStrips {
 public:
  static constexpr std::int64_t kReadAhead = 2;  // strips from the taken one to one not yet read

  // The strip after the one that was taken.
  void announce(const Source<T>& source, OperandOffset place, Extent extent) {
    packer_.start(source, place, extent, strips_[turn_]);
  }
  // What was announced, packed; valid until the next take().
  const std::byte* take() {
    packer_.finish();
    turn_ = 1 - turn_;
    return strips_[1 - turn_];
  }
  // Portions of work on what was announced, to be done until it is taken.
  std::int64_t left() const { return packer_.left(); }
  void go_on(std::int64_t portions) { packer_.go_on(portions); }

 private:
  StripPacker<kWanted> packer_;
  int turn_ = 0;
  alignas(64) std::byte strips_[2][kBytes];
};

// Of bf16 a strip is packed when it is taken: packed, one is as large as most of the L1 cache, and
// its one product a step waits for nothing but the cache.
template <Side kWanted, std::int64_t kBytes>
class FlowingStrips<kWanted, core::Bf16, kBytes> {
 public:
  static constexpr std::int64_t kReadAhead = 1;

  void announce(const Source<core::Bf16>& source, OperandOffset place, Extent extent) {
    source_ = source;
    place_ = place;
    extent_ = extent;
  }
  const std::byte* take() {
    pack_strip<kWanted>(source_, place_, extent_, strip_);
    return strip_;
  }
  std::int64_t left() const { return 0; }
  void go_on(std::int64_t) {}

 private:
  Source<core::Bf16> source_{};
  OperandOffset place_{};
  Extent extent_{};
  alignas(64) std::byte strip_[kBytes];
};

}  // namespace fm::kernels::amx
