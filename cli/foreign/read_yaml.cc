#include "cli/foreign/read_yaml.h"

#include <yaml.h>

#include <algorithm>
#include <map>
#include <regex>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::JsonKind;
using core::JsonTree;

constexpr int kMostNodes = 100'000;  // anchors that name anchors grow without end

class YamlEvent {
 public:
  YamlEvent() = default;
  ~YamlEvent() { yaml_event_delete(&event_); }
  YamlEvent(const YamlEvent&) = delete;
  YamlEvent& operator=(const YamlEvent&) = delete;
  yaml_event_t* get() { return &event_; }
  const yaml_event_t* operator->() const { return &event_; }

 private:
  yaml_event_t event_ = {};
};

std::string text_of(const yaml_char_t* text) {
  return text == nullptr ? "" : std::string(reinterpret_cast<const char*>(text));
}

bool matches(const std::string& text, const char* pattern) {
  constexpr std::size_t kLongest = 64;  // std::regex takes a stack frame for each letter
  return text.size() <= kLongest && std::regex_match(text, std::regex(pattern));
}

// PyYAML's patterns (resolver.py) and its numbers (constructor.py).

bool is_bool(const std::string& text) {
  return matches(text,
                 "yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF");
}

bool is_float(const std::string& text) {
  return matches(
      text, R"([-+]?([0-9][0-9_]*)\.[0-9_]*([eE][-+][0-9]+)?|\.[0-9][0-9_]*([eE][-+][0-9]+)?)");
}

bool is_integer(const std::string& text) {
  return matches(text,
                 "[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
                 "|[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+");
}

// Decimal, or the text where it is beyond 64 bits.
std::string integer_text(const std::string& text) {
  std::string digits = text;
  std::erase(digits, '_');
  const bool minus = digits.starts_with('-');
  if (digits.starts_with('-') || digits.starts_with('+')) digits.erase(0, 1);
  if (digits.size() > 18) return text;
  long long value = 0;
  if (digits.starts_with("0b")) {
    for (const char digit : digits.substr(2)) value = value * 2 + (digit - '0');
  } else if (digits.find(':') != std::string::npos) {
    for (const std::string& part : core::split(digits, ':')) value = value * 60 + std::stoll(part);
  } else {
    value = std::stoll("0" + digits.substr(digits.starts_with("0x") ? 2 : 0), nullptr,
                       digits.starts_with("0x")  ? 16
                       : digits.starts_with('0') ? 8
                                                 : 10);
  }
  return std::to_string(minus ? -value : value);
}

JsonTree plain_scalar(const std::string& text) {
  JsonTree value;
  value.text = text;
  if (matches(text, "~|null|Null|NULL|")) return value;
  value.kind = JsonKind::kString;
  if (is_bool(text)) {
    const std::string word = core::lower(text);
    value.kind = JsonKind::kBool;
    value.boolean = word == "yes" || word == "true" || word == "on";
  } else if (is_integer(text)) {
    value.kind = JsonKind::kNumber;
    value.text = integer_text(text);
  } else if (is_float(text)) {
    value.kind = JsonKind::kNumber;
  }
  if (value.kind == JsonKind::kNumber) value.number = core::number_of(value.text).value_or(0.0);
  return value;
}

class YamlReader {
 public:
  YamlReader(const std::string& text, const std::string& name) : name_(name) {
    FM_MACHINE_CHECK(yaml_parser_initialize(&parser_) == 1, core::ExitCode::kOutOfMemory,
                     "memory is required for a YAML file; free some (", name, ")");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~YamlReader() { yaml_parser_delete(&parser_); }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  JsonTree document() {
    expect(YAML_STREAM_START_EVENT);
    YamlEvent start;
    next(start);
    if (start->type == YAML_STREAM_END_EVENT) return {};
    JsonTree root = value(0);
    expect(YAML_DOCUMENT_END_EVENT);
    YamlEvent end;
    next(end);
    require(end->type == YAML_STREAM_END_EVENT, line_of(end),
            "one document is required; remove what follows '---'");
    return root;
  }

 private:
  static int line_of(YamlEvent& event) { return static_cast<int>(event->start_mark.line) + 1; }

  void require(bool good, int line, const std::string& what) const {
    FM_USER_CHECK(good, name_, ":", line, ": ", what);
  }

  void next(YamlEvent& event) {
    if (yaml_parser_parse(&parser_, event.get()) == 1) return;
    require(false, static_cast<int>(parser_.problem_mark.line) + 1,
            core::concat("YAML is required (",
                         parser_.problem == nullptr ? "no text" : parser_.problem, ")"));
  }

  void expect(yaml_event_type_t type) {
    YamlEvent event;
    next(event);
    FM_CHECK(event->type == type, "libyaml's events have another order");
  }

  JsonTree value(std::size_t depth) {
    YamlEvent event;
    next(event);
    return value(event, depth);
  }

  // What begins with `event`.
  JsonTree value(YamlEvent& event, std::size_t depth) {
    const int line = line_of(event);
    require(depth < core::kMostTreeDepth && ++nodes_ < kMostNodes, line,
            "the file nests too deep or has too many values; make it smaller");
    JsonTree read;
    std::string anchor;
    switch (event->type) {
      case YAML_ALIAS_EVENT: return anchored(text_of(event->data.alias.anchor), line);
      case YAML_SCALAR_EVENT:
        anchor = text_of(event->data.scalar.anchor);
        check_tag(event->data.scalar.tag, line);
        read = scalar(event);
        break;
      case YAML_SEQUENCE_START_EVENT:
        anchor = text_of(event->data.sequence_start.anchor);
        check_tag(event->data.sequence_start.tag, line);
        read = sequence(depth);
        break;
      case YAML_MAPPING_START_EVENT:
        anchor = text_of(event->data.mapping_start.anchor);
        check_tag(event->data.mapping_start.tag, line);
        read = mapping(depth);
        break;
      default: FM_CHECK(false, "libyaml gives no other event for a value");  // its enum has all
    }
    read.line = line;
    if (!anchor.empty()) anchors_[anchor] = read;
    return read;
  }

  void check_tag(const yaml_char_t* tag, int line) const {
    require(tag == nullptr, line, core::concat("tags are not understood; remove ", text_of(tag)));
  }

  static JsonTree scalar(YamlEvent& event) {
    const std::string text(reinterpret_cast<const char*>(event->data.scalar.value),
                           event->data.scalar.length);
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) return plain_scalar(text);
    JsonTree value;
    value.kind = JsonKind::kString;
    value.text = text;
    return value;
  }

  JsonTree sequence(std::size_t depth) {
    JsonTree list;
    list.kind = JsonKind::kArray;
    for (;;) {
      YamlEvent event;
      next(event);
      if (event->type == YAML_SEQUENCE_END_EVENT) return list;
      list.items.push_back(value(event, depth + 1));
    }
  }

  JsonTree mapping(std::size_t depth) {
    JsonTree object;
    object.kind = JsonKind::kObject;
    for (;;) {
      YamlEvent event;
      next(event);
      if (event->type == YAML_MAPPING_END_EVENT) return object;
      const int line = line_of(event);
      require(event->type == YAML_SCALAR_EVENT, line, "a key must be a text; correct it");
      const std::string key = text_of(event->data.scalar.value);
      require(key != "<<", line, "merged maps (<<) are not understood; write the keys out");
      require(object.member(key) == nullptr, line,
              core::concat("the key ", key, " stands here for the second time; keep one"));
      JsonTree member = value(depth + 1);
      member.line = line;
      object.members.push_back({key, std::move(member)});
    }
  }

  JsonTree anchored(const std::string& anchor, int line) {
    const auto found = anchors_.find(anchor);
    require(found != anchors_.end(), line,
            core::concat("the anchor &", anchor, " is required before *", anchor));
    nodes_ += count(found->second);
    require(nodes_ < kMostNodes, line, "the file has too many values; make it smaller");
    return found->second;
  }

  static int count(const JsonTree& value) {
    int nodes = 1;
    for (const JsonTree& item : value.items) nodes += count(item);
    for (const JsonTree::Member& member : value.members) nodes += count(member.value);
    return nodes;
  }

  yaml_parser_t parser_ = {};
  std::string name_;
  int nodes_ = 0;
  std::map<std::string, JsonTree> anchors_;
};

}  // namespace

JsonTree read_yaml(const std::string& text, const std::string& name) {
  return YamlReader(text, name).document();
}

}  // namespace fm::cli
