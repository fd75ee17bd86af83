// Text becomes tokens once, by all ranks of a host together; later starts find them in --cache_dir.
//
//   CACHE_DIR/NAME/prepared.json, part-00000.bin, .idx, .counted, ...
//
// NAME follows from the content of the file and from whatever decides the ids. A folder of that
// name is whole: it appears by a rename.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "comm/communicator.h"
#include "text/data/documents.h"
#include "text/prepare/tokenized_lines.h"

namespace fm::prepare {

// How the rows of a file become ids.
struct Recipe {
  ReadLine read_line;
  data::RowLayout rows = data::RowLayout::kJsonLines;
  std::string words;          // what decides the ids: tokenizer, template, fields
  std::string tokens;         // "tokens of tokenizer.json", for people
  std::int64_t vocab = 0;     // ids are below
  std::int64_t plain = 0;     // as Tokenizer::plain_limit
  std::int32_t filler = 0;    // of a short row
  std::int32_t eos = -1;      // ends a text; -1: the tokenizer names none
  data::EndTokens ends = {};  // generation stops there
};

struct PrepareOptions {
  std::filesystem::path cache_dir;
  int threads = 1;                                   // of this rank
  std::function<void(const std::string&)> say = {};  // one line, where this rank speaks
  std::function<bool()> stop = {};                   // whether a signal asks to end; never waits
};

// Collective over `host`, the ranks that share this file system. Where the folder is not there,
// each of them tokenizes a part of the file (a packed file the first one alone), in memory that
// does not grow with it. Throws on all ranks alike: UserError (11) "file:line: ..." for one bad
// line too many, MachineError (26) when the disk does not take the tokens, (75) when asked to stop.
data::StreamPtr prepare_text(const std::string& path, const Recipe& recipe,
                             const PrepareOptions& options, data::BadLines& bad,
                             comm::Communicator& host);

}  // namespace fm::prepare
