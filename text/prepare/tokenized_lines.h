// Lines of JSONL text as token ids.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/data/documents.h"

namespace fm::prepare {

struct BadLine {
  std::int64_t line = 0;  // from 0
  std::string problem;
};

// What an id is to predict instead of itself.
struct OtherLabel {
  std::int64_t place = 0;  // of the id, from 0
  std::int64_t label = 0;
};

struct TokenizedLines {
  std::vector<std::int32_t> ids;      // of all documents, one behind the other
  std::vector<std::int32_t> lengths;  // ids of each document
  std::vector<std::uint8_t> counted;  // 0: the loss does not count this id; empty: it counts all
  std::vector<OtherLabel> labels;  // of ids whose label is neither the id nor kIgnored; ascending
  std::vector<BadLine> bad;
  std::int64_t lines = 0;
  data::UnusedFields unused;
};

// Makes the documents of one line, several where a conversation is trained in several forms.
// Returns what is wrong with the line, or "". Called by several threads at once.
using ReadLine = std::function<std::string(std::string_view, std::vector<data::Document>&)>;

// Lines end with \n or \r\n; blank ones are skipped.
TokenizedLines tokenize_lines(std::string_view text, const ReadLine& read_line);

}  // namespace fm::prepare
