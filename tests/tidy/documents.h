// The laws of Markdown: short lines, short paragraphs, and nothing named that is not there.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/tidy/laws.h"

namespace fm::tidy {

struct DocumentLimits {
  int columns = 0;          // characters, in tables and code blocks too
  int paragraph_words = 0;  // an item of a list is a paragraph
};

// A line that is one word, such as a URL, may be longer.
Findings document_lengths(const std::string& text, const DocumentLimits& limits);

// Paths in backticks (`core/check.h`, `pipeline/instruction.{h,cc}`, `kernels/`) and targets of
// links that do not exist. What a build or a run makes (`made`: first folders) is not looked for.
// `exists` is asked for paths as they are written.
using Exists = std::function<bool(const std::string& path)>;
Findings named_paths(const std::string& text, const std::set<std::string>& made,
                     const Exists& exists);

// A document that a source refers to, with its section: FILE.md, or FILE.md, "Section".
struct Citation {
  int line = 0;
  std::string document;
  std::string section;  // "": the whole document
};
std::vector<Citation> cited_documents(const std::string& text);

// Whether `text` has a heading with exactly these words.
bool has_heading(const std::string& text, const std::string& words);

}  // namespace fm::tidy
