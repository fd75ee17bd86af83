// One source file as the laws see it: lines, tokens without comments, directives, functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fm::tidy {

// "kernels/gemm" of "kernels/gemm/gemm.h", "core" of "core/text.h".
std::string wing_of(std::string_view path);

struct Token {
  std::string_view text;  // an identifier or number, "::", "\"" for any literal, or one character
  int line = 0;           // 1-based
  bool is(std::string_view other) const { return text == other; }
};

struct Directive {
  std::string_view text;  // from '#', continuation lines included
  int line = 0;
};

// What an #include names, e.g. {"core/types.h", quoted} or {"vector", not quoted}.
struct Include {
  std::string_view file;
  bool quoted = false;
  int line = 0;
};

// Tokens [begin, end) of a statement at namespace or class scope that ended with ';'.
struct Declaration {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Function {  // with a body; lines from the first of the signature to the closing brace
  int first_line = 0;
  int last_line = 0;
};

// Invariant: every view points into `text`, so a Source is neither copied nor moved.
struct Source {
  Source(std::string path_in, std::string text_in);
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::string folder() const;  // the first part of the path
  std::string wing() const;    // "folder/wing"; of a file at the top of its folder the folder
  std::string stem() const;
  bool is_header() const;
  bool is_test() const;  // tests and benchmarks may do what sources may not
  bool has_main() const;
  bool inside_function(int line) const;

  std::string path;  // relative to the root of the repository, with '/'
  std::string text;
  std::vector<std::string_view> lines;
  std::vector<Token> tokens;
  std::vector<Directive> directives;
  std::vector<Include> includes;
  std::vector<Function> functions;
  std::vector<Declaration> declarations;
};

}  // namespace fm::tidy
