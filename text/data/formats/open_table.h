// libfm_arrow.so: tables by Apache Arrow, handed over as a stream of the C data interface. It is
// built where Arrow's headers are (cmake/arrow.cmake), and loaded when a table comes.
#pragma once

#include <array>
#include <cstdint>

namespace fm::data {

// Of `parts` parts of a file one: of Parquet its row groups, of an Arrow file its batches, one part
// behind the other. An Arrow stream has no places: all of it is the first part.
struct TablePart {
  std::int32_t is_parquet;
  std::int32_t part;
  std::int32_t parts;
};

struct OpenedTable {
  void* stream;               // an ArrowArrayStream of the caller's, which must be released
  std::int64_t rows_before;   // in parts before this one
  std::array<char, 400> why;  // it could not be opened
};

// Opens a Parquet file, or one of Arrow's IPC (stream or file). Batches are valid, but for texts
// that are no UTF-8. Returns 0, or another number.
extern "C" int fm_open_table(const char* path, const TablePart* part, OpenedTable* out);

}  // namespace fm::data
