#include "text/data/formats/megatron.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/text.h"
#include "text/data/id_array.h"
#include "text/data/other_labels.h"

namespace fm::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kHead = 34;
// By their numbers in the file; there is no 0.
constexpr TokenType kTypes[] = {TokenType::kAuto, TokenType::kU8,  TokenType::kI8,
                                TokenType::kI16,  TokenType::kI32, TokenType::kI64,
                                TokenType::kF64,  TokenType::kF32, TokenType::kU16};

std::string prefix_of(const std::string& path) {
  const bool ending = path.ends_with(".bin") || path.ends_with(".idx");
  return ending ? path.substr(0, path.size() - 4) : path;
}

// PREFIX.idx. Its numbers are checked once, and then read where they lie.
class Index {
 public:
  explicit Index(const std::string& path) : path_(path), file_(path) {
    const std::string_view text = file_.text();
    check(text.size() >= kHead && text.starts_with(kMagic), "it is no index of a Megatron dataset");
    check(number<std::uint64_t>(9) == 1, "its version is not 1");
    const auto code = std::to_integer<std::size_t>(file_.bytes()[17]);
    check(code > 0 && code < std::size(kTypes), "its type is none of 1 to 8");
    type_ = kTypes[code];
    const auto room = static_cast<std::uint64_t>(text.size() - kHead);
    const auto sequences = number<std::uint64_t>(18);
    const auto borders = number<std::uint64_t>(26);
    check(sequences <= room / 12 && borders >= 2 && borders <= room / 8 &&
              (12 * sequences + 8 * borders == room || 13 * sequences + 8 * borders == room),
          "it has another size than its numbers of sequences and documents ask for");
    sequences_ = static_cast<std::int64_t>(sequences);
    documents_ = static_cast<std::int64_t>(borders) - 1;
    check_sequences();
    check_documents();
    file_.check_uncut();
    file_.let_go(file_.bytes());
  }

  TokenType type() const { return type_; }
  std::int64_t documents() const { return documents_; }
  std::int64_t size() const { return ids_; }
  std::int64_t begin_of(std::int64_t document) const {
    const auto sequence = number<std::int64_t>(first_sequence_at(document));
    if (sequence == sequences_) return ids_;
    check(sequence >= 0 && sequence < sequences_, "it was written while it was read");
    const std::int64_t begin = number<std::int64_t>(pointer_at(sequence)) / width();
    file_.check_uncut();
    return begin;
  }
  std::uint32_t crc() const { return core::crc32c(file_.bytes()); }

 private:
  void check(bool good, std::string_view problem) const {
    FM_DATA_CHECK(good, path_, ": a Megatron dataset needs its whole .idx file; write it anew (",
                  problem, ")");
  }
  template <class T>
  T number(std::size_t at) const {
    T value;
    std::memcpy(&value, file_.bytes().data() + at, sizeof(T));
    return value;
  }
  std::int64_t width() const { return static_cast<std::int64_t>(size_of(type_)); }
  // Where the arrays' entries lie.
  static std::size_t length_at(std::int64_t sequence) {
    return kHead + 4 * static_cast<std::size_t>(sequence);
  }
  std::size_t pointer_at(std::int64_t sequence) const {
    return length_at(sequences_) + 8 * static_cast<std::size_t>(sequence);
  }
  std::size_t first_sequence_at(std::int64_t document) const {
    return pointer_at(sequences_) + 8 * static_cast<std::size_t>(document);
  }

  void check_sequences() {
    const std::size_t modes = first_sequence_at(documents_ + 1);
    const bool has_modes = modes < file_.bytes().size();
    for (std::int64_t at = 0; at < sequences_; ++at) {
      const auto length = number<std::int32_t>(length_at(at));
      check(length >= 0, core::concat("sequence ", at, " has ", length, " ids"));
      check(number<std::int64_t>(pointer_at(at)) == ids_ * width(),
            core::concat("sequence ", at, " does not begin where the one before it ends"));
      const auto mode = has_modes ? number<std::int8_t>(modes + static_cast<std::size_t>(at)) : 0;
      check(mode == 0, core::concat("sequence ", at, " is no text: its mode is ", int{mode}));
      ids_ += length;
    }
  }
  void check_documents() const {
    std::int64_t last = 0;
    check(number<std::int64_t>(first_sequence_at(0)) == 0, "document 0 does not begin at 0");
    for (std::int64_t at = 1; at <= documents_; ++at) {
      const auto next = number<std::int64_t>(first_sequence_at(at));
      check(next >= last && next <= sequences_,
            core::concat("document ", at, " begins at sequence ", next, " of ", sequences_));
      last = next;
    }
    check(last == sequences_, "its documents end before its sequences do");
  }

  std::string path_;
  core::MappedFile file_;
  TokenType type_ = TokenType::kAuto;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  std::int64_t ids_ = 0;
};

class MegatronDataset : public TokenStream {
 public:
  MegatronDataset(const std::string& prefix, std::int64_t vocab)
      : index_(prefix + ".idx"), ids_(open_ids_of(prefix + ".bin")) {
    const std::uint32_t crc =
        ids_.check(vocab, index_.crc(), "check that dataset and model belong together");
    fingerprint_ = core::concat("megatron bytes=", ids_.file().bytes().size(), " crc32c=", crc);
    const std::string counted = prefix + ".counted";
    if (std::filesystem::exists(counted)) {
      counted_.emplace(open_counted(counted));
      fingerprint_ += core::concat(" counted=", counted_->check(2, 0, "write it anew"));
    }
    const std::string labels = prefix + ".labels";
    if (std::filesystem::exists(labels)) {
      labels_.emplace(labels, index_.size(), vocab);
      fingerprint_ += core::concat(" labels=", labels_->crc());
    }
  }

  std::int64_t size() const override { return index_.size(); }
  std::int64_t documents() const override { return index_.documents(); }
  std::int64_t begin_of(std::int64_t index) const override { return index_.begin_of(index); }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    ids_.read(first, ids);
  }
  void read_labels(std::int64_t first, std::span<std::int32_t> labels) const override {
    ids_.read(first, labels);
    if (labels_) labels_->put(first, labels);
    if (!counted_) return;
    std::vector<std::int32_t> counted(labels.size());
    counted_->read(first, counted);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (counted[i] == 0) labels[i] = kIgnored;
    }
  }
  bool ignores_some() const override { return counted_.has_value(); }
  std::string describe() const override {
    return core::concat(ids_.path(), ": ", core::counted(documents(), "document"), ", ",
                        core::human_count(static_cast<double>(size())), ' ', name_of(index_.type()),
                        " tokens (Megatron)", counted_ ? ", some of them not trained" : "");
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  MappedIds open_ids_of(const std::string& path) const {
    core::MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    const std::size_t asked = static_cast<std::size_t>(index_.size()) * size_of(index_.type());
    FM_DATA_CHECK(bytes.size() == asked, path,
                  ": a .bin of Megatron must be as long as its .idx says; give both files of one "
                  "dataset (",
                  bytes.size(), " bytes, ", index_.size(), " ", name_of(index_.type()), " = ",
                  asked, " bytes in the .idx)");
    return {std::move(file), path, bytes, index_.type()};
  }

  MappedIds open_counted(const std::string& path) const {
    core::MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    FM_DATA_CHECK(std::ssize(bytes) == index_.size(), path,
                  ": one byte for each id of the .bin is required; write both anew (",
                  index_.size(), " ids, ", bytes.size(), " bytes)");
    return {std::move(file), path, bytes, TokenType::kU8};
  }

  Index index_;
  MappedIds ids_;
  std::optional<MappedIds> counted_;
  std::optional<OtherLabels> labels_;
  std::string fingerprint_;
};

}  // namespace

bool is_megatron(const std::string& path) {
  std::ifstream index(prefix_of(path) + ".idx", std::ios::binary);
  std::string head(kMagic.size(), ' ');
  return index.read(head.data(), std::ssize(head)) && head == kMagic;
}

StreamPtr open_megatron(const std::string& path, const SourceOptions& options) {
  return std::make_shared<MegatronDataset>(prefix_of(path), options.vocab);
}

}  // namespace fm::data
