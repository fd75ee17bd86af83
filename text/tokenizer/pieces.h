// A text on its way from normaliser to model: cut into pieces by steps.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/unicode/regex.h"

namespace fm::tokenizer {

struct Piece {
  std::string_view text;
  bool at_start = false;  // it begins where the whole input begins
};

// Thread: one. It is used again from text to text, so that nothing is allocated per word.
class Pieces {
 public:
  void start(std::string_view text, bool at_start) {
    texts_used_ = 0;
    now.assign(1, {text, at_start});
  }
  // Text that lives until the next start().
  std::string& new_text() {
    if (texts_used_ == texts_.size()) texts_.emplace_back();
    std::string& text = texts_[texts_used_++];
    text.clear();
    return text;
  }
  void add(std::string_view text, bool at_start) {
    if (!text.empty()) next.push_back({text, at_start});
  }
  // What was added becomes the pieces of the next step.
  void finish_step() {
    now.swap(next);
    next.clear();
  }

  std::vector<Piece> now;
  std::vector<Piece> next;
  std::vector<Match> matches;  // of one piece

 private:
  std::deque<std::string> texts_;  // never moves what it holds
  std::size_t texts_used_ = 0;
};

// Reads pieces.now, and leaves what it makes of them there.
using SplitStep = std::function<void(Pieces& pieces)>;

}  // namespace fm::tokenizer
