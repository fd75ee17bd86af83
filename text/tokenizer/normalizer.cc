#include "text/tokenizer/normalizer.h"

#include <utility>

#include "core/check.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/unicode/charsmap.h"
#include "text/tokenizer/unicode/normal_forms.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

using Steps = std::vector<NormalizeStep>;

// Replaces every character by what `append` puts for it; nothing means that it goes.
template <class Append>
NormalizeStep each_character(Append append) {
  return [append](Normalizing& at) {
    at.scratch.clear();
    bool first_stays = true;
    for (std::size_t i = 0; i < at.text.size();) {
      const CodePoint point = code_point_at(at.text, i);
      append(at.scratch, point.value);
      if (i == 0) first_stays = !at.scratch.empty();
      i += point.size;
    }
    at.text.swap(at.scratch);
    at.at_start = at.at_start && first_stays;
  };
}

template <class Keeps>
NormalizeStep keep_characters(Keeps keeps) {
  return each_character([keeps](std::string& text, char32_t value) {
    if (keeps(value)) append_utf8(text, value);
  });
}

void read_step(const JsonTree& settings, Steps& steps);

void read_sequence(const JsonTree& settings, Steps& steps) {
  for (const JsonTree& part : settings.at("normalizers").array()) read_step(part, steps);
}

NormalizeStep put_in_form(UnicodeForm form) {
  return [&made = normal_form(form)](Normalizing& at) {
    if (made.apply(at.text, at.scratch)) at.text.swap(at.scratch);
  };
}

void read_form(const JsonTree& settings, Steps& steps) {
  constexpr std::pair<std::string_view, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::kNfc},
                                                                 {"NFD", UnicodeForm::kNfd},
                                                                 {"NFKC", UnicodeForm::kNfkc},
                                                                 {"NFKD", UnicodeForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (name != settings.at("type").string()) continue;
    steps.push_back(put_in_form(form));
  }
}

void read_prepend(const JsonTree& settings, Steps& steps) {
  steps.push_back([prefix = settings.at("prepend").string()](Normalizing& at) {
    if (!at.text.empty()) at.text.insert(0, prefix);
  });
}

// One character by another text: nearly every Replace, and much faster than a search for parts.
NormalizeStep replace_byte(char wanted, std::string content) {
  return [wanted, content = std::move(content)](Normalizing& at) {
    std::size_t found = at.text.find(wanted);
    if (found == std::string::npos) return;
    at.at_start = at.at_start && (found > 0 || !content.empty());
    at.scratch.clear();
    std::size_t copied = 0;
    for (; found != std::string::npos; found = at.text.find(wanted, copied)) {
      at.scratch.append(at.text, copied, found - copied).append(content);
      copied = found + 1;
    }
    at.scratch.append(at.text, copied);
    at.text.swap(at.scratch);
  };
}

void read_replace(const JsonTree& settings, Steps& steps) {
  const JsonTree& pattern = settings.at("pattern");
  const std::string content = settings.at("content").string();
  const JsonTree* plain = pattern.find("String");
  if (plain != nullptr && plain->string().size() == 1) {
    steps.push_back(replace_byte(plain->string()[0], content));
    return;
  }
  steps.push_back([find = read_pattern(pattern), content](Normalizing& at) {
    std::vector<Match> parts;
    find(at.text, parts);
    at.scratch.clear();
    // To the wheel the content stands where the last replaced character stood.
    if (!parts.empty() && parts[0].matches && parts[0].end > 0) {
      const bool one = parts[0].end == code_point_at(at.text, 0).size;
      at.at_start = at.at_start && one && !content.empty();
    }
    for (const Match& part : parts) {
      if (part.matches) {
        at.scratch += content;
      } else {
        at.scratch.append(at.text, part.begin, part.end - part.begin);
      }
    }
    at.text.swap(at.scratch);
  });
}

void read_lowercase(const JsonTree&, Steps& steps) {
  steps.push_back(each_character(append_lower));
}

void read_strip(const JsonTree& settings, Steps& steps) {
  const bool left = settings.flag_or("strip_left", true);
  const bool right = settings.flag_or("strip_right", true);
  steps.push_back([left, right](Normalizing& at) {
    std::size_t begin = 0;
    std::size_t end = at.text.size();
    while (left && begin < end && is_space(code_point_at(at.text, begin).value)) {
      begin += code_point_at(at.text, begin).size;
    }
    while (right && begin < end && is_space(code_point_before(at.text, end).value)) {
      end -= code_point_before(at.text, end).size;
    }
    if (begin > 0) at.at_start = false;
    at.text.resize(end);
    at.text.erase(0, begin);
  });
}

void read_strip_accents(const JsonTree&, Steps& steps) {
  steps.push_back(keep_characters([](char32_t value) { return !is_combining_mark(value); }));
}

void append_nmt(std::string& text, char32_t value) {
  const auto between = [value](char32_t first, char32_t last) {
    return first <= value && value <= last;
  };
  const bool goes = between(1, 8) || value == 0xB || between(0xE, 0x1F) || value == 0x7F ||
                    value == 0x8F || value == 0x9F;
  const bool is_blank = value == 0x9 || value == 0xA || value == 0xC || value == 0xD ||
                        value == 0x1680 || between(0x200B, 0x200F) || value == 0x2028 ||
                        value == 0x2029 || value == 0x2581 || value == 0xFEFF || value == 0xFFFD;
  if (!goes) append_utf8(text, is_blank ? U' ' : value);
}

void read_nmt(const JsonTree&, Steps& steps) { steps.push_back(each_character(append_nmt)); }

void read_byte_level(const JsonTree&, Steps& steps) {
  steps.push_back([](Normalizing& at) {
    at.scratch.clear();
    append_byte_level(at.scratch, at.text);
    at.text.swap(at.scratch);
  });
}

// As the wheel applies a charsmap: a grapheme below six bytes becomes what its shortest known start
// becomes; otherwise each character does.
void apply_charsmap(const Charsmap& map, Normalizing& at) {
  at.scratch.clear();
  bool first_stays = true;
  for (std::size_t begin = 0; begin < at.text.size();) {
    const std::size_t end = grapheme_end(at.text, begin);
    const std::string_view grapheme = std::string_view(at.text).substr(begin, end - begin);
    const auto whole = grapheme.size() < 6 ? map.shortest(grapheme) : std::nullopt;
    for (std::size_t i = 0; whole == std::nullopt && i < grapheme.size();) {
      const std::string_view one = grapheme.substr(i, code_point_at(grapheme, i).size);
      const auto rule = map.shortest(one);
      at.scratch += rule ? rule->replacement : one;
      i += one.size();
    }
    if (whole) at.scratch += whole->replacement;
    if (begin == 0) first_stays = !at.scratch.empty();
    begin = end;
  }
  at.text.swap(at.scratch);
  at.at_start = at.at_start && first_stays;
}

void read_precompiled(const JsonTree& settings, Steps& steps) {
  const JsonTree* blob = settings.find("precompiled_charsmap");
  if (blob == nullptr || blob->string().empty()) return;
  const std::string bytes = decode_base64(blob->string(), blob->where);
  steps.push_back(
      [map = Charsmap(bytes, blob->where)](Normalizing& at) { apply_charsmap(map, at); });
}

bool is_chinese(char32_t value) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kRanges) {
    if (first <= value && value <= last) return true;
  }
  return false;
}

void append_spaced(std::string& text, char32_t value) {
  const bool spaced = is_chinese(value);
  if (spaced) text += ' ';
  append_utf8(text, value);
  if (spaced) text += ' ';
}

void read_bert(const JsonTree& settings, Steps& steps) {
  if (settings.flag_or("clean_text", true)) {
    settings.refuse("BertNormalizer with clean_text is not supported");
  }
  const bool lowers = settings.flag_or("lowercase", true);
  if (settings.flag_or("handle_chinese_chars", true)) {
    steps.push_back(each_character(append_spaced));
  }
  if (settings.flag_or("strip_accents", lowers)) {
    steps.push_back(put_in_form(UnicodeForm::kNfd));
    steps.push_back(keep_characters([](char32_t value) { return !is_nonspacing_mark(value); }));
  }
  if (lowers) read_lowercase(settings, steps);
}

struct NormalizerType {
  std::string_view type;
  void (*read)(const JsonTree& settings, Steps& steps);
};

constexpr NormalizerType kTypes[] = {
    {"Sequence", read_sequence},
    {"NFC", read_form},
    {"NFD", read_form},
    {"NFKC", read_form},
    {"NFKD", read_form},
    {"Prepend", read_prepend},
    {"Replace", read_replace},
    {"Lowercase", read_lowercase},
    {"Strip", read_strip},
    {"StripAccents", read_strip_accents},
    {"Nmt", read_nmt},
    {"ByteLevel", read_byte_level},
    {"Precompiled", read_precompiled},
    {"BertNormalizer", read_bert},
};

void read_step(const JsonTree& settings, Steps& steps) {
  const std::string type = settings.at("type").string();
  for (const NormalizerType& kind : kTypes) {
    if (kind.type == type) return kind.read(settings, steps);
  }
  settings.refuse(core::concat("normalizer \"", type, "\" is not supported"));
}

}  // namespace

std::vector<NormalizeStep> read_normalizer(const JsonTree* settings) {
  Steps steps;
  if (settings != nullptr) read_step(*settings, steps);
  return steps;
}

}  // namespace fm::tokenizer
