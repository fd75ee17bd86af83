// A part of a file of rows as tokens, by several threads, in memory that does not grow with it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "text/prepare/line_batches.h"
#include "text/prepare/tokenized_lines.h"

namespace fm::prepare {

// Invariant: what the sink has got is the documents of the part's first lines, in order.
// Thread:    one; its helpers end before a call returns.
// Lifetime:  `read_line` and what it refers to outlive it.
class FileTokenizer {
 public:
  using Sink = std::function<void(const TokenizedLines&)>;

  // Throws UserError (11) naming the file when it cannot be read.
  FileTokenizer(const FilePart& part, const ReadLine& read_line, int threads);

  // Works until `end`, and stops early where more than `allowed` lines are bad. Throws UserError
  // (11) for a line that is too long, MachineError (25) where memory does not suffice.
  void work(std::int64_t allowed, std::chrono::steady_clock::time_point end, const Sink& sink);

  bool done() const { return done_; }
  std::int64_t bytes() const { return bytes_; }  // of text
  std::int64_t bad_lines() const { return bad_lines_; }
  const data::UnusedFields& unused() const { return unused_; }
  // "file:line: what is wrong" of the first bad line; "" where there is none.
  std::string first_bad() const;

 private:
  std::vector<TokenizedLines> tokenize_batches();
  void count(const TokenizedLines& lines);

  std::string path_;
  const ReadLine& read_line_;
  int threads_;
  LineBatches batches_;
  bool done_ = false;
  std::int64_t bytes_ = 0;
  std::int64_t lines_ = 0;
  std::int64_t bad_lines_ = 0;
  BadLine first_bad_;
  data::UnusedFields unused_;
};

// Adds bad lines of one more file. Throws UserError (11) for one too many: `first` is the file's
// first one.
void count_bad(std::int64_t found, const std::string& first, data::BadLines& bad);

}  // namespace fm::prepare
