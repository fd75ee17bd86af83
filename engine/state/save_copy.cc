#include "engine/state/save_copy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/check.h"

namespace fm::engine {
namespace {

using checkpoint::FileSlice;
using core::Elements;

// Numbers [first, last) of a source, which go to `at` of the copy.
struct Part {
  core::TensorSource* source = nullptr;
  Elements first;
  Elements last;
  Elements at = {};
};

// What lies between slices of one source, such as padding, is copied with them.
class Parts {
 public:
  explicit Parts(const std::vector<FileSlice>& slices) {
    for (const FileSlice& at : slices) add(at.slice);
    for (Part& part : parts_) {
      part.at = total_;
      total_ += core::round_up(part.last - part.first, kLine);
    }
  }
  const std::vector<Part>& all() const { return parts_; }
  const Part& of(const core::TensorSource* source) const { return parts_[index_.at(source)]; }
  Elements total() const { return total_; }

 private:
  static constexpr Elements kLine{64 / sizeof(float)};

  void add(const core::TensorSlice& slice) {
    if (slice.count().count() == 0) return;
    const Elements end = slice.at + slice.source_stride() * (slice.rows - 1) + slice.columns;
    const auto [at, is_new] = index_.try_emplace(slice.source.get(), parts_.size());
    if (is_new) parts_.push_back({slice.source.get(), slice.at, end});
    Part& part = parts_[at->second];
    part.first = std::min(part.first, slice.at);
    part.last = std::max(part.last, end);
  }

  std::vector<Part> parts_;
  std::map<const core::TensorSource*, std::size_t> index_;
  Elements total_;
};

// Large enough for a copy that does not read what it writes over.
constexpr Elements kPiece(1 << 20);

void copy(const Part& part, float* to, int threads) {
  const std::int64_t pieces = core::ceil_div((part.last - part.first).count(), kPiece.count());
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && pieces > 1)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const Elements begin = part.first + kPiece * piece;
    const Elements count = std::min(kPiece, part.last - begin);
    part.source->read(begin, count, to + (begin - part.first).count());
  }
}

}  // namespace

SaveCopy::SaveCopy(core::Ledger& ledger, const std::vector<FileSlice>& slices)
    : room_(core::make_f32(ledger, core::Account::kSaves, Parts(slices).total(), pages_)) {}

void SaveCopy::take(std::vector<FileSlice>& slices, int threads) {
  const Parts parts(slices);
  FM_CHECK(core::bytes_of(parts.total(), core::DType::kF32) <= room_.bytes(),
           "the copy of a save must have room (", parts.total().count(), " numbers, ",
           room_.bytes().count(), " bytes)");
  std::map<const core::TensorSource*, std::shared_ptr<core::TensorSource>> copies;
  for (const Part& part : parts.all()) {
    float* const to = room_.f32() + part.at.count();
    if (part.source->reads_by_threads()) {
      copy(part, to, threads);
    } else {
      part.source->read(part.first, part.last - part.first, to);
    }
    copies[part.source] = core::in_memory(to);
  }
  for (FileSlice& at : slices) {
    if (at.slice.count().count() == 0) continue;
    at.slice.at -= parts.of(at.slice.source.get()).first;
    at.slice.source = copies.at(at.slice.source.get());
  }
}

}  // namespace fm::engine
