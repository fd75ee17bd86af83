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
struct CopiedRun {
  core::TensorSource* source = nullptr;
  Elements first;
  Elements last;
  Elements at = {};
};

bool is_copied(const core::TensorSlice& slice) {
  return slice.count().count() > 0 && !slice.source->stands_still();
}

// What lies between slices of one source, such as padding, is copied with them. What stands still
// by itself is not.
class CopiedRuns {
 public:
  explicit CopiedRuns(const std::vector<FileSlice>& slices) {
    for (const FileSlice& at : slices) add(at.slice);
    for (CopiedRun& run : runs_) {
      run.at = total_;
      total_ += core::round_up(run.last - run.first, kLine);
    }
  }
  const std::vector<CopiedRun>& all() const { return runs_; }
  const CopiedRun& of(const core::TensorSource* source) const { return runs_[index_.at(source)]; }
  Elements total() const { return total_; }

 private:
  static constexpr Elements kLine{64 / sizeof(float)};

  void add(const core::TensorSlice& slice) {
    if (!is_copied(slice)) return;
    const Elements end = slice.at + slice.source_stride() * (slice.rows - 1) + slice.columns;
    const auto [at, is_new] = index_.try_emplace(slice.source.get(), runs_.size());
    if (is_new) runs_.push_back({slice.source.get(), slice.at, end});
    CopiedRun& run = runs_[at->second];
    run.first = std::min(run.first, slice.at);
    run.last = std::max(run.last, end);
  }

  std::vector<CopiedRun> runs_;
  std::map<const core::TensorSource*, std::size_t> index_;
  Elements total_;
};

// Large enough for a copy that does not read what it writes over.
constexpr Elements kPiece(1 << 20);

void copy(const CopiedRun& run, float* to, int threads) {
  const std::int64_t pieces = core::ceil_div((run.last - run.first).count(), kPiece.count());
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && pieces > 1)
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const Elements begin = run.first + kPiece * piece;
    const Elements count = std::min(kPiece, run.last - begin);
    run.source->read(begin, count, to + (begin - run.first).count());
  }
}

}  // namespace

SaveCopy::SaveCopy(core::Ledger& ledger, const std::vector<FileSlice>& slices,
                   core::MemorySource* page_locked)
    : room_(core::make_f32(ledger, core::Account::kSaves, CopiedRuns(slices).total(),
                           page_locked == nullptr ? pages_ : *page_locked)) {}

void SaveCopy::take(std::vector<FileSlice>& slices, int threads) {
  const CopiedRuns runs(slices);
  FM_CHECK(core::bytes_of(runs.total(), core::DType::kF32) <= room_.bytes(),
           "the copy of a save must have room (", runs.total().count(), " numbers, ",
           room_.bytes().count(), " bytes)");
  std::map<const core::TensorSource*, std::shared_ptr<core::TensorSource>> copies;
  for (const CopiedRun& run : runs.all()) {
    float* const to = room_.f32() + run.at.count();
    if (run.source->reads_by_threads()) {
      copy(run, to, threads);
    } else {
      run.source->read(run.first, run.last - run.first, to);
    }
    copies[run.source] = core::in_memory(to);
  }
  for (FileSlice& at : slices) {
    if (!is_copied(at.slice)) continue;
    at.slice.at -= runs.of(at.slice.source.get()).first;
    at.slice.source = copies.at(at.slice.source.get());
  }
}

}  // namespace fm::engine
