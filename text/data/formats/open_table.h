// libfm_arrow.so: tables by Apache Arrow, handed over as a stream of the C data interface. It is
// built where Arrow's headers are (cmake/arrow.cmake), and loaded when a table comes.
#pragma once

#include <cstddef>

namespace fm::data {

// Opens a Parquet file, or one of Arrow's IPC (stream or file); `stream` is an ArrowArrayStream
// that must be released. Batches are valid, but for texts that are no UTF-8. Returns 0, or another
// number with the reason in the `room` bytes of `why`.
extern "C" int fm_open_table(const char* path, int is_parquet, void* stream, char* why,
                             std::size_t room);

}  // namespace fm::data
