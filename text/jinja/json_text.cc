#include "text/jinja/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "text/jinja/code_points.h"

namespace fm::jinja {
namespace {

using nlohmann::json;

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

// Builds values from the parser's events: open containers are a stack.
class ValueSax : public json::json_sax_t {
 public:
  explicit ValueSax(LargeIntegers large) : large_(large) {}

  bool null() override { return put(None{}); }
  bool boolean(bool truth) override { return put(truth); }
  bool number_integer(number_integer_t number) override { return put(std::int64_t{number}); }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return put_large(static_cast<double>(number), std::to_string(number));
    return put(static_cast<std::int64_t>(number));
  }
  bool number_float(number_float_t number, const string_t& digits) override {
    return digits.find_first_of(".eE") == std::string::npos ? put_large(number, digits)
                                                            : put(number);
  }
  bool string(string_t& text) override { return put(std::move(text)); }
  bool binary(binary_t&) override { return refuse("there is no binary in JSON"); }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return refuse(core::concat("correct the JSON at byte ", position));
  }

  const Value& value() const { return value_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Container {
    bool is_dict;
    std::string key;
    Values items;
    Entries entries;
  };

  bool open(bool is_dict) {
    if (open_.size() >= kMostNesting)
      return refuse(core::concat("lists and dicts may nest ", kMostNesting, " deep"));
    open_.push_back({is_dict, {}, {}, {}});
    return true;
  }
  bool close() {
    Container done = std::move(open_.back());
    open_.pop_back();
    if (done.entries.size() > kFewEntries) done.entries = once_each(std::move(done.entries));
    return put(done.is_dict ? make_dict(std::move(done.entries))
                            : make_list(std::move(done.items)));
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
  bool put_large(double number, std::string digits) {
    return put(large_ == LargeIntegers::kFloats ? Value(number)
                                                : Value(LargeInteger{std::move(digits)}));
  }
  bool refuse(const std::string& why) {
    problem_ = why;
    return false;
  }

  LargeIntegers large_;
  std::vector<Container> open_;
  Value value_;
  std::string problem_;
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
  ValueSax sax(large);
  bool parsed = false;
  std::string problem;
  try {
    parsed = json::sax_parse(text.begin(), text.end(), &sax);
    problem = sax.problem();
  } catch (const Failure& failure) {
    problem = failure.what();
  }
  FM_DATA_CHECK(parsed || is_utf8(text), where,
                ": JSON must be UTF-8; convert the file, as iconv -f LATIN1 -t UTF-8 does (",
                problem, ")");
  FM_DATA_CHECK(parsed, where, ": JSON is required; ", problem);
  return sax.value();
}

std::string to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  writer.write(value);
  return std::move(writer.out);
}

}  // namespace fm::jinja
