// Parquet files and Arrow IPC files or streams (as datasets.save_to_disk writes them) as JSONL.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/data/row_lines.h"

namespace fm::data {

struct ArrowArrayStream;  // text/data/formats/arrow_c_data.h

// By libfm_arrow.so, which is built where Arrow's headers are (FM_ARROW), and Arrow's libraries
// behind it. Throws UserError (10) with a way to JSONL where they are not there, (11) naming the
// file where it is damaged.
struct Table {
  std::unique_ptr<RowLines> rows;
  std::int64_t rows_before = 0;  // in parts before this one
};
// One of `parts` parts of it: row groups or batches; all of a stream is the first part.
Table open_table(const std::string& path, RowLayout layout, int part = 0, int parts = 1);

// Rows of batches in memory, as Arrow's C data interface hands them over; takes the stream. Of a
// type that JSON has no value for (dates, bytes, ...) a row has {"unread": FORMAT}.
std::unique_ptr<RowLines> make_table_rows(ArrowArrayStream stream, const std::string& path);

}  // namespace fm::data
