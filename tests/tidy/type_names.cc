#include "tests/tidy/type_names.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <span>
#include <string_view>

namespace fm::tidy {

namespace {

using Tokens = std::span<const Token>;

// What a brace opens: a namespace or a type, by its name; or anything else.
struct Scope {
  std::string name;
  bool is_type = false;
};

bool is_name(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  return std::isalpha(first) != 0 || first == '_';
}

// The index after the bracket that closes the one at `open`; the end where none does.
std::size_t past_closing(Tokens tokens, std::size_t open, std::string_view opens,
                         std::string_view closes) {
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i].is(opens)) ++depth;
    if (tokens[i].is(closes) && --depth == 0) return i + 1;
  }
  return tokens.size();
}

bool is_type_keyword(const Token& token) {
  return token.is("class") || token.is("struct") || token.is("union") || token.is("enum");
}

// The type that begins at the keyword `head[at]`: "Block::Kept" of `struct Block<T>::Kept`. The
// name of a specialisation, `struct Hash<Key>`, is empty. Null for a variable or function of such a
// type.
std::optional<std::string> type_name(Tokens head, std::size_t at) {
  std::string name;
  bool specialised = false;
  std::size_t i = at + 1;
  while (i < head.size()) {
    if (is_type_keyword(head[i])) {  // enum class
      ++i;
    } else if (head[i].is("alignas")) {
      i = past_closing(head, i + 1, "(", ")");
    } else if (head[i].is("[")) {
      i = past_closing(head, i, "[", "]");
    } else if (head[i].is("<")) {
      i = past_closing(head, i, "<", ">");
      specialised = true;
    } else if (head[i].is("::")) {
      name += head[i++].text;
      specialised = false;
    } else if (is_name(head[i].text) && (name.empty() || name.ends_with("::"))) {
      name += head[i++].text;
    } else {
      break;
    }
  }
  if (i < head.size() && !head[i].is(":") && !head[i].is("final")) return std::nullopt;
  return specialised ? "" : name;
}

// The scope that the brace after `head` opens.
std::optional<Scope> scope_of(Tokens head, const std::string& path) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i].is("namespace")) {
      std::string name;
      for (const Token& token : head.subspan(i + 1)) name += token.text;
      return Scope{name.empty() ? "(" + path + ")" : name, false};
    }
    if (head[i].is("template") && i + 1 < head.size() && head[i + 1].is("<")) {
      i = past_closing(head, i + 1, "<", ">") - 1;
    } else if (head[i].is("(") || head[i].is("=")) {
      return std::nullopt;
    } else if (is_type_keyword(head[i])) {
      const std::optional<std::string> name = type_name(head, i);
      return name ? std::optional(Scope{*name, true}) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string joined(const std::vector<std::optional<Scope>>& open) {
  std::string name;
  for (const std::optional<Scope>& scope : open) {
    name += (name.empty() || scope->name.empty() ? "" : "::") + scope->name;
  }
  return name;
}

}  // namespace

std::vector<TypeDefinition> types_in(const Source& source) {
  std::vector<TypeDefinition> types;
  std::vector<std::optional<Scope>> open;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < source.tokens.size(); ++i) {
    const Token& token = source.tokens[i];
    if (token.is("{")) {
      open.push_back(scope_of(Tokens(source.tokens).subspan(begin, i - begin), source.path));
      const bool counts = std::ranges::all_of(open, [](const auto& scope) { return bool(scope); });
      if (counts && open.back()->is_type && !open.back()->name.empty()) {
        const std::string& name = open.back()->name;
        const std::size_t last = name.rfind("::");
        types.push_back({last == name.npos ? name : name.substr(last + 2), joined(open)});
      }
    }
    if (token.is("}") && !open.empty()) open.pop_back();
    if (token.is("{") || token.is("}") || token.is(";")) begin = i + 1;
  }
  return types;
}

Things shared_names(const Things& things, std::size_t most) {
  Things shared;
  for (const auto& [name, meanings] : things) {
    if (meanings.size() > most) shared[name] = meanings;
  }
  return shared;
}

}  // namespace fm::tidy
