#include "tests/tidy/laws.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace fm::tidy {

namespace {

std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }

bool is_any(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool has_any(std::span<const Token> tokens, std::initializer_list<std::string_view> words) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const Token& token) { return is_any(token.text, words); });
}

// UTF-8 code points.
int columns_of(std::string_view line) {
  return static_cast<int>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// "OptimizerBase" -> optimizer, base; "file_utils" -> file, utils.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if ((c == '_' || upper) && !words.back().empty()) words.emplace_back();
    if (c != '_') words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return words;
}

bool says_nothing(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  return std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return is_any(word, {"util", "utils", "helper", "helpers", "common", "manager", "base"});
  });
}

bool is_torch_header(const Include& include) {
  return include.file.starts_with("torch/") || include.file.starts_with("ATen/") ||
         include.file.starts_with("c10/");
}

std::span<const Token> tokens_of(const Source& source, const Declaration& declaration) {
  return std::span(source.tokens).subspan(declaration.begin, declaration.end - declaration.begin);
}

// A variable at namespace scope, or a static member, that can change.
bool is_mutable_variable(std::span<const Token> declaration, bool at_namespace) {
  if (declaration.size() < 2) return false;
  if (has_any(declaration, {"using", "typedef", "namespace", "template", "class", "struct", "enum",
                            "union", "friend", "static_assert", "concept", "operator", "const",
                            "constexpr", "consteval"})) {
    return false;
  }
  const auto open = std::find_if(declaration.begin(), declaration.end(), [](const Token& token) {
    return is_any(token.text, {"(", "="});
  });
  if (open != declaration.end() && open->is("(")) return false;  // a function
  return at_namespace || has_any(declaration, {"static", "thread_local"});
}

// True when only namespaces are open at token `end`.
bool at_namespace(const Source& source, std::size_t end) {
  std::vector<bool> open;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const Token& token = source.tokens[i];
    if (token.is("{")) {
      open.push_back(has_any(std::span(source.tokens).subspan(begin, i - begin), {"namespace"}));
    }
    if (token.is("}") && !open.empty()) open.pop_back();
    if (is_any(token.text, {"{", "}", ";"})) begin = i + 1;
  }
  return std::all_of(open.begin(), open.end(), [](bool is_namespace) { return is_namespace; });
}

bool declares_state(const Source& source, std::size_t at) {
  std::size_t end = at;
  while (end < source.tokens.size() && !is_any(source.tokens[end].text, {";", "{", "("})) ++end;
  const auto words = std::span(source.tokens).subspan(at, end - at);
  return !has_any(words, {"const", "constexpr"});
}

// `name(`, `std::name(` or `::name(`, but no member and no declaration.
bool is_free_call(const Source& source, std::size_t at) {
  const Token& before = source.tokens[at - 1];
  if (!before.is("::")) return is_any(before.text, {";", "{", "}", ")", "(", "return"});
  return at < 2 || is_any(source.tokens[at - 2].text, {"std", ";", "{", "}", ")", "("});
}

}  // namespace

namespace {

using Matrix = std::map<std::string, std::set<std::string>>;

// Whether the file of `source` may include `file` of another folder, or of its own.
bool may_include(const Source& source, std::string_view file, const Limits& limits) {
  const Matrix& matrix = limits.may_include;
  const std::string folder(file.substr(0, file.find('/')));
  const std::string wing = wing_of(file);
  if (folder != source.folder()) {
    const auto face = limits.faces.find(folder);
    const bool shown =
        wing == folder || face == limits.faces.end() || face->second.contains(std::string(file));
    return shown && matrix.at(source.folder()).contains(folder);
  }
  return wing == source.wing() || wing == folder || matrix.at(source.wing()).contains(wing);
}

// Puts what leads from `at` back to a name in `path` into `path`; whether something does.
bool finds_circle(const Matrix& matrix, const std::string& at, std::set<std::string>& free,
                  std::vector<std::string>& path) {
  const auto seen = std::find(path.begin(), path.end(), at);
  if (seen != path.end()) {
    path.erase(path.begin(), seen);
    return true;
  }
  const auto row = matrix.find(at);
  if (free.contains(at) || row == matrix.end()) return false;
  path.push_back(at);
  for (const std::string& next : row->second) {
    if (finds_circle(matrix, next, free, path)) return true;
  }
  path.pop_back();
  free.insert(at);
  return false;
}

}  // namespace

std::vector<std::string> circle_in(const Matrix& matrix) {
  std::set<std::string> free;
  std::vector<std::string> path;
  for (const auto& [name, unused] : matrix) {
    if (finds_circle(matrix, name, free, path)) return path;
  }
  return {};
}

Findings include_matrix(const Source& source, const Limits& limits) {
  Findings found;
  if (source.is_test()) return found;
  for (const std::string& name : {source.folder(), source.wing()}) {
    if (!limits.may_include.contains(name)) return {{1, name + " is not in the include matrix"}};
  }
  for (const Include& include : source.includes) {
    if (!include.quoted || may_include(source, include.file, limits)) continue;
    found.push_back({include.line, source.wing() + " may not include " + quote(include.file)});
  }
  return found;
}

Findings torch_free(const Source& source, const Limits& limits) {
  Findings found;
  for (const Include& include : source.includes) {
    if (include.file == "torch/torch.h")
      found.push_back({include.line, "torch/torch.h is never included"});
  }
  if (source.is_test() || limits.may_name_torch.contains(source.path)) return found;
  for (const Include& include : source.includes) {
    if (is_torch_header(include)) found.push_back({include.line, "this file is torch-free"});
  }
  for (std::size_t i = 0; i + 1 < source.tokens.size(); ++i) {
    if (source.tokens[i + 1].is("::") &&
        is_any(source.tokens[i].text, {"at", "torch", "c10", "c10d"})) {
      found.push_back({source.tokens[i].line, "this file is torch-free"});
    }
  }
  return found;
}

Findings libraries_stay_in_sources(const Source& source, const Limits& limits) {
  Findings found;
  if (!source.is_header() || limits.stand_for_libraries.contains(source.path)) return found;
  for (const Include& include : source.includes) {
    for (const std::string& prefix : limits.library_prefixes) {
      if (include.file.starts_with(prefix)) {
        found.push_back({include.line, "headers do not include " + quote(include.file)});
      }
    }
  }
  if (std::none_of(source.directives.begin(), source.directives.end(),
                   [](const Directive& d) { return d.text.starts_with("#pragma once"); })) {
    found.push_back({1, "a header has #pragma once"});
  }
  return found;
}

Findings lengths(const Source& source, const Limits& limits) {
  Findings found;
  const int lines = static_cast<int>(source.lines.size());
  const int most = source.is_header() ? limits.header_lines : limits.source_lines;
  if (lines > most) {
    found.push_back({lines, "file has at most " + std::to_string(most) + " lines"});
  }
  for (int i = 0; i < lines; ++i) {
    if (columns_of(source.lines[static_cast<std::size_t>(i)]) > limits.columns) {
      found.push_back({i + 1, "line has at most " + std::to_string(limits.columns) + " columns"});
    }
  }
  for (const Function& function : source.functions) {
    const int length = function.last_line - function.first_line + 1;
    if (length > limits.function_lines) {
      found.push_back({function.first_line, "function has at most " +
                                                std::to_string(limits.function_lines) +
                                                " lines, not " + std::to_string(length)});
    }
  }
  return found;
}

Findings telling_names(const Source& source, const Limits&) {
  Findings found;
  if (says_nothing(source.stem())) found.push_back({1, "file name says nothing"});
  for (std::size_t i = 0; i + 1 < source.tokens.size(); ++i) {
    if (!is_any(source.tokens[i].text, {"class", "struct", "enum", "union"})) continue;
    if (says_nothing(source.tokens[i + 1].text)) {
      found.push_back({source.tokens[i].line,
                       "type name " + quote(source.tokens[i + 1].text) + " says nothing"});
    }
  }
  return found;
}

Findings one_namespace(const Source& source, const Limits& limits) {
  Findings found;
  if (source.is_test()) return found;
  bool seen = false;
  const std::string owner = limits.halls.contains(source.folder())
                                ? source.wing().substr(source.wing().find('/') + 1)
                                : source.folder();
  const std::string own = "fm::" + owner;
  for (std::size_t i = 0; i + 1 < source.tokens.size(); ++i) {
    if (!source.tokens[i].is("namespace") || source.tokens[i + 1].is("{")) continue;
    std::string name;
    std::size_t at = i + 1;
    while (at < source.tokens.size() && !is_any(source.tokens[at].text, {"{", ";", "="})) {
      name += source.tokens[at++].text;
    }
    if (at >= source.tokens.size() || !source.tokens[at].is("{")) continue;
    const bool inside = name == own || name.starts_with(own + "::");
    seen = seen || inside;
    if (!inside) {
      found.push_back({source.tokens[i].line, "the namespace is " + own});
    }
  }
  if (!seen && !source.has_main()) found.push_back({1, "no namespace " + own});
  return found;
}

Findings no_mutable_globals(const Source& source, const Limits& limits) {
  Findings found;
  if (source.is_test() || limits.may_have_state.contains(source.path)) return found;
  for (const Declaration& declaration : source.declarations) {
    const auto tokens = tokens_of(source, declaration);
    if (tokens.empty()) continue;
    if (is_mutable_variable(tokens, at_namespace(source, declaration.begin))) {
      found.push_back({tokens.front().line, "no mutable globals"});
    }
  }
  for (std::size_t i = 0; i < source.tokens.size(); ++i) {
    if (is_any(source.tokens[i].text, {"static", "thread_local"}) &&
        source.inside_function(source.tokens[i].line) && declares_state(source, i)) {
      found.push_back({source.tokens[i].line, "no mutable state inside functions"});
    }
  }
  return found;
}

Findings no_default_label(const Source& source, const Limits&) {
  Findings found;
  for (std::size_t i = 0; i + 1 < source.tokens.size(); ++i) {
    const int line = source.tokens[i].line;
    if (!source.tokens[i].is("default") || !source.tokens[i + 1].is(":")) continue;
    const bool explained =
        source.lines[static_cast<std::size_t>(line - 1)].find("//") != std::string_view::npos;
    if (!explained) {
      found.push_back(
          {line, "a switch over an enum has no default; elsewhere say why (default: // ...)"});
    }
  }
  return found;
}

Findings qualified_stage(const Source& source, const Limits&) {
  Findings found;
  for (const Token& token : source.tokens) {
    if (is_any(token.text, {"stage", "stage_", "Stage"})) {
      found.push_back({token.line, "say zero_stage or pipe_stage, not " + quote(token.text)});
    }
  }
  return found;
}

Findings only_main_ends(const Source& source, const Limits& limits) {
  Findings found;
  if (source.is_test() || source.has_main() || limits.may_end_process.contains(source.path)) {
    return found;
  }
  for (std::size_t i = 1; i + 1 < source.tokens.size(); ++i) {
    if (!source.tokens[i + 1].is("(")) continue;
    const std::string_view name = source.tokens[i].text;
    if (is_any(name, {"exit", "_exit", "_Exit", "abort", "quick_exit", "terminate"}) &&
        is_free_call(source, i)) {
      found.push_back({source.tokens[i].line, "only main ends the process"});
    }
    if (name == "assert") found.push_back({source.tokens[i].line, "use FM_CHECK, not assert"});
  }
  return found;
}

Findings kernels_take_work(const Source& source, const Limits& limits) {
  Findings found;
  if (!limits.declare_kernels.contains(source.path)) return found;
  const std::vector<Token>& tokens = source.tokens;
  for (std::size_t i = 0; i + 6 < tokens.size(); ++i) {
    if (!tokens[i].is("void") || !tokens[i + 2].is("(")) continue;
    const std::size_t type = tokens[i + 3].is("const") ? i + 4 : i + 3;
    if (tokens[type].is("core") && tokens[type + 2].is("Work")) continue;
    found.push_back({tokens[i].line, quote(tokens[i + 1].text) + " takes a core::Work first"});
  }
  return found;
}

Findings no_family(const Source& source, const Limits& limits) {
  Findings found;
  const auto& without = limits.know_no_family;
  if (!without.contains(source.folder()) && !without.contains(source.wing())) return found;
  const auto check = [&](std::string_view name, int line) {
    const std::vector<std::string> words = words_of(name);
    for (const std::string& family : limits.families) {
      if (std::find(words.begin(), words.end(), family) == words.end()) continue;
      found.push_back({line, quote(name) + " belongs to a family: see model/opened_model.h"});
    }
  };
  for (const Token& token : source.tokens) check(token.text, token.line);
  for (const Include& include : source.includes) {
    check(include.file.substr(include.file.rfind('/') + 1), include.line);
  }
  return found;
}

Findings no_directives_in_bodies(const Source& source, const Limits&) {
  Findings found;
  if (source.is_test()) return found;
  for (const Directive& directive : source.directives) {
    if (directive.text.starts_with("#if") && source.inside_function(directive.line)) {
      found.push_back(
          {directive.line, "list a twin file in CMake instead of " + quote(directive.text)});
    }
  }
  return found;
}

}  // namespace fm::tidy
