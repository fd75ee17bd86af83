#include "data/token_files.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/mapped_file.h"
#include "core/text.h"
#include "data/permutation.h"
#include "data/token_types.h"

namespace fm::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");
constexpr std::size_t kBlock = 1 << 16;  // ids scanned at once: small enough for the cache

template <class T>  // of an id in the file
class TokenRows : public SampleSource {
 public:
  TokenRows(const SourceOptions& options, core::MappedFile file, const TokenLayout& layout)
      : options_(options), file_(std::move(file)), layout_(layout) {
    const auto bytes =
        file_.bytes().subspan(layout.begin, static_cast<std::size_t>(layout.count) * sizeof(T));
    ids_ = {reinterpret_cast<const T*>(bytes.data()), static_cast<std::size_t>(layout.count)};
    windows_ = layout.count / window();
    FM_DATA_CHECK(
        windows_ > 0, options_.path,
        ": at least one window of max_seq_len + 1 ids is required; give a longer file or ",
        "a smaller max_seq_len (", layout.count, " ids, max_seq_len + 1 = ", window(), ")");
    const std::string order =
        options.shuffle_windows ? core::concat("shuffled seed=", options.seed) : "file";
    fingerprint_ = core::concat(kind(), " bytes=", file_.bytes().size(), " crc32c=", scan(),
                                " seq_len=", options_.seq_len, " order=", order);
  }

  std::int64_t samples_per_epoch() const override { return windows_; }

  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    file_.check_unchanged();
    std::int64_t row = position % windows_;
    if (options_.shuffle_windows) {
      row = Permutation(windows_, options_.seed, position / windows_)(row);
    }
    copy_ids(row * window(), tokens_T);
    copy_ids(row * window() + 1, labels_T);
  }

  std::string describe() const override {
    const std::string order =
        options_.shuffle_windows
            ? core::concat("order shuffled per epoch (seed ", options_.seed, ")")
            : "in file order, not shuffled (see --shuffle_windows)";
    return core::concat(options_.path, ": ", core::human_count(static_cast<double>(ids_.size())),
                        ' ', name_of(layout_.type), layout_.npy ? " tokens (.npy); " : " tokens; ",
                        windows_, " windows of ", window(), " ids, ", order, "; last ",
                        std::ssize(ids_) % window(), " ids not used");
  }

  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::int64_t window() const { return options_.seq_len + 1; }

  // "tokens_i32" of a flat file of int32, as in the checkpoints of older builds.
  std::string kind() const {
    const std::string flat = layout_.type == TokenType::kI32
                                 ? "tokens_i32"
                                 : core::concat("tokens_", name_of(layout_.type));
    return layout_.npy ? flat + "_npy" : flat;
  }

  void copy_ids(std::int64_t first, std::span<std::int32_t> ids) const {
    const auto from = ids_.subspan(static_cast<std::size_t>(first), ids.size());
    std::ranges::transform(from, ids.begin(), [](T id) { return static_cast<std::int32_t>(id); });
  }

  // One pass over the file: every id is in [0, vocab); returns the CRC of the content.
  std::uint32_t scan() const {
    std::uint32_t crc = core::crc32c(file_.bytes().first(layout_.begin), 0);
    for (std::size_t first = 0; first < ids_.size(); first += kBlock) {
      const auto block = ids_.subspan(first, std::min(kBlock, ids_.size() - first));
      crc = core::crc32c(std::as_bytes(block), crc);
      check_ids(block, first);
    }
    return crc;
  }

  void check_ids(std::span<const T> block, std::size_t first) const {
    using Unsigned = std::make_unsigned_t<T>;  // a negative id is huge
    Unsigned highest = 0;
    for (const T id : block) highest = std::max(highest, static_cast<Unsigned>(id));
    if (highest < static_cast<std::uint64_t>(options_.vocab)) return;
    const auto bad = std::ranges::find_if(block, [&](T id) {
      return static_cast<std::uint64_t>(static_cast<Unsigned>(id)) >=
             static_cast<std::uint64_t>(options_.vocab);
    });
    FM_DATA_CHECK(false, options_.path, ": token ids must be in [0, vocab_size); check that file ",
                  "and model belong together, or name the type of its ids with --token_dtype (id ",
                  *bad, " at position ", first + static_cast<std::size_t>(bad - block.begin()),
                  ", vocab_size=", options_.vocab, ", read as ", name_of(layout_.type), ")");
  }

  SourceOptions options_;
  core::MappedFile file_;
  TokenLayout layout_;
  std::span<const T> ids_;
  std::int64_t windows_ = 0;
  std::string fingerprint_;
};

}  // namespace

std::unique_ptr<SampleSource> open_tokens(const SourceOptions& options) {
  core::MappedFile file(options.path);
  const TokenLayout layout =
      layout_of(file.bytes(), options.token_type, options.vocab, options.path);
  switch (layout.type) {
    case TokenType::kU16:
      return std::make_unique<TokenRows<std::uint16_t>>(options, std::move(file), layout);
    case TokenType::kI64:
      return std::make_unique<TokenRows<std::int64_t>>(options, std::move(file), layout);
    case TokenType::kAuto:
    case TokenType::kI32: break;
  }
  return std::make_unique<TokenRows<std::int32_t>>(options, std::move(file), layout);
}

}  // namespace fm::data
