#include "text/data/formats/mds.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/buffer.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/files/mapped_file.h"
#include "core/text.h"
#include "text/data/formats/mds_index.h"
#include "text/data/id_array.h"
#include "text/data/row_fields.h"
#include "text/data/text_pieces.h"

namespace fm::data {
namespace {

constexpr unsigned kReads = 32;  // after which pages are let go, as in text/data/id_array.cc

// A file that only this process has, and that goes with it.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code none;  // then the file cannot be made
    path_ = (std::filesystem::temp_directory_path(none) / "fmengine-XXXXXX").string();
    fd_ = ::mkstemp(path_.data());
    check(fd_ >= 0);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
      check(done >= 0 || errno == EINTR);
      if (done > 0) bytes.remove_prefix(static_cast<std::size_t>(done));
    }
  }
  // Stays when the name is gone.
  core::MappedFile map() const { return core::MappedFile(path_); }

 private:
  void check(bool good) const {
    FM_MACHINE_CHECK(good, core::ExitCode::kStorageFailed,
                     "a temporary file is needed to unpack data into; make room, or name another "
                     "folder by TMPDIR (",
                     path_, ": ", std::strerror(errno), ")");
  }

  std::string path_;
  int fd_ = -1;
};

core::MappedFile open_shard(const MdsShard& shard) {
  if (!shard.packed) return core::MappedFile(shard.path);
  TextPieces pieces(shard.path);
  TemporaryFile file;
  while (true) {
    const std::string_view piece = pieces.next();
    FM_DATA_CHECK(
        pieces.bytes() <= shard.bytes && (!piece.empty() || pieces.bytes() == shard.bytes),
        shard.path, ": a shard must be as long as the index says; fetch it anew (", pieces.bytes(),
        " bytes or more unpacked, ", shard.bytes, " in the index)");
    if (piece.empty()) return file.map();
    file.write(piece);
  }
}

// One shard in memory. Its offsets are checked once, and then read where they lie.
class Shard {
 public:
  Shard(const MdsShard& shard, std::int64_t vocab)
      : path_(shard.path),
        samples_(shard.samples),
        vocab_(vocab),
        columns_(shard.columns),
        file_(open_shard(shard)) {
    const auto size = static_cast<std::int64_t>(file_.bytes().size());
    const std::int64_t head = 4 * (samples_ + 2);
    check(head <= size && number(0) == samples_, "its number of samples is not that of the index");
    check(number(1) >= head && number(samples_ + 1) == size, "its samples do not fill it");
    for (std::int64_t at = 0; at < samples_; ++at) {
      check(number(at + 1) <= number(at + 2),
            core::concat("sample ", at, " ends before it begins"));
    }
    file_.check_uncut();
  }

  std::int64_t samples() const { return samples_; }
  const core::MappedFile& file() const { return file_; }
  // Whether every id of a sample is there, and is its own label.
  bool is_plain() const { return columns_.others.empty(); }
  IdArray ids_of(std::int64_t sample) const { return numbers_of(sample, columns_.ids); }
  void check_ids(std::int64_t sample, const IdArray& ids) const {
    const std::int64_t bad = ids.find_outside(vocab_);
    FM_DATA_CHECK(bad == ids.size(), path_,
                  ": token ids must be in [0, vocab_size); check that "
                  "dataset and model belong together (id ",
                  bad < ids.size() ? ids.text_of(bad) : "", " at position ", bad, " of sample ",
                  sample, ", vocab_size=", vocab_, ", read as ", name_of(ids.type()), ")");
  }
  Document document_of(std::int64_t sample) const {
    Row row;
    take(sample, columns_.ids, row);
    for (const MdsNumbers& each : columns_.others) take(sample, each, row);
    Document document;
    const std::string problem = make_document(row, document);
    FM_DATA_CHECK(problem.empty(), path_, ": sample ", sample, ": ", problem);
    return document;
  }

 private:
  IdArray numbers_of(std::int64_t sample, const MdsNumbers& which) const {
    const auto begin = static_cast<std::size_t>(number(sample + 1));
    const auto end = static_cast<std::size_t>(number(sample + 2));
    std::string problem;
    check(begin <= end && end <= file_.bytes().size(), "it was written while it was read");
    const IdArray numbers =
        numbers_of_sample(file_.bytes().subspan(begin, end - begin), columns_, which, problem);
    file_.check_uncut();
    check(problem.empty(), core::concat("sample ", sample, ": ", problem));
    return numbers;
  }
  void take(std::int64_t sample, const MdsNumbers& which, Row& row) const {
    const RowField& field = kRowFields[which.field];
    const IdArray from = numbers_of(sample, which);
    std::vector<std::int32_t>& numbers = row[which.field].emplace();
    for (std::int64_t at = 0; at < from.size(); ++at) {
      FM_DATA_CHECK(may_hold(field.meaning, from.number(at), vocab_), path_, ": the column \"",
                    field.name, "\" must hold whole numbers in ", range_of(field.meaning),
                    "; write the dataset anew (", from.text_of(at), " at position ", at,
                    " of sample ", sample, ", vocab_size=", vocab_, ")");
      numbers.push_back(static_cast<std::int32_t>(from.number(at)));
    }
  }
  void check(bool good, const std::string& problem) const {
    FM_DATA_CHECK(good, path_, ": an MDS shard must be whole; fetch it anew (", problem, ")");
  }
  // u32 number `index` of the shard.
  std::int64_t number(std::int64_t index) const {
    std::uint32_t value = 0;
    std::memcpy(&value, file_.bytes().data() + 4 * index, sizeof(value));
    return value;
  }

  std::string path_;
  std::int64_t samples_;
  std::int64_t vocab_;
  MdsColumns columns_;
  core::MappedFile file_;
};

class MdsDataset : public TokenStream {
 public:
  MdsDataset(const std::string& folder, const SourceOptions& options, UnusedFields& unused)
      : folder_(folder), ledger_(options.ledger == nullptr ? own_ledger_ : *options.ledger) {
    std::vector<std::int64_t> begins = {0};
    std::uint32_t crc = 0;
    for (const MdsShard& each : read_mds_index(folder, options.token_type)) {
      const Shard& shard = shards_.emplace_back(each, options.vocab);
      for (const std::string& name : each.columns.unused) add_unused(name, each.samples, unused);
      for (std::int64_t sample = 0; sample < shard.samples(); ++sample) {
        begins.push_back(begins.back() + check_sample(shard, sample, crc));
      }
      shard.file().let_go(shard.file().bytes());
      first_samples_.push_back(std::ssize(begins) - 1);
    }
    FM_DATA_CHECK(begins.back() > 0, folder,
                  ": at least one sample with ids is required; look at "
                  "the dataset (",
                  std::ssize(begins) - 1, " samples)");
    begins_ = core::Buffer(ledger_, core::Account::kData, core::Bytes(8 * std::ssize(begins)));
    std::copy(begins.begin(), begins.end(), static_cast<std::int64_t*>(begins_.data()));
    fingerprint_ = core::concat("mds samples=", documents(), " ids=", size(), " crc32c=", crc);
  }

  std::int64_t size() const override { return begin_of(documents()); }
  std::int64_t documents() const override { return first_samples_.back(); }
  std::int64_t begin_of(std::int64_t index) const override {
    return static_cast<const std::int64_t*>(begins_.data())[index];
  }

  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    read(first, ids, [](Document& document) { return std::move(document.ids); });
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    read(first, labels, [](Document& document) {
      return std::move(document.labels.empty() ? document.ids : document.labels);
    });
  }
  bool ignores_some() const override { return !std::ranges::all_of(shards_, &Shard::is_plain); }

  std::string describe() const override {
    return core::concat(folder_, ": ", core::counted(documents(), "document"), ", ",
                        core::human_count(static_cast<double>(size())), ' ', name_of(type_),
                        " tokens (MDS, ", core::counted(shards_.size(), "shard"), ")");
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  // Its ids; `crc` goes on over what decides the rows.
  std::int64_t check_sample(const Shard& shard, std::int64_t sample, std::uint32_t& crc) {
    const IdArray ids = shard.ids_of(sample);
    shard.check_ids(sample, ids);
    crc = core::crc32c(ids.bytes(), crc);
    type_ = ids.type();
    if (shard.is_plain()) return ids.size();
    const Document document = shard.document_of(sample);
    for (const auto* const numbers : {&document.ids, &document.labels}) {
      crc = core::crc32c(std::as_bytes(std::span(*numbers)), crc);
    }
    return std::ssize(document.ids);
  }

  // `pick` takes numbers out of a document; of a plain shard all are the same.
  template <class Pick>
  void read(std::int64_t first, std::span<std::int32_t> out, const Pick& pick) const {
    const auto* const begins = static_cast<const std::int64_t*>(begins_.data());
    std::int64_t sample = std::upper_bound(begins, begins + documents() + 1, first) - begins - 1;
    for (; !out.empty(); ++sample) {
      const auto behind = std::ranges::upper_bound(first_samples_, sample);
      const std::ptrdiff_t at = behind - first_samples_.begin() - 1;
      const Shard& shard = shards_[static_cast<std::size_t>(at)];
      shard.file().check_unchanged();
      const std::int64_t of_shard = sample - first_samples_[static_cast<std::size_t>(at)];
      const std::int64_t from = first - begins[sample];
      const std::int64_t left = begins[sample + 1] - first;
      const auto part = out.first(static_cast<std::size_t>(std::min(left, std::ssize(out))));
      if (shard.is_plain()) {
        shard.ids_of(of_shard).part(from, std::ssize(part)).read(part);
      } else {
        Document document = shard.document_of(of_shard);
        const std::vector<std::int32_t> numbers = pick(document);
        FM_DATA_CHECK(from + std::ssize(part) <= std::ssize(numbers), folder_,
                      ": shards must stay as they are while a run reads them (sample ", sample,
                      " became shorter)");
        std::copy_n(numbers.begin() + from, part.size(), part.begin());
      }
      shard.file().check_uncut();
      first += std::ssize(part);
      out = out.subspan(part.size());
    }
    if (++reads_ % kReads != 0) return;
    for (const Shard& shard : shards_) shard.file().let_go(shard.file().bytes());
  }

  std::string folder_;
  core::Ledger own_ledger_;  // used when the caller gave none
  core::Ledger& ledger_;
  std::vector<Shard> shards_;
  std::vector<std::int64_t> first_samples_ = {0};  // of every shard, then the end
  core::Buffer begins_;                            // [samples + 1] int64: ids before each
  TokenType type_ = TokenType::kAuto;
  std::string fingerprint_;
  mutable std::atomic<unsigned> reads_ = 0;
};

}  // namespace

StreamPtr open_mds(const std::string& folder, const SourceOptions& options, UnusedFields& unused) {
  return std::make_shared<MdsDataset>(folder, options, unused);
}

}  // namespace fm::data
