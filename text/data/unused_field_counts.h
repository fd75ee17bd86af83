// Fields of rows that had no effect, for one note at the start of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace fm::data {

// Rows that have the field, by its name.
using UnusedFields = std::map<std::string, std::int64_t, std::less<>>;

// Of long names the beginning counts, and beyond 100 names all are "others": neither a note nor
// memory grows with the data.
void add_unused(std::string_view name, std::int64_t rows, UnusedFields& unused);
void add_unused(const UnusedFields& more, UnusedFields& unused);

// "; fields without effect: id (400 rows), source (12 rows)", or "" where there are none.
std::string words_of(const UnusedFields& unused);

}  // namespace fm::data
