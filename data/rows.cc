#include "data/rows.h"

#include <algorithm>

#include "core/check.h"
#include "data/packing.h"
#include "data/permutation.h"

namespace fm::data {
namespace {

class Rows : public SampleSource {
 public:
  Rows(StreamPtr stream, const SourceOptions& options, const std::string& notes)
      : stream_(std::move(stream)),
        options_(options),
        notes_(notes),
        ledger_(options.ledger == nullptr ? own_ledger_ : *options.ledger),
        has_documents_(stream_->documents() > 0) {
    FM_USER_CHECK(has_documents_ || options.packing == Packing::kConcat, stream_->describe(),
                  ": --packing needs documents, and nothing tells where they begin in flat files; "
                  "leave it out");
    FM_USER_CHECK(has_documents_ || !options.needs_documents, stream_->describe(),
                  ": --document_attention needs documents, and nothing tells where they begin in "
                  "flat files; leave it out, or give JSONL, Megatron's or MDS files");
    plan_ = make_row_plan(*stream_, options.packing, row_ids(), ledger_);
    FM_DATA_CHECK(plan_->rows() > 0, stream_->describe(),
                  ": at least one row of max_seq_len + 1 ids is required; give more data or a ",
                  "smaller max_seq_len (", stream_->size(), " ids, max_seq_len + 1 = ", row_ids(),
                  ")");
  }

  std::int64_t samples_per_epoch() const override { return plan_->rows(); }

  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    std::ranges::fill(labels_T, kIgnored);
    std::int64_t at = 0;  // of the segment in the row
    for (const Segment& segment : segments_of(position)) {
      const std::int64_t seen = std::min(segment.count, std::ssize(tokens_T) - at);
      stream_->read(segment.first, part(tokens_T, at, seen));
      stream_->read_labels(segment.first + 1, part(labels_T, at, segment.count - 1));
      at += segment.count;
    }
    const std::int64_t filled = std::min(at, std::ssize(tokens_T));
    std::ranges::fill(tokens_T.subspan(static_cast<std::size_t>(filled)), stream_->filler());
  }

  std::vector<std::int32_t> document_starts(std::int64_t position) const override {
    std::vector<std::int32_t> starts;
    std::int64_t at = 0;
    for (const Segment& segment : segments_of(position)) {
      starts.push_back(static_cast<std::int32_t>(at));
      add_inner_starts(segment, at, starts);
      at += segment.count;
    }
    while (starts.back() >= options_.seq_len) starts.pop_back();  // the last id is a label only
    return starts;
  }

  std::string describe() const override {
    const std::string order =
        shuffled() ? core::concat("order shuffled per epoch (seed ", options_.seed, ")")
                   : "in file order, not shuffled (see --shuffle_windows)";
    return core::concat(stream_->describe(), "; ", plan_->rows(), " rows of ", row_ids(), " ids (",
                        plan_->describe(), "), ", order, notes_);
  }

  // In the words of older builds, whose runs may go on.
  std::string fingerprint() const override {
    if (!has_documents_) {
      const std::string order =
          shuffled() ? core::concat("shuffled seed=", options_.seed) : std::string("file");
      return core::concat(stream_->fingerprint(), " seq_len=", options_.seq_len, " order=", order);
    }
    return core::concat(stream_->fingerprint(), " packing=", name_of(options_.packing),
                        " seq_len=", options_.seq_len, " seed=", options_.seed);
  }

 private:
  static std::span<std::int32_t> part(std::span<std::int32_t> row, std::int64_t at,
                                      std::int64_t count) {
    return row.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
  }
  static std::string_view name_of(Packing packing) {
    switch (packing) {
      case Packing::kConcat: return "concat";
      case Packing::kOneDocument: return "one_document";
      case Packing::kBestFit: return "best_fit";
    }
    return "?";
  }

  std::int64_t row_ids() const { return options_.seq_len + 1; }
  bool shuffled() const { return has_documents_ || options_.shuffle_windows; }

  std::vector<Segment> segments_of(std::int64_t position) const {
    const std::int64_t rows = plan_->rows();
    const std::int64_t row =
        shuffled() ? Permutation(rows, options_.seed, position / rows)(position % rows)
                   : position % rows;
    std::vector<Segment> segments;
    plan_->find(row, segments);
    return segments;
  }

  // Documents that begin within a segment, which is at `at` in the row.
  void add_inner_starts(const Segment& segment, std::int64_t at,
                        std::vector<std::int32_t>& starts) const {
    std::int64_t low = 0;  // the first document that begins behind the segment's first id
    std::int64_t high = stream_->documents();
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (stream_->begin_of(middle) > segment.first) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    for (; low < stream_->documents(); ++low) {
      const std::int64_t inside = stream_->begin_of(low) - segment.first;
      if (inside >= segment.count) return;
      if (at + inside > starts.back()) starts.push_back(static_cast<std::int32_t>(at + inside));
    }
  }

  StreamPtr stream_;
  SourceOptions options_;
  std::string notes_;
  core::Ledger own_ledger_;  // used when the caller gave none
  core::Ledger& ledger_;
  bool has_documents_;
  std::unique_ptr<RowPlan> plan_;
};

}  // namespace

std::unique_ptr<SampleSource> make_rows(StreamPtr stream, const SourceOptions& options,
                                        const std::string& notes) {
  return std::make_unique<Rows>(std::move(stream), options, notes);
}

}  // namespace fm::data
