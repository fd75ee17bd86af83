#include "text/tokenizer/tokenizer_file.h"

#include <charconv>
#include <limits>
#include <optional>

#include "core/check.h"

namespace fm::tokenizer {
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

// Fills the lists where the path is theirs; the rest becomes the tree.
class FileBuilder final : public core::JsonTreeBuilder {
 public:
  explicit FileBuilder(const std::string& name) : JsonTreeBuilder(name), name_(name) {}

  bool scalar(core::JsonScalar& value) override {
    if (value.kind == JsonKind::kNumber && !value.is_integer) {
      value.number = as_serde_reads(value.digits, value.number);
    }
    return list_ == List::kNone ? JsonTreeBuilder::scalar(value) : put_in_list(value);
  }
  bool open(JsonKind kind) override {
    if (list_ != List::kNone) return open_in_list(kind);
    if (depth() == 1) in_model_ = key_ == "model";
    if (depth() != 2 || !in_model_ || (key_ != "vocab" && key_ != "merges")) {
      return JsonTreeBuilder::open(kind);
    }
    list_ = key_ == "vocab" ? List::kVocab : List::kMerges;
    if (list_ == List::kVocab) lists.ids.clear(), lists.scores.clear();
    if (list_ == List::kMerges) lists.merges.clear();
    list_kind_ = kind;
    return true;
  }
  bool close() override {
    if (list_ == List::kNone) return JsonTreeBuilder::close();
    if (depth() == kListDepth) {
      list_ = List::kNone;
    } else {
      finish_pair();
    }
    return true;
  }

  ModelLists lists;

 private:
  static constexpr std::size_t kListDepth = 2;
  enum class List : std::uint8_t { kNone, kVocab, kMerges };

  bool open_in_list(JsonKind kind) {
    require_in_list(depth() == kListDepth + 1 && list_kind_ == JsonKind::kArray &&
                    kind == JsonKind::kArray);
    texts_.clear();
    score_.reset();
    return true;
  }

  bool put_in_list(core::JsonScalar& value) {
    const bool is_text = value.kind == JsonKind::kString;
    const bool is_number = value.kind == JsonKind::kNumber;
    const double number = value.is_integer ? static_cast<double>(value.integer) : value.number;
    if (depth() == kListDepth + 2) {
      require_in_list(is_text || is_number);
      if (is_text) texts_.push_back(std::move(*value.text));
      if (is_number) score_ = number;
    } else if (list_ == List::kMerges && is_text && !value.text->starts_with("#version")) {
      const std::string& text = *value.text;
      const std::size_t space = text.find(' ');
      require_in_list(space != text.npos && text.find(' ', space + 1) == text.npos);
      lists.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else if (list_ == List::kVocab && list_kind_ == JsonKind::kObject) {
      require_in_list(is_number && number >= 0 && number < 4.3e9);
      lists.ids.emplace_back(std::move(key_), static_cast<std::int64_t>(number));
    } else {
      require_in_list(list_ == List::kMerges && is_text);
    }
    return true;
  }

  void finish_pair() {
    if (list_ == List::kMerges) {
      require_in_list(texts_.size() == 2 && !score_);
      lists.merges.emplace_back(std::move(texts_[0]), std::move(texts_[1]));
    } else {
      require_in_list(texts_.size() == 1 && score_);
      lists.scores.emplace_back(std::move(texts_[0]), *score_);
    }
  }

  void require_in_list(bool holds) const {
    FM_DATA_CHECK(
        holds, name_, ": model.",
        list_ == List::kVocab ? "vocab must be {\"token\": id} or [[\"piece\", score]]"
                              : "merges must be [\"a b\"] or [[\"a\", \"b\"]]",
        "; correct the file (entry ",
        list_ == List::kVocab ? lists.ids.size() + lists.scores.size() : lists.merges.size(), ")");
  }

  const std::string& name_;
  bool in_model_ = false;
  List list_ = List::kNone;
  JsonKind list_kind_ = JsonKind::kNull;
  std::vector<std::string> texts_;
  std::optional<double> score_;
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view text, const std::string& file_name) {
  FileBuilder builder(file_name);
  core::build_tree(text, builder);
  return {std::move(builder.root), std::move(builder.lists)};
}

std::vector<std::pair<std::string, std::int64_t>> read_vocab_json(const std::string& text,
                                                                  const std::string& file_name) {
  // The same lists as in a tokenizer.json, whose reader checks them.
  return read_tokenizer_file("{\"model\":{\"vocab\":" + text + "}}", file_name).lists.ids;
}

}  // namespace fm::tokenizer
