// The JSON of a tokenizer's files as a tree of values that know where they stand, so that a refusal
// names the component; and the long lists of a model, which no tree could hold cheaply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fm::tokenizer {

class Settings {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind() const { return kind_; }
  // "tokenizer.json: pre_tokenizer.pretokenizers[1]", for messages.
  const std::string& where() const { return where_; }

  // A member of an object, null when it is absent or null itself.
  const Settings* find(std::string_view key) const;
  // The same, required. Throws UserError (11), as all below do on another type.
  const Settings& at(std::string_view key) const;
  const std::vector<Settings>& items() const;                            // of an array
  const std::vector<std::pair<std::string, Settings>>& members() const;  // of an object
  const std::string& text() const;                                       // of a string
  std::int64_t whole() const;                                            // of a whole number
  double number() const;
  bool flag() const;  // true or false
  // What is written as an integer from 0 to `most`, as serde wants it.
  std::int64_t count(double most) const;

  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view absent) const;
  bool flag_or(std::string_view key, bool absent) const;
  std::int64_t whole(std::string_view key) const;
  std::string type() const { return text("type"); }

  // Throws UserError (11): `what` is required or unsupported here.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  friend class SettingsReader;

  Kind kind_ = Kind::kNull;
  bool flag_ = false;
  bool integer_ = false;  // a number without point and exponent
  double number_ = 0;
  std::string text_;
  std::string where_;
  std::vector<Settings> items_;
  std::vector<std::pair<std::string, Settings>> members_;
};

// `model.vocab` and `model.merges` of a tokenizer.json, in the file's order.
struct ModelLists {
  std::vector<std::pair<std::string, std::int64_t>> ids;    // {"token": id}
  std::vector<std::pair<std::string, double>> scores;       // [["piece", score]]
  std::vector<std::pair<std::string, std::string>> merges;  // ["a b"] or [["a", "b"]]
};

struct SettingsFile {
  Settings root;
  ModelLists lists;
};

// `text` is the content of `file_name`. Throws UserError (11) with the byte for what is no JSON.
SettingsFile read_settings(const std::string& text, const std::string& file_name);
// `text` is a vocab.json: one object {"token": id}.
std::vector<std::pair<std::string, std::int64_t>> read_vocab_json(const std::string& text,
                                                                  const std::string& file_name);

}  // namespace fm::tokenizer
