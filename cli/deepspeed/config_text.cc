// Where the text of a configuration comes from: a file, base64, or the command line itself.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/deepspeed/hjson.h"
#include "core/check.h"
#include "core/files/files.h"

namespace fm::cli {
namespace {

// RFC 4648, section 5: letters, digits, - and _; padding may be missing.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  while (text.ends_with('=')) text.remove_suffix(1);
  if (text.empty() || text.size() % 4 == 1) return std::nullopt;
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>((bits >> held) & 0xFF);
  }
  return out;
}

std::string read_file(const std::string& path) {
  core::SmallFile file = core::read_small_file(path, core::kMostConfig, core::FileKind::kAny);
  FM_USER_CHECK(file.problem.empty(),
                "the DeepSpeed configuration must be a readable file; check the path (", path, ": ",
                file.problem, ")");
  return std::move(file.text);
}

// A text that was meant as a configuration may be long.
std::string beginning_of(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

}  // namespace

ConfigText load_config_text(const std::string& path_or_text) {
  FM_USER_CHECK(!path_or_text.ends_with(".yaml") && !path_or_text.ends_with(".yml"),
                "--deepspeed_config must be a DeepSpeed JSON; a YAML file of flags is named by "
                "--config (",
                path_or_text, ")");
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path_or_text, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) {
    return {read_file(path_or_text), path_or_text};
  }
  const std::size_t first = path_or_text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && path_or_text[first] == '{') {
    return {path_or_text, "--deepspeed_config"};
  }
  const std::optional<std::string> decoded = decode_base64(path_or_text);
  const bool json = decoded && decoded->find('{') != std::string::npos;
  FM_USER_CHECK(json,
                "--deepspeed_config must be the path of an existing file, or url-safe base64 "
                "of its text; check the path (received: ",
                beginning_of(path_or_text), ")");
  return {*decoded, "--deepspeed_config (base64)"};
}

}  // namespace fm::cli
