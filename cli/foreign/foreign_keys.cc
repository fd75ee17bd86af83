#include "cli/foreign/foreign_keys.h"

#include <algorithm>

#include "cli/deepspeed/value_types.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::cli {
namespace {

using core::concat;

struct MapEntry {
  std::vector<std::string> values;
  std::vector<std::string> words;
};

std::vector<MapEntry> entries_of(std::string_view map) {
  std::vector<MapEntry> entries;
  if (map.empty()) return entries;
  for (std::string text : core::split(map, ';')) {
    if (text.starts_with(' ')) text.erase(0, 1);
    const std::size_t colon = text.find(':');
    FM_CHECK(colon != std::string::npos, "no entry of a foreign key: ", text);
    MapEntry entry{.values = core::split(text.substr(0, colon), ','), .words = {}};
    for (const std::string& word : core::split(text.substr(colon + 1), ' ')) {
      if (!word.empty()) entry.words.push_back(word);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

// "True" is "true", "0.0" is "0".
bool is_same(const std::string& known, const std::string& value) {
  if (known == core::lower(value)) return true;
  const std::optional<bool> a = parse_bool(known);
  const std::optional<bool> b = parse_bool(value);
  if (a && b) return *a == *b;
  const std::optional<double> x = core::number_of(known);
  const std::optional<double> y = core::number_of(value);
  return x && y && *x == *y;
}

Translated flags_of(const MapEntry& entry, const std::vector<std::string>& values) {
  Translated out;
  for (const std::string& word : entry.words) {
    if (word == "!") {
      out.is_said = true;
      continue;
    }
    const std::size_t start = word.starts_with('?') ? 3 : 2;
    const std::size_t equals = word.find('=');
    const std::string text = word.substr(equals + 1);
    out.flags.push_back({.flag = word.substr(start, equals - start),
                         .values = text == "$" ? values : std::vector<std::string>{text},
                         .is_default = start == 3});
  }
  return out;
}

bool is_any(const MapEntry& entry) { return entry.values.front() == "*"; }

// "--max_seq_len", "--packing best_fit and --document_attention true"
std::string shown_flags(const MapEntry& entry) {
  std::vector<std::string> shown;
  for (const FlagWords& each : flags_of(entry, {}).flags) {
    shown.push_back(concat("--", each.flag, each.values.empty() ? "" : " " + each.values[0]));
  }
  return core::join(shown, " and ");
}

}  // namespace

std::string_view name_of(Dialect dialect) {
  switch (dialect) {
    case Dialect::kTrainer: return "Hugging Face's Trainer";
    case Dialect::kAxolotl: return "axolotl";
    case Dialect::kFactory: return "LLaMA-Factory";
  }
  return "";
}

const ForeignKey* find_key(std::span<const ForeignKey> rows, std::string_view name) {
  const auto row = std::ranges::find_if(rows, [&](const ForeignKey& each) {
    const std::vector<std::string> names = core::split(each.names, ' ');
    return std::ranges::find(names, name) != names.end();
  });
  return row == rows.end() ? nullptr : &*row;
}

std::optional<Translated> translate(const ForeignKey& key, const std::vector<std::string>& values) {
  for (const MapEntry& entry : entries_of(key.map)) {
    const bool fits = is_any(entry) || std::ranges::all_of(values, [&](const auto& value) {
                        return std::ranges::any_of(
                            entry.values, [&](const auto& known) { return is_same(known, value); });
                      });
    if (fits) return flags_of(entry, values);
  }
  return std::nullopt;
}

bool says_nothing(std::string_view value) {
  const std::string word = core::lower(value);
  return word.empty() || word == "none" || word == "null";
}

std::string describe(const ForeignKey& key) {
  const std::vector<MapEntry> entries = entries_of(key.map);
  if (entries.empty()) return std::string(key.why);
  const bool maps = key.map.find("--") != key.map.npos;
  const std::string none = maps ? " changes nothing" : "";
  std::vector<std::string> parts;
  for (const MapEntry& entry : entries) {
    const std::string words = shown_flags(entry);
    const std::string values = core::join(entry.values, ", ");
    if (words.empty()) {
      parts.push_back(is_any(entry) ? "no effect" : concat(maps ? "" : "only ", values, none));
    } else {
      parts.push_back(is_any(entry) ? words : concat(values, " is ", words));
    }
  }
  const std::string whole = core::join(parts, "; ");
  return key.why.empty() ? whole : concat(whole, ": ", key.why);
}

std::string refusal_of(const ForeignKey& key, const std::string& written) {
  std::vector<std::string> known;
  for (const MapEntry& entry : entries_of(key.map)) {
    for (const std::string& value : entry.values) {
      if (!value.empty()) known.push_back(value);
    }
  }
  return concat(written, " cannot be honoured",
                known.empty() ? "" : concat(", only ", core::join(known, ", "), " can"), ": ",
                key.why);
}

}  // namespace fm::cli
