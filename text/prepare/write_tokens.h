// Text as a dataset of token ids, made ahead of a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "text/prepare/prepare_text.h"

namespace fm::prepare {

enum class TokenLayout : std::uint8_t {
  kFlat,      // OUT: int32 ids of every document, with one EOS behind each
  kMegatron,  // OUT.bin and OUT.idx, and OUT.counted where the loss leaves ids out
};

struct WriteOptions {
  std::vector<std::string> paths = {};  // the words of --data_path, see text/data/data_paths.h
  data::RowOptions rows = {};           // the recipe knows the columns, too
  std::filesystem::path out = {};       // must not be there
  TokenLayout layout = TokenLayout::kFlat;
  int threads = 1;
  std::int64_t skip_bad_lines = 0;
  std::function<void(const std::string&)> say = {};  // one line of progress
  std::function<bool()> stop = {};                   // whether the work shall end
};

// The documents of all files in their order. Whatever ends the process, OUT is whole or not there.
// Returns what was written, for a person. Throws UserError (10, 11), MachineError (26, and 75 where
// it was stopped).
std::string write_tokens(const WriteOptions& options, const Recipe& recipe);

}  // namespace fm::prepare
