#include "core/json_edit.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "core/text.h"

namespace fm::core {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Bytes [begin, end) of a text.
struct TextSpan {
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct MemberPlace {
  std::string_view name;  // as it is written, without its quotes
  TextSpan name_and_value;
  TextSpan value;
};

// Behind the string that begins at `at`.
std::size_t string_end(std::string_view text, std::size_t at) {
  for (++at; text.at(at) != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

// Behind the value that begins at `at`.
std::size_t value_end(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  int depth = 0;
  while (true) {
    const char c = text.at(at);
    if (c == '"') {
      at = string_end(text, at);
      if (depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    const bool closes = c == '}' || c == ']';
    if (depth == 0 && (closes || c == ',' || kSpace.find(c) != kSpace.npos)) return at;
    if (closes && --depth == 0) return at + 1;
    ++at;
    FM_CHECK(at <= text.size() && at > begin, "no JSON value ends");
  }
}

class ObjectText {
 public:
  explicit ObjectText(std::string_view text) : text_(text) {
    std::size_t at = text.find('{');
    FM_CHECK(at != text.npos, "a JSON object is required");
    begin_ = ++at;
    for (at = behind_space(at); text.at(at) != '}'; at = behind_space(at)) {
      if (text[at] == ',') {
        ++at;
        continue;
      }
      const std::size_t name_end = string_end(text, at);
      const std::size_t colon = behind_space(name_end);
      FM_CHECK(text.at(colon) == ':', "a JSON object is required");
      const std::size_t value = behind_space(colon + 1);
      const std::size_t end = value_end(text, value);
      members_.push_back({text.substr(at + 1, name_end - at - 2), {at, end}, {value, end}});
      at = end;
    }
    end_ = at;
  }

  const MemberPlace* find(std::string_view name) const {
    const MemberPlace* found = nullptr;
    const std::string quoted = json_string(name);
    for (const MemberPlace& member : members_) {
      if (concat('"', member.name, '"') == quoted) found = &member;
    }
    return found;
  }
  std::string replaced(TextSpan range, std::string_view by) const {
    return concat(text_.substr(0, range.begin), by, text_.substr(range.end));
  }
  // One more member, as far from the margin as the first one.
  std::string extended(const std::string& member) const {
    if (members_.empty()) return replaced({begin_, end_}, member);
    const std::size_t last = members_.back().value.end;
    const std::string_view before = text_.substr(begin_, members_[0].name_and_value.begin - begin_);
    return replaced({last, last}, concat(",", before.empty() ? " " : before, member));
  }
  // Without a member and the comma on one side of it.
  std::string reduced(const MemberPlace& member) const {
    const auto index = static_cast<std::size_t>(&member - members_.data());
    const bool last = index + 1 == members_.size();
    if (!last) {
      return replaced({member.name_and_value.begin, members_[index + 1].name_and_value.begin}, "");
    }
    const std::size_t from = index == 0 ? begin_ : members_[index - 1].value.end;
    return replaced({from, member.value.end}, "");
  }

 private:
  std::size_t behind_space(std::size_t at) const {
    const std::size_t found = text_.find_first_not_of(kSpace, at);
    FM_CHECK(found != text_.npos, "a JSON object ends");
    return found;
  }

  std::string_view text_;
  std::size_t begin_ = 0;  // behind the bracket
  std::size_t end_ = 0;    // of the closing one
  std::vector<MemberPlace> members_;
};

}  // namespace

std::string with_member(std::string_view object, std::string_view key, std::string_view value) {
  const ObjectText text(object);
  if (const MemberPlace* member = text.find(key)) return text.replaced(member->value, value);
  return text.extended(concat(json_string(key), ": ", value));
}

std::string without_member(std::string_view object, std::string_view key) {
  const ObjectText text(object);
  const MemberPlace* const member = text.find(key);
  return member == nullptr ? std::string(object) : text.reduced(*member);
}

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

}  // namespace fm::core
