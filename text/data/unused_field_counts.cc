#include "text/data/unused_field_counts.h"

#include "core/check.h"
#include "core/text.h"

namespace fm::data {
namespace {

constexpr std::size_t kMostNames = 100;
constexpr std::size_t kMostBytes = 60;  // of a name
constexpr std::size_t kMostWords = 20;  // names in a note

// Not within a character of UTF-8.
std::string_view beginning_of(std::string_view name) {
  if (name.size() <= kMostBytes) return name;
  std::size_t end = kMostBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80) --end;
  return name.substr(0, end);
}

}  // namespace

void add_unused(std::string_view name, std::int64_t rows, UnusedFields& unused) {
  name = beginning_of(name);
  auto found = unused.find(name);
  if (found == unused.end()) {
    const bool room = unused.size() < kMostNames;
    found = unused.try_emplace(std::string(room ? name : "others"), 0).first;
  }
  found->second += rows;
}

void add_unused(const UnusedFields& more, UnusedFields& unused) {
  for (const auto& [name, rows] : more) add_unused(name, rows, unused);
}

std::string words_of(const UnusedFields& unused) {
  std::string words;
  std::size_t told = 0;
  for (const auto& [name, rows] : unused) {
    words += told == 0 ? "; fields without effect: " : ", ";
    if (told++ == kMostWords) return words + core::concat(unused.size() - kMostWords, " others");
    words += core::concat(core::readable(name), " (", core::grouped(std::to_string(rows)),
                          rows == 1 ? " row)" : " rows)");
  }
  return words;
}

}  // namespace fm::data
