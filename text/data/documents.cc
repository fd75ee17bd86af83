#include "text/data/documents.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/buffer.h"
#include "core/check.h"
#include "core/text.h"
#include "text/data/data_paths.h"

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

// What sets one kind of JSONL apart from the other.
struct LineFormat {
  LineReader read_line;
  std::int64_t vocab = 0;  // of what is stored
  std::int32_t filler = 0;
  std::string_view tokens;  // "byte tokens"
  std::string_view name;    // of the fingerprint, before the file's
  std::string options;      // of the fingerprint, behind it
  std::string_view advice;  // when nothing is in the documents
};

class StoredDocuments : public TokenStream {
 public:
  StoredDocuments(const DataFile& file, core::Ledger* ledger, const LineFormat& kind, BadLines& bad)
      : path_(file.path),
        ledger_(ledger == nullptr ? own_ledger_ : *ledger),
        filler_(kind.filler),
        tokens_(kind.tokens),
        ignored_(static_cast<std::int32_t>(kind.vocab)),
        ids_(ledger_, kind.vocab) {
    FileRows rows(path_, file.rows);
    std::vector<std::int64_t> begins;
    std::int64_t longest = 0;
    read_jsonl([&] { return rows.next(); }, path_, kind.read_line, bad,
               [&](const Document& document) {
                 begins.push_back(ids_.size());
                 longest = std::max(longest, std::ssize(document.ids));
                 add(document);
               });
    FM_DATA_CHECK(longest > 1, path_, ": at least one document with text is required; ",
                  kind.advice, " (", core::counted(begins.size(), "document"), ", all empty)");
    keep(begins);
    fingerprint_ =
        core::concat(kind.name, " bytes=", rows.bytes(), " crc32c=", rows.crc(), kind.options);
    if (file.rows != RowLayout::kJsonLines) {
      fingerprint_ += core::concat(" rows=", name_of(file.rows));
    }
  }

  std::int64_t size() const override { return ids_.size(); }
  std::int64_t documents() const override { return documents_; }
  std::int64_t begin_of(std::int64_t index) const override {
    FM_CHECK(index >= 0 && index <= documents_, "document ", index, " of ", documents_);
    return index == documents_ ? size() : static_cast<const std::int64_t*>(begins_.data())[index];
  }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    ids_.read(first, ids);
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    (labels_ ? *labels_ : ids_).read(first, labels);
    if (labels_) std::ranges::replace(labels, ignored_, kIgnored);
  }
  bool ignores_some() const override { return labels_.has_value(); }
  std::int32_t filler() const override { return filler_; }
  std::string describe() const override {
    return core::concat(path_, ": ", core::counted(documents_, "document"), ", ",
                        core::human_count(static_cast<double>(size())), ' ', tokens_);
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  void add(const Document& document) {
    if (!document.labels.empty() && !labels_) begin_labels();
    ids_.append(document.ids);
    if (!labels_) return;
    std::vector<std::int32_t> labels = document.labels.empty() ? document.ids : document.labels;
    std::ranges::replace(labels, kIgnored, ignored_);
    labels_->append(labels);
  }

  // Every id counted so far.
  void begin_labels() {
    labels_.emplace(ledger_, std::int64_t{ignored_} + 1);
    std::vector<std::int32_t> part;
    for (std::int64_t first = 0; first < ids_.size(); first += std::ssize(part)) {
      part.resize(static_cast<std::size_t>(std::min(kChunk, ids_.size() - first)));
      ids_.read(first, part);
      labels_->append(part);
    }
  }

  // The index moves from the growing list to memory the ledger knows of.
  void keep(const std::vector<std::int64_t>& begins) {
    documents_ = std::ssize(begins);
    begins_ = core::Buffer(ledger_, core::Account::kData, core::Bytes(8 * documents_));
    std::copy(begins.begin(), begins.end(), static_cast<std::int64_t*>(begins_.data()));
  }

  std::string path_;
  core::Ledger own_ledger_;  // used when the caller gave none
  core::Ledger& ledger_;
  std::int32_t filler_;
  std::string_view tokens_;
  std::int32_t ignored_;  // stands for kIgnored in the store: the first number that is no id
  TokenStore ids_;
  std::optional<TokenStore> labels_;  // unset while every id counts
  core::Buffer begins_;               // [documents] int64
  std::int64_t documents_ = 0;
  std::string fingerprint_;
};

}  // namespace

namespace {

// Of the fingerprint.
std::string words_of(const Columns& columns) {
  return columns.empty() ? "" : " columns=" + columns.words();
}

}  // namespace

StreamPtr open_text(const DataFile& file, const SourceOptions& options, BadLines& bad) {
  FM_DATA_CHECK(options.vocab >= core::kByteVocab, file.path,
                ": JSONL is read with the byte tokenizer, whose ids reach ", core::kByteVocab - 1,
                "; use a model with a larger vocab_size or --data_format tokens_i32 (vocab_size=",
                options.vocab, ")");
  const LineFormat kind{.read_line = text_reader(options.text_field, options.rows.columns),
                        .vocab = core::kByteVocab,
                        .filler = core::kPadId,
                        .tokens = "byte tokens",
                        .name = "jsonl",
                        .options = core::concat(" field=", options.text_field, " tokenizer=bytes",
                                                words_of(options.rows.columns)),
                        .advice = "look at the file, or name its field with --text_field"};
  return std::make_shared<StoredDocuments>(file, options.ledger, kind, bad);
}

StreamPtr open_ids(const DataFile& file, const SourceOptions& options, BadLines& bad) {
  const LineFormat kind{.read_line = ids_reader(options.vocab, options.rows.columns),
                        .vocab = options.vocab,
                        .tokens = "tokens (input_ids)",
                        .name = "jsonl_ids",
                        .options = words_of(options.rows.columns),
                        .advice = "look at its input_ids"};
  return std::make_shared<StoredDocuments>(file, options.ledger, kind, bad);
}

}  // namespace fm::data
