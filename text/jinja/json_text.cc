#include "text/jinja/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "core/json_tree.h"
#include "text/jinja/code_points.h"

namespace fm::jinja {
namespace {

using core::JsonKind;

constexpr std::size_t kFewEntries = 32;  // set_entry looks at all of them for each

// Of entries with one name the last one's value at the first one's place.
Entries once_each(Entries&& entries) {
  Entries kept;
  kept.reserve(entries.size());  // the names stay where they are
  std::unordered_map<std::string_view, std::size_t> places;
  for (auto& [name, value] : entries) {
    const auto known = places.find(name);
    if (known == places.end()) {
      kept.emplace_back(std::move(name), std::move(value));
      places.emplace(kept.back().first, kept.size() - 1);
    } else {
      kept[known->second].second = std::move(value);
    }
  }
  return kept;
}

// Builds values from the reader's events: open containers are a stack.
class ValueVisitor final : public core::JsonVisitor {
 public:
  explicit ValueVisitor(LargeIntegers large) : large_(large) {}

  bool scalar(core::JsonScalar& value) override {
    switch (value.kind) {
      case JsonKind::kNull: return put(None{});
      case JsonKind::kBool: return put(value.boolean);
      case JsonKind::kNumber: return put(number_of(value));
      case JsonKind::kString: return put(std::move(*value.text));
      case JsonKind::kArray:
      case JsonKind::kObject: break;
    }
    return false;
  }
  bool open(JsonKind kind) override {
    if (depth() >= kMostNesting)
      return refuse(core::concat("lists and dicts may nest ", kMostNesting, " deep"));
    open_.emplace_back().is_dict = kind == JsonKind::kObject;
    return true;
  }
  bool key(std::string& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool close() override {
    Container done = std::move(open_.back());
    open_.pop_back();
    if (done.entries.size() > kFewEntries) done.entries = once_each(std::move(done.entries));
    return put(done.is_dict ? make_dict(std::move(done.entries))
                            : make_list(std::move(done.items)));
  }

  const Value& value() const { return value_; }

 private:
  struct Container {
    bool is_dict = false;
    std::string key;
    Values items;
    Entries entries;
  };

  Value number_of(const core::JsonScalar& value) const {
    if (value.is_integer) return value.integer;
    const bool large = value.digits.find_first_of(".eE") == std::string_view::npos;
    if (!large || large_ == LargeIntegers::kFloats) return value.number;
    return LargeInteger{std::string(value.digits)};
  }
  bool put(Value value) {
    if (open_.empty()) {
      value_ = std::move(value);
    } else if (open_.back().is_dict) {
      Container& dict = open_.back();
      if (dict.entries.size() < kFewEntries) {
        set_entry(dict.entries, dict.key, std::move(value));
      } else {
        dict.entries.emplace_back(std::move(dict.key), std::move(value));
      }
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  LargeIntegers large_;
  std::vector<Container> open_;
  Value value_;
};

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  void write(const Value& value) {
    check_size();
    count_work(kItemBytes);
    const double* real = value.get<double>();
    if (value.is<None>()) {
      out += "null";
    } else if (const bool* truth = value.get<bool>()) {
      out += *truth ? "true" : "false";
    } else if (real != nullptr && !std::isfinite(*real)) {
      out += std::isnan(*real) ? "NaN" : *real > 0 ? "Infinity" : "-Infinity";
    } else if (value.is<std::int64_t>() || value.is<LargeInteger>() || real != nullptr) {
      out += to_text(value);
    } else if (const std::string* text = value.text()) {
      write_text(*text);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict);
    } else {
      write_list(value);
    }
  }

  std::string out;

 private:
  void check_size() const {
    if (out.size() > kMostTextBytes) fail("text has at most ", kMostTextBytes, " bytes");
  }
  void write_list(const Value& value) {
    const Sequence* sequence = value.sequence();
    if (sequence == nullptr ||
        (sequence->kind != SequenceKind::kList && sequence->kind != SequenceKind::kTuple))
      fail("tojson needs values of JSON; add the filter list (", kind_name(value), ")");
    out += '[';
    ++level_;
    for (const Value& item : sequence->items) {
      begin_item(&item == sequence->items.data());
      write(item);
    }
    end(sequence->items.empty(), ']');
  }

  void write_dict(const Dict& dict) {
    std::vector<const std::pair<std::string, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorted)
      std::sort(entries.begin(), entries.end(),
                [](const auto* left, const auto* right) { return left->first < right->first; });
    out += '{';
    ++level_;
    for (std::size_t at = 0; at < entries.size(); ++at) {
      begin_item(at == 0);
      write_text(entries[at]->first);
      out += style_.key_separator;
      write(entries[at]->second);
    }
    end(entries.empty(), '}');
  }

  void begin_item(bool first) {
    if (!first) out += style_.item_separator;
    if (style_.indent) new_line();
  }
  void end(bool empty, char bracket) {
    --level_;
    if (!empty && style_.indent) new_line();
    out += bracket;
  }
  void new_line() {
    out += '\n';
    for (int at = 0; at < level_; ++at) {
      out += *style_.indent;
      check_size();
    }
  }

  void write_text(const std::string& text) {
    out += '"';
    for (const char32_t point : decode(text)) write_point(point);
    out += '"';
  }
  void write_point(char32_t point) {
    constexpr std::string_view kEscaped = "\"\\\n\r\t\b\f";
    constexpr std::string_view kLetters = "\"\\nrtbf";
    const std::size_t at = point < 0x80 ? kEscaped.find(static_cast<char>(point)) : kEscaped.npos;
    if (at != kEscaped.npos) {
      out += '\\';
      out += kLetters[at];
    } else if (point < 0x20 || (style_.ascii && point > 0x7E)) {
      write_code(point);
    } else {
      append_utf8(out, point);
    }
  }
  void write_code(char32_t point) {
    if (point >= 0x10000) {
      write_code(0xD800 + ((point - 0x10000) >> 10));
      return write_code(0xDC00 + ((point - 0x10000) & 0x3FF));
    }
    char code[8];
    std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(point));
    out += code;
  }

  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

Value parse_json(std::string_view text, const std::string& where, LargeIntegers large) {
  ValueVisitor visitor(large);
  std::string reason;
  try {
    const std::optional<core::JsonProblem> problem = core::read_json(text, visitor);
    if (!problem) return visitor.value();
    reason = problem->byte > 0 ? core::concat("correct the JSON at byte ", problem->byte)
                               : problem->reason;
  } catch (const Failure& failure) {
    reason = failure.what();
  }
  FM_DATA_CHECK(is_utf8(text), where,
                ": JSON must be UTF-8; convert the file, as iconv -f LATIN1 -t UTF-8 does (",
                reason, ")");
  FM_DATA_CHECK(false, where, ": JSON is required; ", reason);
}

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value);
  return std::move(writer.out);
}

}  // namespace fm::jinja
