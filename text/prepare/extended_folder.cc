#include "text/prepare/extended_folder.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "core/check.h"
#include "core/files/files.h"
#include "text/chat/answers.h"
#include "text/chat/model_folder.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/tokenizer.h"

namespace fm::prepare {
namespace {

using tokenizer::TokenId;
using tokenizer::Tokenizer;

constexpr const char* kGeneration = "generation_config.json";
constexpr std::string_view kAnswer = "Zwq7";  // no template writes it by itself

jinja::Value message(const char* role, std::string_view content) {
  return jinja::make_dict({{"role", role}, {"content", std::string(content)}});
}

std::optional<chat::ChatFormat> format_of(const ChatFolder& at, const core::FileTexts& texts) {
  if (at.template_file.empty()) return chat::read_chat_format(at.folder, texts);
  return chat::read_chat_format(at.folder, at.template_file, texts);
}

// A question with its answer; "" where the template refuses it.
std::string short_chat(const chat::ChatFormat& format) {
  chat::Conversation conversation;
  conversation.messages = {message("user", "Hello."), message("assistant", kAnswer)};
  try {
    return chat::render(conversation, format, false, 0);
  } catch (const std::exception&) {
    return "";
  }
}

// The special token that follows an answer, or kNoToken.
TokenId end_of_turn(const chat::ChatFormat& format, const Tokenizer& tokenizer) {
  const std::string text = short_chat(format);
  const std::size_t answer = text.rfind(kAnswer);
  if (answer == text.npos) return tokenizer::kNoToken;
  const std::size_t begin = text.find_first_not_of(" \t\r\n", answer + kAnswer.size());
  if (begin == text.npos) return tokenizer::kNoToken;
  const std::string_view rest = std::string_view(text).substr(begin);
  TokenId found = tokenizer::kNoToken;
  std::size_t longest = 0;
  for (const auto& [id, token] : tokenizer.added_with({})) {
    const bool longer = token.special && token.content.size() > longest;
    if (!longer || !rest.starts_with(token.content)) continue;
    found = id;
    longest = token.content.size();
  }
  return found;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c >= 0x80;
  });
}

// "<|name|>", or Gemma's "<start_of_turn>" and "<end_of_turn>"; "": something else begins here.
std::string_view marker_at(std::string_view text) {
  for (const std::string_view turn : {"<start_of_turn>", "<end_of_turn>"}) {
    if (text.starts_with(turn)) return turn;
  }
  if (!text.starts_with("<|")) return "";
  const std::size_t end = text.find("|>", 2);
  if (end == text.npos || !is_name(text.substr(2, end - 2))) return "";
  return text.substr(0, end + 2);
}

}  // namespace

core::FileTexts extended_folder(const ChatFolder& at, const tokenizer::ExtraTokens& extra) {
  core::FileTexts texts = tokenizer::with_tokens(at.folder, extra);
  if (extra.none()) return texts;
  const std::optional<chat::ChatFormat> format = format_of(at, texts);
  if (!format) return texts;
  const auto tokenizer = tokenizer::open_tokenizer(at.folder.string(), texts);
  const TokenId end = end_of_turn(*format, *tokenizer);
  if (end == tokenizer::kNoToken) return texts;
  std::string given = texts.contains(kGeneration) ? texts[kGeneration] : "";
  if (given.empty()) {  // "" where there is no such file
    given = core::read_small_file(at.folder / kGeneration, core::kMostConfig).text;
  }
  texts[kGeneration] = tokenizer::with_end(given, end, *tokenizer);
  return texts;
}

std::vector<std::string> markers_without_token(const ChatFolder& at, const core::FileTexts& texts) {
  const std::optional<chat::ChatFormat> format = format_of(at, texts);
  if (!format) return {};
  const auto tokenizer = tokenizer::open_tokenizer(at.folder.string(), texts);
  const std::string text = short_chat(*format);
  std::vector<std::string> markers;
  for (std::size_t at_byte = text.find('<'); at_byte != text.npos;
       at_byte = text.find('<', at_byte + 1)) {
    const std::string marker(marker_at(std::string_view(text).substr(at_byte)));
    const bool known = marker.empty() || std::ranges::find(markers, marker) != markers.end() ||
                       tokenizer->token_to_id(marker) != tokenizer::kNoToken;
    if (!known) markers.push_back(marker);
  }
  return markers;
}

}  // namespace fm::prepare
