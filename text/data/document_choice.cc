#include "text/data/document_choice.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/check.h"
#include "core/text.h"
#include "text/data/permutation.h"

namespace fm::data {
namespace {

// Documents that stand behind each other in the whole and in the part.
struct Range {
  std::int64_t document = 0;        // of the part
  std::int64_t whole_document = 0;  // of the whole
  std::int64_t id = 0;              // where it begins in the part
  std::int64_t whole_id = 0;
};

// Images of [first, last), rising.
std::vector<std::int64_t> images(const Permutation& order, std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> out;
  for (std::int64_t at = first; at < last; ++at) out.push_back(order(at));
  std::ranges::sort(out);
  return out;
}

class ChosenDocuments : public TokenStream {
 public:
  ChosenDocuments(StreamPtr whole, double begin, double end, std::uint64_t seed)
      : whole_(std::move(whole)), seed_(seed) {
    const std::int64_t all = whole_->documents();
    first_ = border(begin, all);
    last_ = border(end, all);
    FM_DATA_CHECK(last_ > first_, whole_->describe(),
                  ": every part of a split must hold something; give more data or another "
                  "--split (",
                  first_, " to ", last_, " of ", core::counted(all, "document"), ")");
    const Permutation order(all, seed, 0);
    const bool most = last_ - first_ > all / 2;  // then the others are fewer
    if (!most) {
      for (const std::int64_t document : images(order, first_, last_)) add(document, document + 1);
      return;
    }
    std::vector<std::int64_t> others = images(order, 0, first_);
    const std::vector<std::int64_t> behind = images(order, last_, all);
    others.insert(others.end(), behind.begin(), behind.end());
    std::ranges::sort(others);
    others.push_back(all);
    std::int64_t next = 0;
    for (const std::int64_t other : others) {
      if (other > next) add(next, other);
      next = other + 1;
    }
  }

  std::int64_t size() const override { return size_; }
  std::int64_t documents() const override { return documents_; }
  std::int64_t begin_of(std::int64_t index) const override {
    if (index == documents_) return size_;
    const Range& range = range_of(index, &Range::document);
    const std::int64_t whole = range.whole_document + index - range.document;
    return range.id + whole_->begin_of(whole) - range.whole_id;
  }
  std::int64_t number_of(std::int64_t index) const override {
    const Range& range = range_of(index, &Range::document);
    return whole_->number_of(range.whole_document + index - range.document);
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    each_range(first, ids, [&](std::int64_t from, auto part) { whole_->read(from, part); });
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    each_range(first, labels,
               [&](std::int64_t from, auto part) { whole_->read_labels(from, part); });
  }
  bool ignores_some() const override { return whole_->ignores_some(); }
  std::int32_t filler() const override { return whole_->filler(); }
  std::string describe() const override {
    return core::concat(whole_->describe(), ", of which ", documents_, " chosen by seed ", seed_);
  }
  std::string fingerprint() const override {
    return core::concat(whole_->fingerprint(), " chosen=", first_, "-", last_, " by seed=", seed_);
  }

 private:
  static std::int64_t border(double share, std::int64_t all) {
    return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(all)), 0, all);
  }

  void add(std::int64_t first, std::int64_t last) {
    const std::int64_t id = whole_->begin_of(first);
    const bool goes_on =
        !ranges_.empty() &&
        ranges_.back().whole_document + documents_ - ranges_.back().document == first;
    if (!goes_on) ranges_.push_back({documents_, first, size_, id});
    documents_ += last - first;
    size_ += whole_->begin_of(last) - id;
  }

  const Range& range_of(std::int64_t index, std::int64_t Range::*from) const {
    FM_CHECK(index >= 0 && !ranges_.empty(), "place ", index, " of a part");
    return *(std::ranges::upper_bound(ranges_, index, {}, from) - 1);
  }

  template <class Read>
  void each_range(std::int64_t first, std::span<std::int32_t> out, const Read& read) const {
    FM_CHECK(first >= 0 && first + std::ssize(out) <= size_, "ids ", first, " + ", out.size(),
             " of ", size_);
    while (!out.empty()) {
      const Range* const range = &range_of(first, &Range::id);
      const bool is_last = range == &ranges_.back();
      const std::int64_t left = (is_last ? size_ : range[1].id) - first;
      const auto part = out.first(static_cast<std::size_t>(std::min(left, std::ssize(out))));
      read(range->whole_id + first - range->id, part);
      first += std::ssize(part);
      out = out.subspan(part.size());
    }
  }

  StreamPtr whole_;
  std::uint64_t seed_;
  std::int64_t first_ = 0;  // of the shuffled order
  std::int64_t last_ = 0;
  std::vector<Range> ranges_;
  std::int64_t documents_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace

StreamPtr choose_documents(StreamPtr stream, double begin, double end, std::uint64_t seed) {
  if (begin == 0.0 && end == 1.0) return stream;
  if (stream->documents() == 0) return slice_stream(std::move(stream), begin, end);
  return std::make_shared<ChosenDocuments>(std::move(stream), begin, end, seed);
}

StreamPtr first_documents(StreamPtr stream, std::int64_t most, const char* flag) {
  if (most == 0) return stream;
  const std::int64_t all = stream->documents();
  FM_USER_CHECK(all > 0, flag, " counts documents, and in flat files of ids none are known; leave ",
                "it out, or give --split (", stream->describe(), ")");
  if (all <= most) return stream;
  const double share = static_cast<double>(most) / static_cast<double>(all);
  return slice_stream(std::move(stream), 0.0, share);
}

}  // namespace fm::data
