#include "data/mds.h"

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
#include "core/mapped_file.h"
#include "core/text.h"
#include "data/id_array.h"
#include "data/mds_index.h"
#include "data/text_pieces.h"

namespace fm::data {
namespace {

constexpr unsigned kReads = 32;  // after which pages are let go, as in data/id_array.cc

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
  explicit Shard(const MdsShard& shard)
      : path_(shard.path),
        samples_(shard.samples),
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
  }

  std::int64_t samples() const { return samples_; }
  const core::MappedFile& file() const { return file_; }
  IdArray ids_of(std::int64_t sample) const {
    const auto begin = static_cast<std::size_t>(number(sample + 1));
    const auto end = static_cast<std::size_t>(number(sample + 2));
    std::string problem;
    const IdArray ids = ids_of_sample(file_.bytes().subspan(begin, end - begin), columns_, problem);
    check(problem.empty(), core::concat("sample ", sample, ": ", problem));
    return ids;
  }
  void check_ids(std::int64_t sample, const IdArray& ids, std::int64_t vocab) const {
    const std::int64_t bad = ids.find_outside(vocab);
    FM_DATA_CHECK(bad == ids.size(), path_,
                  ": token ids must be in [0, vocab_size); check that "
                  "dataset and model belong together (id ",
                  bad < ids.size() ? ids.text_of(bad) : "", " at position ", bad, " of sample ",
                  sample, ", vocab_size=", vocab, ", read as ", name_of(ids.type()), ")");
  }

 private:
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
  MdsColumns columns_;
  core::MappedFile file_;
};

class MdsDataset : public TokenStream {
 public:
  MdsDataset(const std::string& folder, const SourceOptions& options)
      : folder_(folder), ledger_(options.ledger == nullptr ? own_ledger_ : *options.ledger) {
    std::vector<std::int64_t> begins = {0};
    std::uint32_t crc = 0;
    for (const MdsShard& each : read_mds_index(folder, options.token_type)) {
      const Shard& shard = shards_.emplace_back(each);
      for (std::int64_t sample = 0; sample < shard.samples(); ++sample) {
        const IdArray ids = shard.ids_of(sample);
        shard.check_ids(sample, ids, options.vocab);
        crc = core::crc32c(ids.bytes(), crc);
        begins.push_back(begins.back() + ids.size());
        type_ = ids.type();
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
    const auto* const begins = static_cast<const std::int64_t*>(begins_.data());
    std::int64_t sample = std::upper_bound(begins, begins + documents() + 1, first) - begins - 1;
    for (; !ids.empty(); ++sample) {
      const auto behind = std::ranges::upper_bound(first_samples_, sample);
      const std::ptrdiff_t at = behind - first_samples_.begin() - 1;
      const Shard& shard = shards_[static_cast<std::size_t>(at)];
      shard.file().check_unchanged();
      const std::int64_t left = begins[sample + 1] - first;
      const auto part = ids.first(static_cast<std::size_t>(std::min(left, std::ssize(ids))));
      shard.ids_of(sample - first_samples_[static_cast<std::size_t>(at)])
          .part(first - begins[sample], std::ssize(part))
          .read(part);
      first += std::ssize(part);
      ids = ids.subspan(part.size());
    }
    if (++reads_ % kReads != 0) return;
    for (const Shard& shard : shards_) shard.file().let_go(shard.file().bytes());
  }

  std::string describe() const override {
    return core::concat(folder_, ": ", documents(), " documents, ",
                        core::human_count(static_cast<double>(size())), ' ', name_of(type_),
                        " tokens (MDS, ", shards_.size(), " shards)");
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
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

StreamPtr open_mds(const std::string& folder, const SourceOptions& options) {
  return std::make_shared<MdsDataset>(folder, options);
}

}  // namespace fm::data
