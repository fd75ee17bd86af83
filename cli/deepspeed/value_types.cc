#include "cli/deepspeed/value_types.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

struct DTypeName {
  std::string_view name;
  core::DType dtype;
};
constexpr std::array kNames = {
    DTypeName{"fp32", core::DType::kF32},    DTypeName{"float32", core::DType::kF32},
    DTypeName{"float", core::DType::kF32},   DTypeName{"fp16", core::DType::kF16},
    DTypeName{"float16", core::DType::kF16}, DTypeName{"half", core::DType::kF16},
    DTypeName{"bf16", core::DType::kBF16},   DTypeName{"bfloat16", core::DType::kBF16}};

constexpr double kEndOfInt64 = 9223372036854775808.0;  // 2^63

// Whole numbers written out are exact over all of int64; 5e8 goes through double.
std::optional<std::int64_t> parse_int(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  const std::optional<double> number = parse_number(text);
  const bool whole = number && std::abs(*number) < kEndOfInt64 && *number == std::trunc(*number);
  return whole ? std::optional(static_cast<std::int64_t>(*number)) : std::nullopt;
}

bool contains(std::string_view choices, const std::string& word) {
  const std::vector<std::string> all = core::split(choices, '|');
  return std::find(all.begin(), all.end(), word) != all.end();
}

bool is_share(std::optional<double> number) { return number && *number >= 0.0 && *number <= 1.0; }

bool fits(const KeyRow& row, const JsonTree& value) {
  switch (row.type) {
    case KeyType::kBool: return to_bool(value).has_value();
    case KeyType::kInt: return to_int(value).has_value();
    case KeyType::kCount: return to_int(value).value_or(-1) >= 0;
    case KeyType::kNumber: return to_number(value).has_value();
    case KeyType::kShare: return is_share(to_number(value));
    case KeyType::kRate: return to_number(sole(value)).has_value();
    case KeyType::kText:
      return value.kind == JsonKind::kString &&
             (row.choices.empty() || contains(row.choices, core::lower(value.text)));
    case KeyType::kList: return value.kind == JsonKind::kArray;
    case KeyType::kTexts:
      if (value.kind == JsonKind::kString) return row.choices.empty();
      return value.kind == JsonKind::kArray &&
             std::ranges::all_of(value.items, [&](const JsonTree& item) {
               return item.kind == JsonKind::kString &&
                      (row.choices.empty() || contains(row.choices, item.text));
             });
    case KeyType::kAny: return true;
    case KeyType::kSwitch:
    case KeyType::kBlock:
    case KeyType::kOpen: return value.is_object();
  }
  return false;
}

std::string listed(std::string_view choices) {
  return "\"" + core::join(core::split(choices, '|'), "\", \"") + "\"";
}

std::string wanted(const KeyRow& row) {
  switch (row.type) {
    case KeyType::kBool: return "true or false";
    case KeyType::kInt: return "a whole number";
    case KeyType::kCount: return "a whole number that is not negative";
    case KeyType::kNumber: return "a number";
    case KeyType::kShare: return "a number from 0 to 1";
    case KeyType::kRate: return "a number, or a list of one number (there is one parameter group)";
    case KeyType::kText: return row.choices.empty() ? "a text" : "one of " + listed(row.choices);
    case KeyType::kList: return "a list [...]";
    case KeyType::kTexts:
      return row.choices.empty() ? "a list of texts" : "a list of some of " + listed(row.choices);
    case KeyType::kAny: return "anything";
    case KeyType::kSwitch:
    case KeyType::kBlock:
    case KeyType::kOpen: return "a block {...}";
  }
  return "";
}

// What keeps a number from being one of whole numbers.
std::string flaw(const KeyRow& row, const JsonTree& value) {
  const std::optional<double> number = to_number(value);
  if (!number || (row.type != KeyType::kInt && row.type != KeyType::kCount)) return "";
  if (*number != std::trunc(*number)) return ", which has a fractional part";
  return std::abs(*number) < kEndOfInt64 ? "" : ", which is beyond 64 bits";
}

}  // namespace

std::optional<core::DType> dtype_named(std::string_view word) {
  const auto found = std::ranges::find(kNames, core::lower(word), &DTypeName::name);
  return found == kNames.end() ? std::nullopt : std::optional(found->dtype);
}

std::optional<bool> parse_bool(std::string_view word) {
  const std::string lowered = core::lower(word);
  if (contains("yes|true|t|y|on|1", lowered)) return true;
  if (contains("no|false|f|n|off|0", lowered)) return false;
  return std::nullopt;
}

std::optional<bool> to_bool(const JsonTree& value) {
  if (value.kind == JsonKind::kBool) return value.boolean;
  if (value.kind == JsonKind::kString) return parse_bool(value.text);
  if (value.kind != JsonKind::kNumber) return std::nullopt;
  if (value.number == 1) return true;
  if (value.number == 0) return false;
  return std::nullopt;
}

std::optional<std::int64_t> to_int(const JsonTree& value) {
  if (value.kind == JsonKind::kBool) return value.boolean ? 1 : 0;
  if (value.kind != JsonKind::kNumber && value.kind != JsonKind::kString) return std::nullopt;
  return parse_int(value.text);
}

std::optional<double> to_number(const JsonTree& value) {
  if (value.kind == JsonKind::kBool) return value.boolean ? 1.0 : 0.0;
  if (value.kind == JsonKind::kNumber) return value.number;
  if (value.kind == JsonKind::kString) return parse_number(value.text);
  return std::nullopt;
}

const JsonTree* find_path(const JsonTree& root, const std::string& path) {
  const JsonTree* at = &root;
  for (const std::string& key : core::split(path, '.')) {
    at = at->member(key);
    if (at == nullptr) return nullptr;
  }
  return at;
}

const JsonTree& sole(const JsonTree& value) {
  return value.items.size() == 1 ? value.items.front() : value;
}

bool is_auto(const JsonTree& value) {
  return value.kind == JsonKind::kString && value.text == "auto";
}

void check_type(const KeyRow& row, const std::string& path, const JsonTree& value,
                const std::string& where) {
  FM_USER_CHECK(fits(row, value), path, " must be ", wanted(row), "; correct it (", where, ": ",
                show(value), flaw(row, value), ")");
}

bool is_plain(const KeyRow& row, const JsonTree& value) {
  for (const std::string& plain : core::split(row.plain, '|')) {
    if (plain == "null" && value.kind == JsonKind::kNull) return true;
    switch (row.type) {
      case KeyType::kBool:
        if (parse_bool(plain) && to_bool(value) == parse_bool(plain)) return true;
        break;
      case KeyType::kInt:
      case KeyType::kCount:
        if (parse_int(plain) && to_int(value) == parse_int(plain)) return true;
        break;
      case KeyType::kNumber:
      case KeyType::kShare:
      case KeyType::kRate:
        if (parse_number(plain) && to_number(value) == parse_number(plain)) return true;
        break;
      case KeyType::kText:
        if (core::lower(value.text) == plain) return true;
        break;
      case KeyType::kList:
      case KeyType::kTexts:
        if (plain == "[]" && value.items.empty()) return true;
        break;
      case KeyType::kAny:
        if (value.kind == JsonKind::kString && value.text == plain) return true;
        break;
      case KeyType::kSwitch:
      case KeyType::kBlock:
      case KeyType::kOpen: break;
    }
  }
  return false;
}

}  // namespace fm::cli
