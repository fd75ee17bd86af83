#include "data/token_files.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace fm::data {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kLookedAt = 1 << 16;  // int32 ids at the start of the file
constexpr std::size_t kLeastPairs = 32;

// The whole numbers of a file; what is left at its end is none. A mapping is aligned for them.
template <class T>
std::span<const T> as(std::span<const std::byte> file) {
  return {reinterpret_cast<const T*>(file.data()), file.size() / sizeof(T)};
}

bool is_npy(std::span<const std::byte> file) {
  return file.size() >= kNpyMagic.size() &&
         std::memcmp(file.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
}

bool is_int64(std::span<const std::byte> file) {
  const auto whole = as<std::int64_t>(file);
  const auto ids = whole.first(std::min(whole.size(), kLookedAt / 2));
  const auto fits_half = [](std::int64_t id) { return id >= 0 && id <= 0xFFFF'FFFF; };
  return file.size() % sizeof(std::int64_t) == 0 && ids.size() >= kLeastPairs &&
         std::ranges::all_of(ids, fits_half) &&
         std::ranges::any_of(ids, [](std::int64_t id) { return id != 0; });
}

bool is_uint16(std::span<const std::byte> file, std::int64_t vocab) {
  if (file.size() % sizeof(std::uint16_t) != 0 || vocab > 1 << 16) return false;
  const auto wide = as<std::int32_t>(file.first(std::min(file.size(), kLookedAt * 4)));
  const auto wrong = std::ranges::count_if(wide, [&](auto id) { return id < 0 || id >= vocab; });
  return wrong > static_cast<std::ptrdiff_t>(wide.size() / 2) &&
         std::ranges::all_of(as<std::uint16_t>(file), [&](auto id) { return id < vocab; });
}

}  // namespace

void refuse_other_types(std::span<const std::byte> file, std::int64_t vocab,
                        const std::string& path) {
  const auto refuse = [&](const char* type, const std::string& array) {
    FM_DATA_CHECK(false, path, ": a token file must hold little-endian int32 ids, this one ", type,
                  "; write it anew: numpy.", array, ".astype(\"<i4\").tofile(\"ids.bin\") (",
                  file.size(), " bytes)");
  };
  const auto from_file = [&](const char* type) {
    return core::concat("fromfile(\"", path, "\", \"", type, "\")");
  };
  if (is_npy(file)) refuse("is a NumPy .npy file", core::concat("load(\"", path, "\")"));
  if (is_int64(file)) refuse("looks like int64: every second int32 is 0", from_file("<i8"));
  if (is_uint16(file, vocab)) {
    refuse("looks like uint16: most int32 are beyond the vocabulary, all uint16 within it",
           from_file("<u2"));
  }
}

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");
constexpr std::size_t kIdBytes = sizeof(std::int32_t);
constexpr std::size_t kBlock = 1 << 16;  // ids scanned at once: small enough for the cache

class TokenRows : public SampleSource {
 public:
  explicit TokenRows(const SourceOptions& options) : options_(options), file_(options.path) {
    const std::size_t bytes = file_.bytes().size();
    refuse_other_types(file_.bytes(), options_.vocab, options_.path);
    FM_DATA_CHECK(bytes % kIdBytes == 0, options_.path,
                  ": a token file must hold whole little-endian int32 ids; check that it is one (",
                  bytes, " bytes is no multiple of 4)");
    ids_ = static_cast<std::int64_t>(bytes / kIdBytes);
    windows_ = ids_ / window();
    FM_DATA_CHECK(
        windows_ > 0, options_.path,
        ": at least one window of max_seq_len + 1 ids is required; give a longer file or ",
        "a smaller max_seq_len (", ids_, " ids, max_seq_len + 1 = ", window(), ")");
    const std::uint32_t crc = scan();
    fingerprint_ = core::concat("tokens_i32 bytes=", bytes, " crc32c=", crc,
                                " seq_len=", options_.seq_len, " order=file");
  }

  std::int64_t samples_per_epoch() const override { return windows_; }

  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    file_.check_unchanged();
    const std::int64_t first = position % windows_ * window();
    copy_ids(first, tokens_T);
    copy_ids(first + 1, labels_T);
  }

  std::string describe() const override {
    return core::concat(options_.path, ": ", core::human_count(static_cast<double>(ids_)),
                        " int32 tokens; ", windows_, " windows of ", window(),
                        " ids in file order, not shuffled (last ", ids_ % window(),
                        " ids not used)");
  }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::int64_t window() const { return options_.seq_len + 1; }

  void copy_ids(std::int64_t first, std::span<std::int32_t> ids) const {
    std::memcpy(ids.data(), file_.bytes().data() + static_cast<std::size_t>(first) * kIdBytes,
                ids.size() * kIdBytes);
  }

  // One pass over the file: every id is in [0, vocab); returns the CRC of the content.
  std::uint32_t scan() const {
    std::span<const std::byte> left = file_.bytes();
    std::uint32_t crc = 0;
    std::int64_t index = 0;
    while (!left.empty()) {
      const std::span<const std::byte> block = left.first(std::min(left.size(), kBlock * kIdBytes));
      crc = core::crc32c(block, crc);
      check_ids(block, index);
      index += static_cast<std::int64_t>(block.size() / kIdBytes);
      left = left.subspan(block.size());
    }
    return crc;
  }

  // Pages of a mapping are aligned and blocks are whole ids, so ids may be read in place.
  void check_ids(std::span<const std::byte> block, std::int64_t first_index) const {
    const std::span ids(reinterpret_cast<const std::int32_t*>(block.data()),
                        block.size() / kIdBytes);
    std::uint32_t highest = 0;  // a negative id is huge when read as unsigned
    for (const std::int32_t id : ids) highest = std::max(highest, static_cast<std::uint32_t>(id));
    if (highest < static_cast<std::uint64_t>(options_.vocab)) return;
    const auto bad = std::find_if(ids.begin(), ids.end(),
                                  [&](std::int32_t id) { return id < 0 || id >= options_.vocab; });
    FM_DATA_CHECK(false, options_.path, ": token ids must be in [0, vocab_size); check that file ",
                  "and model belong together (id ", *bad, " at position ",
                  first_index + (bad - ids.begin()), ", vocab_size=", options_.vocab, ")");
  }

  SourceOptions options_;
  core::MappedFile file_;
  std::int64_t ids_ = 0;
  std::int64_t windows_ = 0;
  std::string fingerprint_;
};

}  // namespace

std::unique_ptr<SampleSource> open_tokens(const SourceOptions& options) {
  return std::make_unique<TokenRows>(options);
}

}  // namespace fm::data
