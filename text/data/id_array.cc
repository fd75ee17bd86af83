#include "text/data/id_array.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "core/crc32c.h"

namespace fm::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");
constexpr std::int64_t kBlock = 1 << 16;  // ids checked at once: small enough for the cache
constexpr std::int64_t kPiece = 1 << 24;  // bytes that are checked before their pages are let go
// After so many reads pages are let go. A kernel may map 2 MiB around what is read.
constexpr unsigned kReads = 32;

// `body` with a value of the type.
template <class Body>
auto with_type(TokenType type, const Body& body) {
  switch (type) {
    case TokenType::kU8: return body(std::uint8_t{});
    case TokenType::kI8: return body(std::int8_t{});
    case TokenType::kU16: return body(std::uint16_t{});
    case TokenType::kI16: return body(std::int16_t{});
    case TokenType::kU32: return body(std::uint32_t{});
    case TokenType::kU64: return body(std::uint64_t{});
    case TokenType::kI64: return body(std::int64_t{});
    case TokenType::kF32: return body(float{});
    case TokenType::kF64: return body(double{});
    case TokenType::kAuto:
    case TokenType::kI32: break;
  }
  return body(std::int32_t{});
}

template <class T>
T number_at(const std::byte* numbers, std::int64_t index) {
  T number;
  std::memcpy(&number, numbers + static_cast<std::size_t>(index) * sizeof(T), sizeof(T));
  return number;
}

template <class T>
bool is_id(T number, std::int64_t vocab) {
  if constexpr (std::is_floating_point_v<T>) {
    return number >= 0 && number < static_cast<T>(vocab) &&
           static_cast<T>(static_cast<std::int64_t>(number)) == number;
  } else {
    // A negative number is a huge unsigned one.
    return static_cast<std::uint64_t>(static_cast<std::make_unsigned_t<T>>(number)) <
           static_cast<std::uint64_t>(vocab);
  }
}

template <class T>
std::int64_t first_outside(const std::byte* numbers, std::int64_t count, std::int64_t vocab) {
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    bool good = true;
    for (std::int64_t at = begin; at < end; ++at) good &= is_id(number_at<T>(numbers, at), vocab);
    if (good) continue;
    std::int64_t at = begin;
    while (is_id(number_at<T>(numbers, at), vocab)) ++at;
    return at;
  }
  return count;
}

template <class T>
std::int32_t to_id(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    return is_id(number, std::int64_t{1} << 31) ? static_cast<std::int32_t>(number) : -1;
  } else {
    return static_cast<std::int32_t>(number);
  }
}

}  // namespace

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::kAuto: return "auto";
    case TokenType::kU8: return "uint8";
    case TokenType::kI8: return "int8";
    case TokenType::kU16: return "uint16";
    case TokenType::kI16: return "int16";
    case TokenType::kU32: return "uint32";
    case TokenType::kI32: return "int32";
    case TokenType::kU64: return "uint64";
    case TokenType::kI64: return "int64";
    case TokenType::kF32: return "float32";
    case TokenType::kF64: return "float64";
  }
  return "?";
}

std::size_t size_of(TokenType type) {
  return with_type(type, [](auto number) { return sizeof(number); });
}

IdArray::IdArray(std::span<const std::byte> bytes, TokenType type) : bytes_(bytes), type_(type) {
  size_ = static_cast<std::int64_t>(bytes.size() / size_of(type));
}

IdArray IdArray::part(std::int64_t first, std::int64_t count) const {
  FM_CHECK(first >= 0 && count >= 0 && first <= size_ - count, "ids ", first, " + ", count, " of ",
           size_);
  const std::size_t width = size_of(type_);
  return {bytes_.subspan(static_cast<std::size_t>(first) * width,
                         static_cast<std::size_t>(count) * width),
          type_};
}

void IdArray::read(std::span<std::int32_t> ids) const {
  FM_CHECK(std::ssize(ids) <= size_, ids.size(), " ids of ", size_);
  with_type(type_, [&](auto number) {
    using T = decltype(number);
    for (std::int64_t at = 0; at < std::ssize(ids); ++at) {
      ids[static_cast<std::size_t>(at)] = to_id(number_at<T>(bytes_.data(), at));
    }
  });
}

std::int64_t IdArray::find_outside(std::int64_t vocab) const {
  return with_type(type_, [&](auto number) {
    return first_outside<decltype(number)>(bytes_.data(), size_, vocab);
  });
}

std::string IdArray::text_of(std::int64_t index) const {
  return with_type(type_, [&](auto number) {
    return core::concat(+number_at<decltype(number)>(bytes_.data(), index));
  });
}

std::int64_t IdArray::number(std::int64_t index) const {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return with_type(type_, [&](auto example) {
    using T = decltype(example);
    const T number = number_at<T>(bytes_.data(), index);
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) return std::int64_t{number};
    return is_id(number, kMost) ? static_cast<std::int64_t>(number) : -kMost - 1;
  });
}

MappedIds::MappedIds(core::MappedFile file, std::string path, std::span<const std::byte> bytes,
                     TokenType type)
    : file_(std::move(file)), path_(std::move(path)), ids_(bytes, type) {}

void MappedIds::read(std::int64_t first, std::span<std::int32_t> ids) const {
  file_.check_unchanged();
  ids_.part(first, std::ssize(ids)).read(ids);
  file_.check_uncut();
  if (++*reads_ % kReads == 0) file_.let_go(file_.bytes());
}

std::uint32_t MappedIds::check(std::int64_t vocab, std::uint32_t crc,
                               std::string_view advice) const {
  const std::int64_t piece = kPiece / static_cast<std::int64_t>(size_of(ids_.type()));
  for (std::int64_t first = 0; first < ids_.size(); first += piece) {
    const IdArray part = ids_.part(first, std::min(piece, ids_.size() - first));
    crc = core::crc32c(part.bytes(), crc);
    const std::int64_t bad = part.find_outside(vocab);
    file_.check_uncut();
    FM_DATA_CHECK(bad == part.size(), path_, ": token ids must be in [0, vocab_size); ", advice,
                  " (id ", bad < part.size() ? part.text_of(bad) : "", " at position ", first + bad,
                  ", vocab_size=", vocab, ", read as ", name_of(ids_.type()), ")");
    file_.let_go(part.bytes());
  }
  return crc;
}

}  // namespace fm::data
