// What the columns of rows mean, where they have other names than those that docs/text.md lists.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace fm::data {

class Columns {
 public:
  // Takes "question=prompt", or several with commas between them. Throws UserError (10) for words
  // that are no such pairs, and for a column that is there twice.
  void add(std::string_view words);

  bool empty() const { return meanings_.empty(); }
  bool has_meaning(std::string_view meaning) const;
  // The name itself where nothing was said of the column.
  std::string_view meaning_of(std::string_view column) const;
  // What is wrong with a row that has these columns, or "". It must have one of the columns that
  // have a meaning, or a column of that name.
  std::string check(std::span<const std::string> columns) const;
  // "answer=completion,question=prompt", in the order of the names.
  std::string words() const;

 private:
  std::map<std::string, std::string, std::less<>> meanings_;  // by column
};

// What of a text file is a document: the words of Hugging Face's datasets.
enum class SampleBy : std::uint8_t { kLine, kParagraph, kDocument };

// How files of rows are read.
struct RowOptions {
  Columns columns = {};
  std::optional<SampleBy> sample_by = {};  // of .txt files; kLine where none was given
};

}  // namespace fm::data
