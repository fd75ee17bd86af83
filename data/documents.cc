#include "data/documents.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/files.h"
#include "core/text.h"
#include "data/permutation.h"

namespace fm::data {

std::vector<std::int32_t> encode_bytes(std::string_view text) {
  std::vector<std::int32_t> ids(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) ids[i] = static_cast<std::uint8_t>(text[i]);
  return ids;
}

std::string decode_bytes(std::span<const std::int32_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < core::kByteCount) text.push_back(static_cast<char>(id));
  }
  return text;
}

namespace {

constexpr std::int64_t kChunk = 1 << 20;  // ids: at most 2 MiB (or 4) stay unused at the end

}  // namespace

TokenStore::TokenStore(core::Ledger& ledger, std::int64_t vocab)
    : ledger_(&ledger), narrow_(vocab <= 1 << 16) {}

void TokenStore::append(std::span<const std::int32_t> ids) {
  while (!ids.empty()) {
    const std::int64_t place = size_ % kChunk;
    if (place == 0) {
      chunks_.emplace_back(*ledger_, core::Account::kData, core::Bytes(kChunk * (narrow_ ? 2 : 4)));
    }
    const auto count = std::min(ids.size(), static_cast<std::size_t>(kChunk - place));
    void* chunk = chunks_.back().data();
    if (narrow_) {
      std::transform(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count),
                     static_cast<std::uint16_t*>(chunk) + place,
                     [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    } else {
      std::copy_n(ids.begin(), count, static_cast<std::int32_t*>(chunk) + place);
    }
    size_ += static_cast<std::int64_t>(count);
    ids = ids.subspan(count);
  }
}

void TokenStore::read(std::int64_t first, std::span<std::int32_t> ids) const {
  FM_CHECK(first >= 0 && first + static_cast<std::int64_t>(ids.size()) <= size_, "ids ", first,
           " + ", ids.size(), " of a stream of ", size_);
  while (!ids.empty()) {
    const std::int64_t place = first % kChunk;
    const void* chunk = chunks_[static_cast<std::size_t>(first / kChunk)].data();
    const auto count = std::min(ids.size(), static_cast<std::size_t>(kChunk - place));
    if (narrow_) {
      std::copy_n(static_cast<const std::uint16_t*>(chunk) + place, count, ids.begin());
    } else {
      std::copy_n(static_cast<const std::int32_t*>(chunk) + place, count, ids.begin());
    }
    first += static_cast<std::int64_t>(count);
    ids = ids.subspan(count);
  }
}

namespace {

struct Extent {  // of one document in the stream, its EOS included
  std::int64_t first;
  std::int64_t count;
};

class DocumentRows : public SampleSource {
 public:
  explicit DocumentRows(const SourceOptions& options)
      : options_(options),
        ledger_(options.ledger == nullptr ? own_ledger_ : *options.ledger),
        stream_(ledger_, core::kByteVocab) {
    core::FileStream file(options_.path);
    std::uint32_t crc = 0;
    const auto next_piece = [&] {
      const std::string_view piece = file.next();
      crc = core::crc32c(std::as_bytes(std::span(piece)), crc);
      return piece;
    };
    read_jsonl(next_piece, options_.path, options_.text_field,
               [&](std::string_view text) { add(text); });
    fingerprint_ =
        core::concat("jsonl bytes=", file.size(), " crc32c=", crc, " field=", options_.text_field,
                     " tokenizer=bytes packing=", packed() ? "concat" : "one_document",
                     " seq_len=", options_.seq_len, " seed=", options_.seed);
    count_rows();
    keep_extents();
  }

  std::int64_t samples_per_epoch() const override { return rows_; }

  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    const Permutation order(rows_, options_.seed, position / rows_);
    const std::int64_t row = order(position % rows_);
    const Extent ids = packed() ? Extent{row * row_ids(), row_ids()} : document(row);
    const std::int64_t length = std::min(ids.count, row_ids());
    fill(tokens_T, ids.first, length, core::kPadId);
    fill(labels_T, ids.first + 1, length - 1, kIgnored);
  }

  std::string describe() const override {
    const std::string corpus =
        core::concat(options_.path, ": ", documents_, " documents, ",
                     core::human_count(static_cast<double>(stream_.size())), " byte tokens; ",
                     rows_, " rows of ", row_ids(), " ids");
    const std::string order = core::concat(", order shuffled per epoch (seed ", options_.seed, ")");
    if (packed()) {
      return core::concat(corpus, " (joined with EOS, cut; last ", stream_.size() % row_ids(),
                          " ids dropped)", order);
    }
    return core::concat(corpus, " (one document each, cut or padded; ", empty_,
                        " empty ones left out)", order);
  }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  bool packed() const { return options_.packing == Packing::kConcat; }
  std::int64_t row_ids() const { return options_.seq_len + 1; }
  const Extent& document(std::int64_t row) const {
    return static_cast<const Extent*>(extents_.data())[row];
  }

  void add(std::string_view text) {
    std::vector<std::int32_t> ids = encode_bytes(text);
    ids.push_back(core::kEosId);
    ++documents_;
    if (text.empty()) ++empty_;
    if (!packed() && !text.empty()) {
      found_.push_back({stream_.size(), static_cast<std::int64_t>(ids.size())});
    }
    stream_.append(ids);
  }

  void count_rows() {
    FM_DATA_CHECK(empty_ < documents_, options_.path,
                  ": at least one document with text is required; look at the file, or name its ",
                  "field with --text_field (", documents_, " documents, all empty, field \"",
                  options_.text_field, "\")");
    rows_ = packed() ? stream_.size() / row_ids() : static_cast<std::int64_t>(found_.size());
    FM_DATA_CHECK(rows_ > 0, options_.path,
                  ": at least one row of max_seq_len + 1 ids is required; ",
                  "give more text or a smaller max_seq_len (", documents_, " documents, ", empty_,
                  " of them empty, ", stream_.size(),
                  " ids with one EOS after each document, max_seq_len + 1 = ", row_ids(), ")");
  }

  // The index moves from the growing list to memory the ledger knows of.
  void keep_extents() {
    if (found_.empty()) return;
    const std::size_t bytes = found_.size() * sizeof(Extent);
    extents_ =
        core::Buffer(ledger_, core::Account::kData, core::Bytes(static_cast<std::int64_t>(bytes)));
    std::copy(found_.begin(), found_.end(), static_cast<Extent*>(extents_.data()));
    found_ = {};
  }

  // ids [first, first + count) of the stream, then `filler`.
  void fill(std::span<std::int32_t> out_T, std::int64_t first, std::int64_t count,
            std::int32_t filler) const {
    const auto real = std::min(out_T.size(), static_cast<std::size_t>(count));
    stream_.read(first, out_T.first(real));
    std::fill(out_T.begin() + static_cast<std::ptrdiff_t>(real), out_T.end(), filler);
  }

  core::Ledger own_ledger_;  // used when the caller gave none
  SourceOptions options_;
  core::Ledger& ledger_;
  TokenStore stream_;
  std::vector<Extent> found_;  // documents that are not empty (kOneDocument), while reading
  core::Buffer extents_;       // the same afterwards
  std::int64_t documents_ = 0;
  std::int64_t empty_ = 0;
  std::int64_t rows_ = 0;
  std::string fingerprint_;
};

}  // namespace

std::unique_ptr<SampleSource> open_documents(const SourceOptions& options) {
  FM_DATA_CHECK(options.vocab >= core::kByteVocab, options.path,
                ": JSONL is read with the byte tokenizer, whose ids reach ", core::kByteVocab - 1,
                "; use a model with a larger vocab_size or --data_format tokens_i32 (vocab_size=",
                options.vocab, ")");
  return std::make_unique<DocumentRows>(options);
}

}  // namespace fm::data
