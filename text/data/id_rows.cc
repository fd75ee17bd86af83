#include "text/data/id_rows.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/text.h"
#include "core/types.h"
#include "text/data/packing.h"
#include "text/data/permutation.h"

namespace fm::data {
namespace {

class IdRows : public SampleSource {
 public:
  IdRows(StreamPtr stream, const SourceOptions& options, const std::string& notes)
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
    return core::concat(stream_->describe(), "; ", core::counted(plan_->rows(), "row"), " of ",
                        row_ids(), " ids (", plan_->describe(), "), ", order, notes_);
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> out;
    if (stream_->ignores_some()) add_untrained(out);
    // Without masks, documents are joined and cut on purpose.
    const bool loses = options_.packing != Packing::kConcat || stream_->ignores_some();
    if (has_documents_ && loses) add_long_documents(out);
    if (!options_.ends.ids.empty()) add_endless(out);
    return out;
  }

  std::string name_of(std::int64_t position) const override {
    if (!has_documents_) return SampleSource::name_of(position);
    std::string out;
    const std::vector<Segment> segments = segments_of(position);
    for (const Segment& segment : segments) {
      const std::int64_t first = number_at(segment.first);
      const std::int64_t last = number_at(segment.first + segment.count - 1);
      out += core::concat(out.empty() ? "" : ", ", first, last > first ? "-" : "");
      if (last > first) out += std::to_string(last);
    }
    const bool one = out.find_first_of(",-") == std::string::npos;
    return (one ? "document " : "documents ") + out;
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

  // Whether a label counts of those that the segment's ids predict.
  bool trains(const Segment& segment) const {
    constexpr std::int64_t kPiece = 256;  // an answer is rarely far
    std::array<std::int32_t, kPiece> labels{};
    const std::int64_t end = segment.first + segment.count;
    for (std::int64_t at = segment.first + 1; at < end; at += kPiece) {
      const auto piece = part(labels, 0, std::min(kPiece, end - at));
      stream_->read_labels(at, piece);
      if (std::ranges::any_of(piece, [](std::int32_t label) { return label != kIgnored; })) {
        return true;
      }
    }
    return false;
  }

  // Of 100,000 rows evenly spaced where there are more: the other ranks wait meanwhile.
  void add_untrained(std::vector<std::string>& notes) const {
    constexpr std::int64_t kMost = 100'000;
    const std::int64_t every = core::ceil_div(plan_->rows(), kMost);
    const std::int64_t seen = core::ceil_div(plan_->rows(), std::max<std::int64_t>(every, 1));
    std::int64_t untrained = 0;
    std::int64_t cut = 0;
    std::vector<Segment> segments;
    for (std::int64_t row = 0; row < plan_->rows(); row += every) {
      plan_->find(row, segments);
      const auto trains_something = [&](const Segment& each) { return trains(each); };
      if (std::ranges::any_of(segments, trains_something)) continue;
      ++untrained;
      const auto is_cut = [&](const Segment& each) {
        const std::int64_t end = each.first + each.count;
        return stream_->begin_of(document_behind(end - 1)) != end;
      };
      cut += has_documents_ && std::ranges::any_of(segments, is_cut) ? 1 : 0;
    }
    if (untrained == 0) return;
    notes.push_back(core::concat(untrained, " of ", seen, " rows",
                                 every > 1 ? ", evenly spaced," : "",
                                 " train nothing: no label in them counts"));
    if (cut == 0) return;
    notes.back() += core::concat("; in ", cut, " of them a document goes on behind the row ",
                                 "(--max_seq_len ", options_.seq_len, ")");
  }

  static std::int64_t median(std::vector<std::int64_t>& lengths) {
    const auto middle = lengths.begin() + std::ssize(lengths) / 2;
    std::nth_element(lengths.begin(), middle, lengths.end());
    if (lengths.size() % 2 == 1) return *middle;
    return (*middle + *std::max_element(lengths.begin(), middle)) / 2;
  }

  // The median is that of a million documents evenly spaced where there are more.
  void add_long_documents(std::vector<std::string>& notes) const {
    constexpr std::int64_t kMost = 1'000'000;
    const std::int64_t documents = stream_->documents();
    const std::int64_t every = core::ceil_div(documents, kMost);
    std::int64_t longer = 0;
    std::vector<std::int64_t> lengths;
    for (std::int64_t at = 0; at < documents; ++at) {
      const std::int64_t length = stream_->begin_of(at + 1) - stream_->begin_of(at);
      longer += length > row_ids() ? 1 : 0;
      if (at % every == 0) lengths.push_back(length);
    }
    if (longer == 0) return;
    notes.push_back(core::concat(
        longer, " of ", documents, " documents are longer than a row (median ",
        core::grouped(std::to_string(median(lengths))), " tokens, --max_seq_len ", options_.seq_len,
        "): ",
        options_.packing == Packing::kConcat
            ? "answers are trained without what stands before them in other rows; raise "
              "--max_seq_len, or take --packing best_fit"
            : "what is behind the row is cut off; raise --max_seq_len"));
  }

  bool is_end(std::int32_t label) const {
    return std::ranges::find(options_.ends.ids, label) != options_.ends.ids.end();
  }

  // Whether an end is among the labels of ids [first, last); looks from the end.
  bool trains_end(std::int64_t first, std::int64_t last) const {
    constexpr std::int64_t kPiece = 256;
    std::array<std::int32_t, kPiece> labels{};
    for (std::int64_t end = last; end > first; end -= kPiece) {
      const std::int64_t at = std::max(first, end - kPiece);
      const auto piece = part(labels, 0, end - at);
      stream_->read_labels(at, piece);
      if (std::ranges::any_of(piece, [&](std::int32_t label) { return is_end(label); }))
        return true;
    }
    return false;
  }

  // Of documents (rows, where they are not known) evenly spaced; the first of them tells mostly.
  void add_endless(std::vector<std::string>& notes) const {
    constexpr std::int64_t kMost = 10'000;
    const std::int64_t all = has_documents_ ? stream_->documents() : plan_->rows();
    const std::int64_t every = core::ceil_div(all, kMost);
    for (std::int64_t at = 0; at < all; at += every) {
      const std::int64_t first = has_documents_ ? stream_->begin_of(at) : at * row_ids();
      const std::int64_t last = has_documents_ ? stream_->begin_of(at + 1) : first + row_ids();
      if (trains_end(first + 1, last)) return;
    }
    notes.push_back(core::concat(
        "the model will not learn where to stop: in none of ", core::ceil_div(all, every),
        has_documents_ ? " documents" : " rows", every > 1 ? ", evenly spaced," : "",
        " a token is trained at which generation ends (", options_.ends.words, "); ",
        stream_->ignores_some()
            ? "end answers with one (--chat_template FILE), or name the token that ends them by "
              "--eos_token, and by --add_tokens, too, where the tokenizer lacks it"
            : "end documents with one"));
  }

  // The first document that begins behind an id: from 1, the number of the one that holds it.
  std::int64_t document_behind(std::int64_t id) const {
    std::int64_t low = 0;
    std::int64_t high = stream_->documents();
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (stream_->begin_of(middle) > id) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Of the document that holds an id.
  std::int64_t number_at(std::int64_t id) const {
    return stream_->number_of(document_behind(id) - 1);
  }

  // Documents that begin within a segment, which is at `at` in the row.
  void add_inner_starts(const Segment& segment, std::int64_t at,
                        std::vector<std::int32_t>& starts) const {
    for (std::int64_t next = document_behind(segment.first); next < stream_->documents(); ++next) {
      const std::int64_t inside = stream_->begin_of(next) - segment.first;
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
  return std::make_unique<IdRows>(std::move(stream), options, notes);
}

}  // namespace fm::data
