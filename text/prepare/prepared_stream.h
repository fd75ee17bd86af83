// A file of text as its tokens, which lie in a folder of --cache_dir.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/data/documents.h"
#include "text/data/token_stream.h"
#include "text/prepare/part_writer.h"

namespace fm::prepare {

inline constexpr const char* kPreparedFile = "prepared.json";

// What stands in that file, beside the files of the parts.
struct Prepared {
  std::string source;    // file name, for people
  std::string recipe;    // what decided the ids, for people
  std::string identity;  // of the file's content and the recipe
  std::vector<PartCounts> parts;
  std::int64_t bad_lines = 0;
  std::string first_bad;  // "file:line: what is wrong"
  std::int32_t filler = 0;
  data::UnusedFields unused = {};

  PartCounts total() const;
};

// "part-00003"
std::string part_name(std::size_t part);
// Reads the files of a part once, as they were just written.
std::string content_of_part(const std::filesystem::path& prefix, std::int64_t vocab);

void write_prepared(const std::filesystem::path& folder, const Prepared& prepared);
// Throws UserError (11) where the folder is not whole: delete it.
Prepared read_prepared(const std::filesystem::path& folder);

// The documents, mapped. `path` of the source and `tokens` ("tokens of tokenizer.json") are for the
// description. Throws UserError (11) when a file is not as it was written: every byte is compared,
// by its sum.
data::StreamPtr open_prepared(const std::filesystem::path& folder, const std::string& path,
                              const std::string& tokens, std::int64_t vocab);

}  // namespace fm::prepare
