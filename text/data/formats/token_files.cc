#include "text/data/formats/token_files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/text.h"
#include "text/data/id_array.h"

namespace fm::data {
namespace {

class FlatFile : public TokenStream {
 public:
  FlatFile(MappedIds ids, TokenForm form, std::int64_t vocab) : ids_(std::move(ids)), form_(form) {
    const std::span<const std::byte> file = ids_.file().bytes();
    const auto head = file.first(static_cast<std::size_t>(ids_.ids().bytes().data() - file.data()));
    const std::uint32_t crc =
        ids_.check(vocab, core::crc32c(head),
                   "check that file and model belong together, or name the type of its ids with "
                   "--token_dtype");
    fingerprint_ = core::concat(kind(), " bytes=", file.size(), " crc32c=", crc);
  }

  std::int64_t size() const override { return ids_.ids().size(); }
  std::int64_t documents() const override { return 0; }
  std::int64_t begin_of(std::int64_t) const override { return 0; }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override {
    ids_.read(first, ids);
  }
  std::string describe() const override {
    return core::concat(ids_.path(), ": ", core::human_count(static_cast<double>(size())), ' ',
                        name_of(ids_.ids().type()), " tokens", words_of(form_));
  }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  static std::string_view words_of(TokenForm form) {
    switch (form) {
      case TokenForm::kFlat: return "";
      case TokenForm::kNpy: return " (.npy)";
      case TokenForm::kLlmC: return " (llm.c)";
    }
    return "";
  }

  // "tokens_i32" of a flat file of int32, as in the checkpoints of older builds.
  std::string kind() const {
    const TokenType type = ids_.ids().type();
    std::string plain =
        type == TokenType::kI32 ? "tokens_i32" : core::concat("tokens_", name_of(type));
    switch (form_) {
      case TokenForm::kFlat: return plain;
      case TokenForm::kNpy: return plain + "_npy";
      case TokenForm::kLlmC: return plain + "_llm.c";
    }
    return plain;
  }

  MappedIds ids_;
  TokenForm form_;
  std::string fingerprint_;
};

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kLookedAt = 1 << 16;  // int32 ids at the start of the file
constexpr std::size_t kLeastPairs = 32;

// The whole numbers of a file; what is left at its end is none. A mapping is aligned for them.
template <class T>
std::span<const T> as(std::span<const std::byte> file) {
  return {reinterpret_cast<const T*>(file.data()), file.size() / sizeof(T)};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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

constexpr std::pair<std::string_view, TokenType> kDescrs[] = {
    {"'<u2'", TokenType::kU16}, {"'<i4'", TokenType::kI32}, {"'<i8'", TokenType::kI64},
    {"'<u4'", TokenType::kU32}, {"'<u8'", TokenType::kU64}, {"'<i2'", TokenType::kI16},
    {"'|u1'", TokenType::kU8},  {"'|i1'", TokenType::kI8}};

// The header is a Python literal, {'descr': '<i4', 'fortran_order': False, 'shape': (5,), }, in an
// order of its own (numpy/lib/format.py).
class NpyHeader {
 public:
  NpyHeader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  TokenType type() const {
    const std::string_view value = behind("'descr':");
    const std::string_view quoted = value.substr(0, value.find('\'', 1) + 1);
    for (const auto& [descr, type] : kDescrs) {
      if (quoted == descr) return type;
    }
    FM_DATA_CHECK(false, path_, ": a .npy file must hold little-endian whole numbers of 1 to 8 ",
                  "bytes; convert them with numpy's astype(\"<i4\") (descr ", quoted, ")");
  }

  // Of all dimensions, which are read row after row.
  std::int64_t count() const {
    std::string_view shape = behind("'shape':");
    check(shape.starts_with('('), "shape");
    shape.remove_prefix(1);
    std::int64_t product = 1;
    int dims = 0;
    while (!trim(shape).starts_with(')')) {
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(shape.data(), shape.data() + shape.size(), extent);
      check(error == std::errc() && extent >= 0, "shape");
      shape.remove_prefix(static_cast<std::size_t>(end - shape.data()));
      if (trim(shape).starts_with(',')) shape.remove_prefix(1);
      check(extent == 0 || product <= INT64_MAX / 8 / extent, "shape");
      product *= extent;
      ++dims;
    }
    const bool by_columns = behind("'fortran_order':").starts_with("True");
    FM_DATA_CHECK(!by_columns || dims < 2, path_, ": ids must lie row after row; save the array ",
                  "with numpy.ascontiguousarray (fortran_order: True)");
    return product;
  }

 private:
  void check(bool good, const char* part) const {
    FM_DATA_CHECK(good, path_, ": a .npy file must begin with a whole header; write it anew (",
                  part, ")");
  }
  static std::string_view& trim(std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return text;
  }
  std::string_view behind(std::string_view key) const {
    const std::size_t at = text_.find(key);
    check(at != std::string_view::npos, key.data());
    std::string_view value = text_.substr(at + key.size());
    return trim(value);
  }

  std::string_view text_;
  const std::string& path_;
};

TokenLayout npy_layout(std::span<const std::byte> file, TokenType asked, const std::string& path) {
  constexpr std::size_t kVersionAt = 6;
  const auto byte_at = [&](std::size_t at) {
    return at < file.size() ? std::to_integer<std::size_t>(file[at]) : 0;
  };
  const bool narrow = byte_at(kVersionAt) == 1;  // version 1 has two bytes of length, others four
  const std::size_t head = narrow ? 10 : 12;
  std::size_t length = byte_at(8) | byte_at(9) << 8;
  if (!narrow) length |= byte_at(10) << 16 | byte_at(11) << 24;
  FM_DATA_CHECK(file.size() >= head && length <= file.size() - head, path,
                ": a .npy file must begin with a whole header; write it anew (", file.size(),
                " bytes, header of ", length, ")");
  const NpyHeader header(text_of(file.subspan(head, length)), path);
  TokenLayout out{header.type(), head + length, header.count(), TokenForm::kNpy};
  FM_DATA_CHECK(asked == TokenType::kAuto || asked == out.type, path,
                ": --token_dtype must be what ", "the .npy file says; leave it out (--token_dtype ",
                name_of(asked), ", the file ", name_of(out.type), ")");
  const std::size_t bytes = file.size() - out.begin;
  FM_DATA_CHECK(bytes / size_of(out.type) >= static_cast<std::size_t>(out.count), path,
                ": a .npy file must hold the ids of its header; write it anew (", out.count,
                " ids in the header, ", bytes, " bytes of them)");
  FM_DATA_CHECK(out.begin % size_of(out.type) == 0, path,
                ": the ids of a .npy file must be aligned; write it anew (they begin at byte ",
                out.begin, ")");
  return out;
}

// karpathy/llm.c: dev/data/data_common.py
struct Shard {
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
};
constexpr Shard kShards[] = {{20240520, 1, TokenType::kU16}, {20240801, 7, TokenType::kU32}};
constexpr std::size_t kShardHead = 256 * sizeof(std::int32_t);

// Ids begin so in no flat file: there is no vocabulary of 20 M.
bool is_shard(std::span<const std::byte> file, const Shard& shard) {
  const auto head = as<std::int32_t>(file);
  return !head.empty() && head[0] == shard.magic;
}

TokenLayout shard_layout(std::span<const std::byte> file, const Shard& shard, TokenType asked,
                         const std::string& path) {
  const auto head = as<std::int32_t>(file);
  FM_DATA_CHECK(file.size() >= kShardHead && head[1] == shard.version, path,
                ": a shard of llm.c must have a header of ", kShardHead, " bytes and version ",
                shard.version, "; write it anew (", file.size(), " bytes, version ",
                head.size() > 1 ? head[1] : 0, ")");
  const std::size_t bytes = file.size() - kShardHead;
  const auto count = static_cast<std::uint32_t>(head[2]);
  FM_DATA_CHECK(bytes == count * size_of(shard.type), path,
                ": a shard of llm.c must hold the ids of its header; write it anew (", count,
                " ids in the header, ", bytes, " bytes of ", name_of(shard.type), ")");
  FM_DATA_CHECK(
      asked == TokenType::kAuto || asked == shard.type, path,
      ": --token_dtype must be what the shard of llm.c says; leave it out (--token_dtype ",
      name_of(asked), ", the file ", name_of(shard.type), ")");
  return {shard.type, kShardHead, static_cast<std::int64_t>(count), TokenForm::kLlmC};
}

TokenType type_of(std::span<const std::byte> file, std::int64_t vocab) {
  if (is_int64(file)) return TokenType::kI64;
  return is_uint16(file, vocab) ? TokenType::kU16 : TokenType::kI32;
}

}  // namespace

StreamPtr open_tokens(const std::string& path, const SourceOptions& options) {
  core::MappedFile file(path);
  const TokenLayout layout = layout_of(file.bytes(), options.token_type, options.vocab, path);
  const auto bytes = file.bytes().subspan(
      layout.begin, static_cast<std::size_t>(layout.count) * size_of(layout.type));
  return std::make_shared<FlatFile>(MappedIds(std::move(file), path, bytes, layout.type),
                                    layout.form, options.vocab);
}

TokenLayout layout_of(std::span<const std::byte> file, TokenType asked, std::int64_t vocab,
                      const std::string& path) {
  if (text_of(file).starts_with(kNpyMagic)) return npy_layout(file, asked, path);
  for (const Shard& shard : kShards) {
    if (is_shard(file, shard)) return shard_layout(file, shard, asked, path);
  }
  const TokenType type = asked == TokenType::kAuto ? type_of(file, vocab) : asked;
  FM_DATA_CHECK(file.size() % size_of(type) == 0, path,
                ": a token file must hold whole little-endian ", name_of(type),
                " ids; check that it is one, or name its type with --token_dtype (", file.size(),
                " bytes is no multiple of ", size_of(type), ")");
  return {type, 0, static_cast<std::int64_t>(file.size() / size_of(type)), TokenForm::kFlat};
}

}  // namespace fm::data
