// The rows of a file as lines of JSONL in batches, for ranks that each read a part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/data/documents.h"
#include "text/data/row_lines.h"

namespace fm::prepare {

struct FilePart {
  std::string path;
  int part = 0;
  int parts = 1;
  data::RowLayout rows = data::RowLayout::kJsonLines;
};

// Bytes of a file: lines that begin in [size p / parts, size (p + 1) / parts). A packed file, one
// JSON array (text/data/array_lines.h), and what has rows of several lines, has no such places: all
// of it is the first part. Of a table every part has its row groups (data::open_table).
struct LineRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
LineRange lines_of_part(const FilePart& part);

// Whether a file is gzip or zstd.
bool is_packed(const std::string& path);

// Invariant: batches are whole lines, in order; together they are the part.
// Thread:    one.
// Lifetime:  owns the open file.
class LineBatches {
 public:
  // Throws UserError (11) naming the file when it cannot be read.
  explicit LineBatches(const FilePart& part);
  ~LineBatches();

  // About `bytes` of lines, at least one; false at the end. Throws UserError (11) when the file has
  // been written since, or is damaged, and for a line that is too long.
  bool next(std::size_t bytes, std::string& batch);
  // Lines of the file, or rows of a table, before the part: what a message must add to a number
  // that counts from there. May read the file.
  std::int64_t lines_before() const;

 private:
  class Pieces;
  std::string place() const;  // "file:7", of the line that is carried

  FilePart part_;
  LineRange range_;
  std::unique_ptr<Pieces> pieces_;
  std::string carried_;     // the beginning of a line
  std::int64_t lines_ = 0;  // of the part, that came before it
  bool ended_ = false;
};

}  // namespace fm::prepare
