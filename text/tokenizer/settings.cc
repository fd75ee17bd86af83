#include "text/tokenizer/settings.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/check.h"

namespace fm::tokenizer {

using nlohmann::json;

const Settings* Settings::find(std::string_view key) const {
  if (kind_ != Kind::kObject) refuse("an object is required here; correct the file");
  const Settings* found = nullptr;  // of equal keys the last one counts, as in serde
  for (const auto& [name, value] : members_) {
    if (name == key) found = value.kind_ == Kind::kNull ? nullptr : &value;
  }
  return found;
}

const Settings& Settings::at(std::string_view key) const {
  const Settings* found = find(key);
  if (found == nullptr) refuse(core::concat("key \"", key, "\" is required; correct the file"));
  return *found;
}

const std::vector<Settings>& Settings::items() const {
  if (kind_ != Kind::kArray) refuse("an array is required here; correct the file");
  return items_;
}

const std::vector<std::pair<std::string, Settings>>& Settings::members() const {
  if (kind_ != Kind::kObject) refuse("an object is required here; correct the file");
  return members_;
}

const std::string& Settings::text() const {
  if (kind_ != Kind::kString) refuse("a string is required here; correct the file");
  return text_;
}

double Settings::number() const {
  if (kind_ != Kind::kNumber) refuse("a number is required here; correct the file");
  return number_;
}

bool Settings::flag() const {
  if (kind_ != Kind::kBool) refuse("true or false is required; correct the file");
  return flag_;
}

std::int64_t Settings::count(double most) const {
  if (!integer_ || number_ < 0 || number_ > most) {
    refuse(core::concat("an integer from 0 to ", static_cast<std::int64_t>(most),
                        " is required; correct the file",
                        kind_ == Kind::kNumber ? core::concat(" (", number_, ")") : ""));
  }
  return static_cast<std::int64_t>(number_);
}

std::int64_t Settings::whole() const {
  const double value = number();
  const bool fits = value >= -1e9 && value <= 4.3e9;
  const auto count = fits ? static_cast<std::int64_t>(value) : 0;
  if (!fits || static_cast<double>(count) != value) {
    refuse(core::concat("a whole number is required here; correct the file (", value, ")"));
  }
  return count;
}

std::string Settings::text(std::string_view key) const { return at(key).text(); }

std::string Settings::text_or(std::string_view key, std::string_view absent) const {
  const Settings* found = find(key);
  return found == nullptr ? std::string(absent) : found->text();
}

bool Settings::flag_or(std::string_view key, bool absent) const {
  const Settings* found = find(key);
  return found == nullptr ? absent : found->flag();
}

std::int64_t Settings::whole(std::string_view key) const { return at(key).whole(); }

void Settings::refuse(const std::string& what) const { FM_DATA_CHECK(false, where_, ": ", what); }

namespace {

// 10 to the power of `exponent`, 0 to 308.
double power_of_ten(int exponent) {
  const std::string text = core::concat("1e", exponent);
  double power = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), power);
  return power;
}

// What serde_json without float_roundtrip, as the tokenizers wheel has it, makes of a number: at
// most 19 or 20 digits become an integer, which is rounded, multiplied or divided, and rounded once
// more (serde_json, src/de.rs). One number in eight differs in its last bit from `nearest`, and
// equal sums of scores are then none.
double as_serde_reads(std::string_view text, double nearest) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false;
  bool full = false;
  std::size_t at = text.starts_with('-') ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    full = full || digits > (kMost - digit) / 10;
    if (!full) digits = digits * 10 + digit;
    if (full != fraction) exponent += full ? 1 : -1;  // a digit left out, or behind the point
  }
  int written = 0;
  if (at < text.size()) {
    const std::size_t begin = at + (text[at + 1] == '+' ? 2 : 1);
    const auto [end, error] =
        std::from_chars(text.data() + begin, text.data() + text.size(), written);
    if (error != std::errc() || end != text.data() + text.size()) return nearest;
  }
  exponent += written;
  constexpr int kLargest = 308;
  if (exponent < -kLargest || exponent > kLargest) return nearest;
  const auto whole = static_cast<double>(digits);
  const double value =
      exponent < 0 ? whole / power_of_ten(-exponent) : whole * power_of_ten(exponent);
  return text.starts_with('-') ? -value : value;
}

}  // namespace

// Builds the tree from events, and fills the lists instead where the path is theirs.
class SettingsReader : public json::json_sax_t {
 public:
  SettingsReader(SettingsFile& file, const std::string& name) : file_(file), name_(name) {
    file_.root.where_ = name;
  }

  bool null() override { return put(Settings::Kind::kNull, 0, nullptr); }
  bool boolean(bool value) override { return put(Settings::Kind::kBool, value ? 1 : 0, nullptr); }
  bool number_integer(number_integer_t value) override {
    return put_integer(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return put_integer(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return put(Settings::Kind::kNumber, as_serde_reads(text, value), nullptr);
  }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override { return put(Settings::Kind::kString, 0, &value); }
  bool start_object(std::size_t) override { return start(Settings::Kind::kObject); }
  bool start_array(std::size_t) override { return start(Settings::Kind::kArray); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& value) override { return key_.swap(value), true; }
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    FM_DATA_CHECK(false, name_, ": one JSON value is required; correct the file (byte ", position,
                  ": ", error.what(), ")");
    return false;
  }

 private:
  static constexpr std::size_t kMostDepth = 64;  // the tree is destroyed by recursion
  enum class List : std::uint8_t { kNone, kVocab, kMerges };

  bool put_integer(double number) { return put(Settings::Kind::kNumber, number, nullptr, true); }

  bool put(Settings::Kind kind, double number, std::string* text, bool integer = false) {
    if (list_ != List::kNone) return put_in_list(kind, number, text);
    Settings& value = add();
    value.kind_ = kind;
    value.flag_ = number != 0;
    value.number_ = number;
    value.integer_ = integer;
    if (text != nullptr) value.text_.swap(*text);
    return true;
  }

  // The next value of the innermost open array or object.
  Settings& add() {
    if (open_.empty()) return file_.root;
    Settings& parent = *open_.back();
    if (parent.kind_ == Settings::Kind::kArray) {
      std::string where = core::concat(parent.where_, '[', parent.items_.size(), ']');
      Settings& item = parent.items_.emplace_back();
      item.where_ = std::move(where);
      return item;
    }
    parent.members_.emplace_back(key_, Settings());
    Settings& member = parent.members_.back().second;
    member.where_ = core::concat(parent.where_, open_.size() == 1 ? ": " : ".", key_);
    return member;
  }

  bool start(Settings::Kind kind) {
    if (list_ != List::kNone) return start_in_list(kind);
    if (open_.size() == 2 && open_[1] == model_ && (key_ == "vocab" || key_ == "merges")) {
      list_ = key_ == "vocab" ? List::kVocab : List::kMerges;
      if (list_ == List::kVocab) file_.lists.ids.clear(), file_.lists.scores.clear();
      if (list_ == List::kMerges) file_.lists.merges.clear();
      list_depth_ = 1;
      list_kind_ = kind;
      return true;
    }
    FM_DATA_CHECK(open_.size() < kMostDepth, name_, ": at most ", kMostDepth,
                  " levels of JSON are read; correct the file");
    const bool is_model = open_.size() == 1 && key_ == "model";
    Settings& value = add();
    value.kind_ = kind;
    open_.push_back(&value);
    if (is_model) model_ = &value;
    return true;
  }

  bool end() {
    if (list_ == List::kNone) return open_.pop_back(), true;
    if (--list_depth_ == 0) {
      list_ = List::kNone;
    } else {
      finish_pair();
    }
    return true;
  }

  bool start_in_list(Settings::Kind kind) {
    require_in_list(list_depth_ == 1 && list_kind_ == Settings::Kind::kArray &&
                    kind == Settings::Kind::kArray);
    ++list_depth_;
    texts_.clear();
    score_.reset();
    return true;
  }

  bool put_in_list(Settings::Kind kind, double number, std::string* text) {
    ModelLists& lists = file_.lists;
    if (list_depth_ == 2) {
      if (text != nullptr) texts_.push_back(std::move(*text));
      if (kind == Settings::Kind::kNumber) score_ = number;
      require_in_list(text != nullptr || kind == Settings::Kind::kNumber);
    } else if (list_ == List::kMerges && text != nullptr && !text->starts_with("#version")) {
      const std::size_t space = text->find(' ');
      require_in_list(space != std::string::npos && text->find(' ', space + 1) == text->npos);
      lists.merges.emplace_back(text->substr(0, space), text->substr(space + 1));
    } else if (list_ == List::kVocab && list_kind_ == Settings::Kind::kObject) {
      require_in_list(kind == Settings::Kind::kNumber && number >= 0 && number < 4.3e9);
      lists.ids.emplace_back(std::move(key_), static_cast<std::int64_t>(number));
    } else {
      require_in_list(list_ == List::kMerges && text != nullptr);
    }
    return true;
  }

  void finish_pair() {
    if (list_ == List::kMerges) {
      require_in_list(texts_.size() == 2 && !score_);
      file_.lists.merges.emplace_back(std::move(texts_[0]), std::move(texts_[1]));
    } else {
      require_in_list(texts_.size() == 1 && score_);
      file_.lists.scores.emplace_back(std::move(texts_[0]), *score_);
    }
  }

  void require_in_list(bool holds) const {
    const ModelLists& lists = file_.lists;
    FM_DATA_CHECK(
        holds, name_, ": model.",
        list_ == List::kVocab ? "vocab must be {\"token\": id} or [[\"piece\", score]]"
                              : "merges must be [\"a b\"] or [[\"a\", \"b\"]]",
        "; correct the file (entry ",
        list_ == List::kVocab ? lists.ids.size() + lists.scores.size() : lists.merges.size(), ")");
  }

  SettingsFile& file_;
  const std::string& name_;
  std::vector<Settings*> open_;
  const Settings* model_ = nullptr;
  std::string key_;
  List list_ = List::kNone;
  int list_depth_ = 0;
  Settings::Kind list_kind_ = Settings::Kind::kNull;
  std::vector<std::string> texts_;
  std::optional<double> score_;
};

SettingsFile read_settings(const std::string& text, const std::string& file_name) {
  SettingsFile file;
  SettingsReader reader(file, file_name);
  json::sax_parse(text.begin(), text.end(), &reader);
  return file;
}

std::vector<std::pair<std::string, std::int64_t>> read_vocab_json(const std::string& text,
                                                                  const std::string& file_name) {
  // The same lists as in a tokenizer.json, whose reader checks them.
  return read_settings("{\"model\":{\"vocab\":" + text + "}}", file_name).lists.ids;
}

}  // namespace fm::tokenizer
