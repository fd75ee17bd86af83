#include "text/tokenizer/token_decoder.h"

#include <cctype>
#include <utility>

#include "core/check.h"
#include "core/text.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/unicode/unicode.h"

namespace fm::tokenizer {
namespace {

using Tokens = std::vector<std::string>;
using Steps = std::vector<DecodeStep>;

void replace_all(std::string& text, std::string_view wanted, std::string_view content) {
  if (wanted.empty()) return;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at)) {
    text.replace(at, wanted.size(), content);
    at += content.size();
  }
}

void fuse(Tokens& tokens) { tokens = {core::join(tokens, "")}; }

// The byte of a token <0xAB>, -1 for others.
int byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char letter : token.substr(3, 2)) {
    if (std::isxdigit(static_cast<unsigned char>(letter)) == 0) {
      // "+5" is a number for Rust, too.
      if (letter == '+' && &letter == token.data() + 3) continue;
      return -1;
    }
    value = 16 * value + (letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10);
  }
  return value;
}

void read_step(const JsonTree& settings, Steps& steps);

void read_sequence(const JsonTree& settings, Steps& steps) {
  for (const JsonTree& part : settings.at("decoders").array()) read_step(part, steps);
}

// The bytes of all tokens; a token with a character that stands for no byte is text itself.
void decode_byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const std::size_t before = bytes.size();
    for (std::size_t at = 0; at < token.size();) {
      const CodePoint point = code_point_at(token, at);
      const int byte = character_byte(point.value);
      if (byte < 0) {
        bytes.resize(before);
        bytes += token;
        break;
      }
      bytes += static_cast<char>(byte);
      at += point.size;
    }
  }
  tokens = {replace_invalid_utf8(bytes)};
}

void read_byte_level(const JsonTree&, Steps& steps) { steps.emplace_back(decode_byte_level); }
void read_byte_fallback(const JsonTree&, Steps& steps) { steps.emplace_back(decode_byte_fallback); }
void read_fuse(const JsonTree&, Steps& steps) { steps.emplace_back(fuse); }

void read_replace(const JsonTree& settings, Steps& steps) {
  steps.push_back([find = read_pattern(settings.at("pattern")),
                   content = settings.at("content").string()](Tokens& tokens) {
    std::vector<Match> parts;
    for (std::string& token : tokens) {
      parts.clear();
      find(token, parts);
      std::string made;
      for (const Match& part : parts) {
        made += part.matches ? content : token.substr(part.begin, part.end - part.begin);
      }
      token = std::move(made);
    }
  });
}

std::size_t read_count(const JsonTree& settings, std::string_view key) {
  const std::int64_t count = settings.at(key).whole();
  if (count < 0) settings.refuse(core::concat(key, " must not be negative; correct the file"));
  return static_cast<std::size_t>(count);
}

void read_strip(const JsonTree& settings, Steps& steps) {
  const std::string content = settings.at("content").string();
  if (content.empty()) settings.refuse("content must be one character; correct the file");
  const std::size_t start = read_count(settings, "start");
  const std::size_t stop = read_count(settings, "stop");
  steps.push_back([content, start, stop](Tokens& tokens) {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (std::size_t i = 0; i < start && left.starts_with(content); ++i) {
        left.remove_prefix(content.size());
      }
      for (std::size_t i = 0; i < stop && left.ends_with(content); ++i) {
        left.remove_suffix(content.size());
      }
      token = std::string(left);
    }
  });
}

void read_metaspace(const JsonTree& settings, Steps& steps) {
  const std::string mark = settings.string_or("replacement", kMetaSpace);
  const bool prepends = settings.string_or("prepend_scheme", "always") != "never" &&
                        settings.flag_or("add_prefix_space", true);
  steps.push_back([mark, prepends](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], mark, i == 0 && prepends ? "" : " ");
    }
  });
}

void read_bpe(const JsonTree& settings, Steps& steps) {
  steps.push_back([suffix = settings.string_or("suffix", "</w>")](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    }
  });
}

void clean_up(std::string& token) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [wanted, content] : kRules) replace_all(token, wanted, content);
}

void read_word_piece(const JsonTree& settings, Steps& steps) {
  const std::string prefix = settings.string_or("prefix", "##");
  const bool cleans = settings.flag_or("cleanup", true);
  steps.push_back([prefix, cleans](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix)) {
        tokens[i].erase(0, prefix.size());
      } else if (i > 0) {
        tokens[i].insert(0, " ");
      }
      if (cleans) clean_up(tokens[i]);
    }
  });
}

struct DecoderType {
  std::string_view type;
  void (*read)(const JsonTree& settings, Steps& steps);
};

constexpr DecoderType kTypes[] = {
    {"Sequence", read_sequence},
    {"ByteLevel", read_byte_level},
    {"Replace", read_replace},
    {"ByteFallback", read_byte_fallback},
    {"Fuse", read_fuse},
    {"Strip", read_strip},
    {"Metaspace", read_metaspace},
    {"BPEDecoder", read_bpe},
    {"WordPiece", read_word_piece},
};

void read_step(const JsonTree& settings, Steps& steps) {
  const std::string type = settings.at("type").string();
  for (const DecoderType& kind : kTypes) {
    if (kind.type == type) return kind.read(settings, steps);
  }
  settings.refuse(core::concat("decoder \"", type, "\" is not supported"));
}

}  // namespace

void decode_byte_fallback(Tokens& tokens) {
  Tokens made;
  std::string bytes;
  const auto finish = [&] {
    if (bytes.empty()) return;
    if (valid_utf8(bytes) == bytes.size()) {
      made.push_back(bytes);
    } else {
      made.insert(made.end(), bytes.size(), std::string(kReplacement));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    finish();
    made.push_back(std::move(token));
  }
  finish();
  tokens = std::move(made);
}

std::vector<DecodeStep> read_decoder(const JsonTree* settings) {
  Steps steps;
  if (settings != nullptr) {
    read_step(*settings, steps);
  } else {
    steps.emplace_back([](Tokens& tokens) { tokens = {core::join(tokens, " ")}; });
  }
  return steps;
}

}  // namespace fm::tokenizer
