#include "text/tokenizer/pre_tokenizer.h"

#include <array>
#include <utility>

#include "core/check.h"
#include "text/tokenizer/scanners.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

constexpr int kByteCharacters = 0x144;  // the last stands for byte 173

std::array<char32_t, 256> make_byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    characters[byte] = itself ? byte : next++;
  }
  return characters;
}

const std::array<char32_t, 256> kCharacterOf = make_byte_characters();

std::array<std::int16_t, kByteCharacters> make_character_bytes() {
  std::array<std::int16_t, kByteCharacters> bytes{};
  bytes.fill(-1);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    bytes[make_byte_characters()[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

const std::array<std::int16_t, kByteCharacters> kByteOf = make_character_bytes();

bool matches_all(const Match&) { return true; }

// Keeps the parts that `keeps` accepts, each a piece.
template <class Keeps>
void add_parts(Pieces& pieces, const Piece& piece, Keeps keeps) {
  for (const Match& part : pieces.matches) {
    if (!keeps(part)) continue;
    pieces.add(piece.text.substr(part.begin, part.end - part.begin),
               piece.at_start && part.begin == 0);
  }
}

// Joins parts as the `tokenizers` library folds matches: `joins(part, before)` tells whether a part
// belongs to the part before it.
template <class Joins>
void join_parts(std::vector<Match>& parts, Joins joins) {
  std::vector<Match> joined;
  bool before = false;
  for (const Match& part : parts) {
    if (joins(part.matches, before) && !joined.empty()) {
      joined.back().begin = std::min(joined.back().begin, part.begin);
      joined.back().end = std::max(joined.back().end, part.end);
    } else {
      joined.push_back(part);
    }
    before = part.matches;
  }
  parts.swap(joined);
}

bool joins_neighbour(bool matches, bool before) { return matches && !before; }

void add_by(Behavior behavior, Pieces& pieces, const Piece& piece) {
  switch (behavior) {
    case Behavior::kRemoved:
      return add_parts(pieces, piece, [](const Match& part) { return !part.matches; });
    case Behavior::kIsolated: return add_parts(pieces, piece, matches_all);
    case Behavior::kContiguous:
      join_parts(pieces.matches, [](bool matches, bool before) { return matches == before; });
      return add_parts(pieces, piece, matches_all);
    case Behavior::kMergedWithPrevious:
      join_parts(pieces.matches, joins_neighbour);
      return add_parts(pieces, piece, matches_all);
    case Behavior::kMergedWithNext:
      std::reverse(pieces.matches.begin(), pieces.matches.end());
      join_parts(pieces.matches, joins_neighbour);
      std::reverse(pieces.matches.begin(), pieces.matches.end());
      return add_parts(pieces, piece, matches_all);
  }
}

Behavior read_behavior(const JsonTree& settings) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous},
  };
  const std::string name = settings.string_or("behavior", "Isolated");
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  settings.refuse(core::concat("behavior \"", name, "\" is not supported; Removed, Isolated, ",
                               "MergedWithPrevious, MergedWithNext and Contiguous are"));
}

FindParts find_text(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text, std::vector<Match>& found) {
    std::size_t prior = 0;
    for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, prior)) {
      if (prior < at) found.push_back({prior, at, false});
      found.push_back({at, at + wanted.size(), true});
      prior = at + wanted.size();
    }
    if (prior < text.size()) found.push_back({prior, text.size(), false});
  };
}

FindParts inverted(FindParts find) {
  return [find = std::move(find)](std::string_view text, std::vector<Match>& found) {
    find(text, found);
    for (Match& part : found) part.matches = !part.matches;
  };
}

void read_step(const JsonTree& settings, std::vector<SplitStep>& steps);

void read_split(const JsonTree& settings, std::vector<SplitStep>& steps) {
  FindParts find = read_pattern(settings.at("pattern"));
  if (settings.flag_or("invert", false)) find = inverted(std::move(find));
  steps.push_back(split_by(std::move(find), read_behavior(settings)));
}

// \w+|[^\w\s]+
std::size_t scan_words(std::string_view text, std::size_t at) {
  const CodePoint first = code_point_at(text, at);
  if (is_space(first.value)) return at;
  const bool word = is_word(first.value);
  for (at += first.size; at < text.size();) {
    const CodePoint next = code_point_at(text, at);
    if (is_space(next.value) || is_word(next.value) != word) break;
    at += next.size;
  }
  return at;
}

// Writes every piece in the characters that stand for its bytes, after the prefix and the split
// that `settings` ask for.
void read_byte_level(const JsonTree& settings, bool maps, std::vector<SplitStep>& steps) {
  if (settings.flag_or("add_prefix_space", true)) {
    steps.push_back([](Pieces& pieces) {
      for (const Piece& piece : pieces.now) {
        std::string_view text = piece.text;
        if (!text.starts_with(' ')) text = (pieces.new_text() = " ").append(text);
        pieces.add(text, piece.at_start);
      }
      pieces.finish_step();
    });
  }
  if (settings.flag_or("use_regex", true)) {
    steps.push_back(split_by(find_by(scan_gpt2), Behavior::kIsolated));
  }
  if (!maps) return;
  steps.push_back([](Pieces& pieces) {
    for (const Piece& piece : pieces.now) {
      std::string& text = pieces.new_text();
      append_byte_level(text, piece.text);
      pieces.add(text, piece.at_start);
    }
    pieces.finish_step();
  });
}

enum class Prepend : std::uint8_t { kAlways, kFirst, kNever };

Prepend read_prepend(const JsonTree& settings) {
  const std::string scheme = settings.string_or("prepend_scheme", "always");
  const bool adds = settings.flag_or("add_prefix_space", true);
  if (scheme == "never" || !adds) return Prepend::kNever;
  if (scheme == "first") return Prepend::kFirst;
  if (scheme != "always") {
    settings.refuse(core::concat("prepend_scheme \"", scheme,
                                 "\" is not supported; always, first and never are"));
  }
  return Prepend::kAlways;
}

void read_metaspace(const JsonTree& settings, std::vector<SplitStep>& steps) {
  const std::string mark = settings.string_or("replacement", kMetaSpace);
  const Prepend prepend = read_prepend(settings);
  steps.push_back([mark, prepend](Pieces& pieces) {
    for (const Piece& piece : pieces.now) {
      std::string& text = pieces.new_text();
      const bool adds =
          prepend == Prepend::kAlways || (prepend == Prepend::kFirst && piece.at_start);
      if (adds && !piece.text.starts_with(' ') && !piece.text.starts_with(mark)) text = mark;
      for (const char letter : piece.text) {
        if (letter == ' ') {
          text += mark;
        } else {
          text += letter;
        }
      }
      pieces.add(text, piece.at_start);
    }
    pieces.finish_step();
  });
  if (settings.flag_or("split", true)) {
    steps.push_back(split_by(find_text(mark), Behavior::kMergedWithNext));
  }
}

void read_digits(const JsonTree& settings, std::vector<SplitStep>& steps) {
  const bool one_by_one = settings.flag_or("individual_digits", false);
  steps.push_back(split_by(find_characters(is_numeric),
                           one_by_one ? Behavior::kIsolated : Behavior::kContiguous));
}

void read_simple(const JsonTree& settings, std::vector<SplitStep>& steps) {
  const std::string type = settings.at("type").string();
  if (type == "Whitespace") {
    steps.push_back(split_by(inverted(find_by(scan_words)), Behavior::kRemoved));
  } else {  // WhitespaceSplit, BertPreTokenizer
    steps.push_back(split_by(find_characters(is_space), Behavior::kRemoved));
    if (type == "BertPreTokenizer") {
      steps.push_back(split_by(find_characters(is_old_punctuation), Behavior::kIsolated));
    }
  }
}

void read_punctuation(const JsonTree& settings, std::vector<SplitStep>& steps) {
  steps.push_back(split_by(find_characters(is_old_punctuation), read_behavior(settings)));
}

void read_delimiter(const JsonTree& settings, std::vector<SplitStep>& steps) {
  steps.push_back(split_by(find_text(settings.at("delimiter").string()), Behavior::kRemoved));
}

void read_sequence(const JsonTree& settings, std::vector<SplitStep>& steps) {
  for (const JsonTree& part : settings.at("pretokenizers").array()) read_step(part, steps);
}

void read_mapped_byte_level(const JsonTree& settings, std::vector<SplitStep>& steps) {
  read_byte_level(settings, true, steps);
}

struct PreTokenizerType {
  std::string_view type;
  void (*read)(const JsonTree& settings, std::vector<SplitStep>& steps);
};

constexpr PreTokenizerType kTypes[] = {
    {"Sequence", read_sequence},
    {"Split", read_split},
    {"ByteLevel", read_mapped_byte_level},
    {"Metaspace", read_metaspace},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_simple},
    {"WhitespaceSplit", read_simple},
    {"BertPreTokenizer", read_simple},
    {"CharDelimiterSplit", read_delimiter},
};

void read_step(const JsonTree& settings, std::vector<SplitStep>& steps) {
  const std::string type = settings.at("type").string();
  for (const PreTokenizerType& kind : kTypes) {
    if (kind.type == type) return kind.read(settings, steps);
  }
  settings.refuse(core::concat("pre-tokenizer \"", type, "\" is not supported"));
}

// The last component when sequences are unfolded, null when there is none.
const JsonTree* last_of(const JsonTree& settings) {
  if (settings.at("type").string() != "Sequence") return &settings;
  const std::vector<JsonTree>& parts = settings.at("pretokenizers").array();
  return parts.empty() ? nullptr : last_of(parts.back());
}

void read_all_but(const JsonTree& settings, const JsonTree* last, std::vector<SplitStep>& steps) {
  if (&settings == last) return read_byte_level(settings, false, steps);
  if (settings.at("type").string() != "Sequence") return read_step(settings, steps);
  for (const JsonTree& part : settings.at("pretokenizers").array()) {
    read_all_but(part, last, steps);
  }
}

}  // namespace

FindParts find_by(Scanner scanner) {
  return [scanner](std::string_view text, std::vector<Match>& found) {
    std::size_t prior = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = scanner(text, at);
      if (end == at) {
        at += code_point_at(text, at).size;
        continue;
      }
      if (prior < at) found.push_back({prior, at, false});
      found.push_back({at, end, true});
      prior = at = end;
    }
    if (prior < text.size()) found.push_back({prior, text.size(), false});
  };
}

FindParts find_characters(bool (*wanted)(char32_t)) {
  return [wanted](std::string_view text, std::vector<Match>& found) {
    std::size_t prior = 0;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      if (wanted(point.value)) {
        if (prior < at) found.push_back({prior, at, false});
        found.push_back({at, at + point.size, true});
        prior = at + point.size;
      }
      at += point.size;
    }
    if (prior < text.size()) found.push_back({prior, text.size(), false});
  };
}

FindParts read_pattern(const JsonTree& pattern) {
  if (const JsonTree* text = pattern.find("String")) {
    if (text->string().empty()) text->refuse("a pattern must have characters; correct the file");
    return find_text(text->string());
  }
  const JsonTree& regex = pattern.at("Regex");
  if (const Scanner scanner = find_scanner(regex.string())) return find_by(scanner);
  return [compiled = Regex(regex.string(), regex.where)](
             std::string_view text, std::vector<Match>& found) { compiled.find_all(text, found); };
}

SplitStep split_by(FindParts find, Behavior behavior) {
  return [find = std::move(find), behavior](Pieces& pieces) {
    for (const Piece& piece : pieces.now) {
      pieces.matches.clear();
      find(piece.text, pieces.matches);
      add_by(behavior, pieces, piece);
    }
    pieces.finish_step();
  };
}

PreTokenizer read_pre_tokenizer(const JsonTree* settings, bool may_leave_bytes) {
  PreTokenizer made;
  if (settings == nullptr) return made;
  const JsonTree* last = last_of(*settings);
  made.byte_level = may_leave_bytes && last != nullptr && last->at("type").string() == "ByteLevel";
  read_all_but(*settings, made.byte_level ? last : nullptr, made.steps);
  return made;
}

char32_t byte_character(unsigned char byte) { return kCharacterOf[byte]; }

int character_byte(char32_t value) { return value < kByteCharacters ? kByteOf[value] : -1; }

void append_byte_level(std::string& text, std::string_view bytes) {
  for (const char byte : bytes) append_utf8(text, kCharacterOf[static_cast<unsigned char>(byte)]);
}

}  // namespace fm::tokenizer
