// Tokenized documents as files: one of Megatron-LM's indexed datasets, and beside it PREFIX.counted
// and PREFIX.labels where they are needed (text/data/formats/megatron.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "text/prepare/growing_file.h"
#include "text/prepare/tokenized_lines.h"

namespace fm::prepare {

struct PartCounts {
  std::int64_t documents = 0;
  std::int64_t ids = 0;
  std::int64_t counted = 0;  // ids that the loss counts
  std::int64_t labels = 0;   // ids whose label is another id
  std::string content = {};  // of the files, with their sums; "" where there are none
};

// Memory does not grow with what is written.
//
// Invariant: files are on the disk when finish() returned; before, they are none of a dataset.
// Thread:    one.
// Lifetime:  the folder outlives it.
class PartWriter {
 public:
  // `prefix`.bin and so on must not exist. Ids are uint16 where the vocabulary fits, else int32.
  // Throws MachineError (26) with path and cause, as everything here.
  PartWriter(const std::filesystem::path& prefix, std::int64_t vocab);
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;
  ~PartWriter();

  void add(const TokenizedLines& lines);
  // Files of no document are removed.
  PartCounts finish();

 private:
  void add_counted(const TokenizedLines& lines);
  void add_labels(const TokenizedLines& lines);
  void write_index();

  std::filesystem::path prefix_;
  bool narrow_;
  PartCounts counts_;
  std::unique_ptr<GrowingFile> ids_;
  std::unique_ptr<GrowingFile> lengths_;  // int32 each; gone in the end
  std::unique_ptr<GrowingFile> counted_;  // null while every id counts
  std::unique_ptr<GrowingFile> labels_;   // null while every id is its own label
};

// PREFIX.bin and the like of a prefix.
std::filesystem::path with_ending(const std::filesystem::path& prefix, const char* ending);

}  // namespace fm::prepare
