// Regular expressions as Hugging Face's tokenizers run them: Oniguruma with Ruby's syntax.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fm::tokenizer {

struct Match {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool matches = false;  // false: what stands between two matches
};

// Thread: any, after it was made.
class Regex {
 public:
  // Throws UserError (11) with `where` when `pattern` is none, or longer than 10,000 bytes.
  Regex(const std::string& pattern, const std::string& where);
  // Throws UserError (11) with `where` where the pattern needs too much time or memory. Appends
  // parts that cover `text` without a gap, in order; none of a text without characters.
  void find_all(std::string_view text, std::vector<Match>& found) const;

 private:
  struct Compiled;
  class Search;
  std::shared_ptr<const Compiled> compiled_;
  std::string where_;
};

// `pattern` with every \p{..} widened by the characters that came after Unicode 14, where
// Debian 12's Oniguruma stops.
std::string with_new_characters(const std::string& pattern);

}  // namespace fm::tokenizer
