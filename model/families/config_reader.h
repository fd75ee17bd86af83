// Reads values of a Hugging Face config.json, for every family. An invalid value is a UserError
// (10) that names the file, the key and the requirement.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fm::model {

// One object of the file. A key set to null counts as absent, as in transformers.
class ConfigReader {
 public:
  // The whole file. Throws UserError (11) when it is missing or not a JSON object.
  explicit ConfigReader(const std::filesystem::path& config_json);

  bool has(const char* key) const;
  bool is_null(const char* key) const;  // present, and null
  bool empty() const;
  // "FILE, key rope_scaling.factor", the beginning of a message.
  std::string where(const char* key) const;

  // A size is a whole number from 1 to 2^31 - 1.
  std::int64_t size(const char* key) const;
  std::int64_t size_or(const char* key, std::int64_t absent) const;
  double positive(const char* key) const;
  double positive_or(const char* key, double absent) const;
  double number_or(const char* key, double absent) const;
  std::int64_t whole_or(const char* key, std::int64_t absent) const;
  bool flag_or(const char* key, bool absent) const;
  std::string text_or(const char* key, const std::string& absent) const;
  std::vector<double> numbers(const char* key) const;  // required
  std::vector<std::string> texts_or_none(const char* key) const;
  ConfigReader inner(const char* key) const;

  // From now on the key has this number, also in the text of the file.
  void replace(const char* key, std::int64_t value);

  // The keys of this object, with their values for messages, that no call above has read. Null keys
  // are left out.
  std::vector<std::pair<std::string, std::string>> not_asked_for() const;

  // The text of the whole file with this architecture, where the file names another one (that of
  // the model without its head). Inference programs choose by it what to load.
  std::string text_with_architecture(const std::string& architecture) const;

 private:
  struct Object;
  explicit ConfigReader(std::shared_ptr<const Object> object);

  std::shared_ptr<const Object> object_;
};

}  // namespace fm::model
