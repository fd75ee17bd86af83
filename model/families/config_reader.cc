#include "model/families/config_reader.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/check.h"
#include "core/files/files.h"
#include "core/json_edit.h"
#include "core/text.h"

namespace fm::model {
namespace {

using Json = nlohmann::json;

// A value for messages.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_object() ? "an object" : "an array";
  return value.dump();
}

std::string read_text(const std::filesystem::path& path) {
  core::SmallFile file = core::read_small_file(path, core::kMostConfig, core::FileKind::kAny);
  FM_DATA_CHECK(file.problem.empty(),
                "the model's configuration must be a readable file; check the path (",
                path.string(), ": ", file.problem, ")");
  return std::move(file.text);
}

std::int64_t size_of(const std::string& where, const Json& value) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                    value.get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest);
  FM_USER_CHECK(fits, where, ": a whole number from 1 to ", kLargest, " is required (value ",
                shown(value), ")");
  return value.get<std::int64_t>();
}

double number_of(const std::string& where, const Json& value) {
  FM_USER_CHECK(value.is_number(), where, ": a number is required (value ", shown(value), ")");
  return value.get<double>();
}

double positive_of(const std::string& where, const Json& value) {
  const double number = number_of(where, value);
  FM_USER_CHECK(number > 0.0, where, ": a number above 0 is required (value ", shown(value), ")");
  return number;
}

}  // namespace

struct ConfigReader::Object {
  std::string file;    // for messages
  std::string prefix;  // of its keys there
  std::string text;    // of the whole file
  Json json;
  mutable std::set<std::string> asked;

  bool has(const char* key) const {
    asked.insert(key);
    return json.contains(key);
  }
  const Json& required(const char* key) const {
    FM_USER_CHECK(has(key) && !json[key].is_null(), file, ", key ", prefix, key,
                  ": this key is required; add it");
    return json[key];
  }
};

ConfigReader::ConfigReader(const std::filesystem::path& config_json) {
  Object file{config_json.string(), "", read_text(config_json), {}, {}};
  FM_DATA_CHECK(core::is_shallow(file.text), "the model's configuration may have at most ",
                core::kMostBrackets, " levels of brackets; repair ", file.file);
  try {
    file.json = Json::parse(file.text);
  } catch (const Json::exception& error) {
    FM_DATA_CHECK(false, "the model's configuration must be valid JSON; repair ", file.file, " (",
                  error.what(), ")");
  }
  FM_DATA_CHECK(file.json.is_object(), "the model's configuration must be a JSON object; repair ",
                file.file);
  object_ = std::make_shared<const Object>(std::move(file));
}

ConfigReader::ConfigReader(std::shared_ptr<const Object> object) : object_(std::move(object)) {}

bool ConfigReader::has(const char* key) const {
  return object_->has(key) && !object_->json[key].is_null();
}

bool ConfigReader::is_null(const char* key) const {
  return object_->has(key) && object_->json[key].is_null();
}

bool ConfigReader::empty() const { return object_->json.empty(); }

std::string ConfigReader::where(const char* key) const {
  return object_->file + ", key " + object_->prefix + key;
}

std::int64_t ConfigReader::size(const char* key) const {
  return size_of(where(key), object_->required(key));
}

std::int64_t ConfigReader::size_or(const char* key, std::int64_t absent) const {
  return has(key) ? size(key) : absent;
}

double ConfigReader::positive(const char* key) const {
  return positive_of(where(key), object_->required(key));
}

double ConfigReader::positive_or(const char* key, double absent) const {
  return has(key) ? positive(key) : absent;
}

double ConfigReader::number_or(const char* key, double absent) const {
  return has(key) ? number_of(where(key), object_->json[key]) : absent;
}

std::int64_t ConfigReader::whole_or(const char* key, std::int64_t absent) const {
  if (!has(key)) return absent;
  const Json& value = object_->json[key];
  FM_USER_CHECK(value.is_number_integer(), where(key), ": a whole number is required (value ",
                shown(value), ")");
  return value.get<std::int64_t>();
}

bool ConfigReader::flag_or(const char* key, bool absent) const {
  if (!has(key)) return absent;
  const Json& value = object_->json[key];
  FM_USER_CHECK(value.is_boolean(), where(key), ": true or false is required (value ", shown(value),
                ")");
  return value.get<bool>();
}

std::string ConfigReader::text_or(const char* key, const std::string& absent) const {
  if (!has(key)) return absent;
  const Json& value = object_->json[key];
  FM_USER_CHECK(value.is_string(), where(key), ": a string is required (value ", shown(value), ")");
  return value.get<std::string>();
}

std::vector<double> ConfigReader::numbers(const char* key) const {
  const Json& value = object_->required(key);
  FM_USER_CHECK(value.is_array(), where(key), ": an array of numbers is required (value ",
                shown(value), ")");
  std::vector<double> out;
  for (const Json& number : value) out.push_back(number_of(where(key), number));
  return out;
}

std::vector<std::string> ConfigReader::texts_or_none(const char* key) const {
  std::vector<std::string> out;
  if (!has(key)) return out;
  const Json& value = object_->json[key];
  FM_USER_CHECK(value.is_array(), where(key), ": an array of strings is required (value ",
                shown(value), ")");
  for (const Json& text : value) {
    FM_USER_CHECK(text.is_string(), where(key), ": an array of strings is required (it holds ",
                  shown(text), ")");
    out.push_back(text.get<std::string>());
  }
  return out;
}

ConfigReader ConfigReader::inner(const char* key) const {
  const Json& value = object_->required(key);
  FM_USER_CHECK(value.is_object(), where(key), ": an object is required (value ", shown(value),
                ")");
  return ConfigReader(std::make_shared<const Object>(
      Object{object_->file, object_->prefix + key + ".", object_->text, value, {}}));
}

void ConfigReader::replace(const char* key, std::int64_t value) {
  Object changed = *object_;
  changed.text = core::with_member(changed.text, key, std::to_string(value));
  changed.json[key] = static_cast<std::uint64_t>(value);  // as it is read
  object_ = std::make_shared<const Object>(std::move(changed));
}

std::vector<std::pair<std::string, std::string>> ConfigReader::not_asked_for() const {
  constexpr std::size_t kMostShown = 60;
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, value] : object_->json.items()) {
    if (value.is_null() || object_->asked.contains(key)) continue;
    const std::string text = shown(value);
    out.emplace_back(key, text.size() <= kMostShown ? text : "a long text");
  }
  return out;
}

std::string ConfigReader::text_with_architecture(const std::string& architecture) const {
  const nlohmann::ordered_json wanted = nlohmann::ordered_json::array({architecture});
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(object_->text);
  if (json.value("architectures", wanted) == wanted) return object_->text;
  json["architectures"] = wanted;
  return json.dump(2) + "\n";
}

}  // namespace fm::model
