#include "data/token_file_type.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/check.h"

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

}  // namespace fm::data
