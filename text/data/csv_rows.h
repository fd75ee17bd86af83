// CSV (RFC 4180) and tab-separated values as JSONL.
#pragma once

#include "text/data/row_lines.h"

namespace fm::data {

// The first row names the columns. Values are strings, empty ones null. A quote within a value that
// does not begin with one is a character of it; what stands behind a closing quote belongs to the
// value, as pandas has it.
std::unique_ptr<RowLines> make_csv_rows(RowText text, char separator);

}  // namespace fm::data
