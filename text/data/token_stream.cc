#include "text/data/token_stream.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/text.h"

namespace fm::data {
namespace {

class JoinedStreams : public TokenStream {
 public:
  explicit JoinedStreams(std::vector<StreamPtr> streams) : streams_(std::move(streams)) {
    for (const StreamPtr& stream : streams_) {
      first_ids_.push_back(first_ids_.back() + stream->size());
      first_documents_.push_back(first_documents_.back() + stream->documents());
      documents_known_ = documents_known_ && stream->documents() > 0;
    }
  }

  std::int64_t size() const override { return first_ids_.back(); }
  std::int64_t documents() const override { return documents_known_ ? first_documents_.back() : 0; }
  std::int64_t begin_of(std::int64_t index) const override {
    if (index == documents()) return size();
    const std::size_t at = place(first_documents_, index);
    return first_ids_[at] + streams_[at]->begin_of(index - first_documents_[at]);
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    each_part(first, ids, [](const TokenStream& stream, std::int64_t from, auto part) {
      stream.read(from, part);
    });
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    each_part(first, labels, [](const TokenStream& stream, std::int64_t from, auto part) {
      stream.read_labels(from, part);
    });
  }
  bool ignores_some() const override {
    return std::ranges::any_of(streams_, [](const auto& each) { return each->ignores_some(); });
  }
  std::int32_t filler() const override { return streams_.front()->filler(); }

  std::string describe() const override {
    const std::string ids = core::human_count(static_cast<double>(size()));
    const std::string documents =
        documents_known_ ? core::counted(this->documents(), "document") + ", " : std::string();
    return core::concat(core::counted(streams_.size(), "file"), ", ", documents, ids,
                        " tokens (the first: ", streams_.front()->describe(), ")");
  }
  std::string fingerprint() const override {
    std::uint32_t crc = 0;
    for (const StreamPtr& stream : streams_) crc = core::crc32c(stream->fingerprint() + '\n', crc);
    return core::concat("joined files=", streams_.size(), " ids=", size(), " crc32c=", crc);
  }

 private:
  // Which stream holds `index`; empty ones hold nothing.
  static std::size_t place(const std::vector<std::int64_t>& firsts, std::int64_t index) {
    const auto behind = std::upper_bound(firsts.begin(), firsts.end(), index);
    return static_cast<std::size_t>(behind - firsts.begin()) - 1;
  }

  template <class Read>
  void each_part(std::int64_t first, std::span<std::int32_t> out, const Read& read) const {
    FM_CHECK(first >= 0 && first + std::ssize(out) <= size(), "ids ", first, " + ", out.size(),
             " of ", size());
    for (std::size_t at = place(first_ids_, first); !out.empty(); ++at) {
      const std::int64_t left = first_ids_[at + 1] - first;
      const auto part = out.first(static_cast<std::size_t>(std::min(left, std::ssize(out))));
      if (!part.empty()) read(*streams_[at], first - first_ids_[at], part);
      first += std::ssize(part);
      out = out.subspan(part.size());
    }
  }

  std::vector<StreamPtr> streams_;
  std::vector<std::int64_t> first_ids_ = {0};  // of every stream, then the end
  std::vector<std::int64_t> first_documents_ = {0};
  bool documents_known_ = true;
};

class StreamSlice : public TokenStream {
 public:
  StreamSlice(StreamPtr whole, double begin, double end) : whole_(std::move(whole)) {
    const bool known = whole_->documents() > 0;
    const std::int64_t all = known ? whole_->documents() : whole_->size();
    first_ = border(begin, all);
    last_ = border(end, all);
    first_id_ = known ? whole_->begin_of(first_) : first_;
    size_ = (known ? whole_->begin_of(last_) : last_) - first_id_;
    documents_ = known ? last_ - first_ : 0;
    FM_DATA_CHECK(last_ > first_, whole_->describe(),
                  ": every part of a split must hold something; give more data or another "
                  "--split (",
                  known ? "documents " : "ids ", first_, " to ", last_, " of ", all, ")");
  }

  std::int64_t size() const override { return size_; }
  std::int64_t documents() const override { return documents_; }
  std::int64_t begin_of(std::int64_t index) const override {
    return whole_->begin_of(first_ + index) - first_id_;
  }
  std::int64_t number_of(std::int64_t index) const override {
    return whole_->number_of(first_ + index);
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    whole_->read(first_id_ + first, ids);
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    whole_->read_labels(first_id_ + first, labels);
  }
  bool ignores_some() const override { return whole_->ignores_some(); }
  std::int32_t filler() const override { return whole_->filler(); }
  std::string describe() const override {
    return core::concat(whole_->describe(), ", of which ", documents_ > 0 ? "documents " : "ids ",
                        first_, " to ", last_ - 1);
  }
  std::string fingerprint() const override {
    return core::concat(whole_->fingerprint(), " part=", first_, "-", last_);
  }

 private:
  static std::int64_t border(double share, std::int64_t all) {
    return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(all)), 0, all);
  }

  StreamPtr whole_;
  std::int64_t first_ = 0;  // documents, or ids
  std::int64_t last_ = 0;
  std::int64_t first_id_ = 0;
  std::int64_t size_ = 0;
  std::int64_t documents_ = 0;
};

}  // namespace

StreamPtr join_streams(std::vector<StreamPtr> streams) {
  FM_CHECK(!streams.empty(), "no stream to join");
  if (streams.size() == 1) return streams.front();
  return std::make_shared<JoinedStreams>(std::move(streams));
}

StreamPtr slice_stream(StreamPtr stream, double begin, double end) {
  if (begin == 0.0 && end == 1.0) return stream;
  return std::make_shared<StreamSlice>(std::move(stream), begin, end);
}

}  // namespace fm::data
