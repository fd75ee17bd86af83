#include "core/check.h"

#include <cstdio>

namespace fm::core {

std::string readable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 && byte != 0x7F) || c == '\n' || c == '\t') {
      out += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof(code), "\\u%04x", byte);
    out += code;
  }
  return out;
}

void throw_bug(const char* file, int line, const char* condition, const std::string& message) {
  throw BugError(concat("fmengine defect: ", message, " (", condition, " at ", file, ":", line,
                        "); please report it with the command line and the configuration"));
}

}  // namespace fm::core
