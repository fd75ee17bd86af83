#include "machine/texts.h"

#include <algorithm>
#include <sstream>

#include "core/text.h"
#include "core/types.h"

namespace fm::machine {
namespace {

// The text after "key<spaces>:" of the first line that starts with `key`.
std::string field(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// "MemTotal:       24567890 kB": kB means 1,024 bytes there.
core::Bytes memory_field(const std::string& meminfo, const std::string& key) {
  const std::string value = field(meminfo, key);
  return core::Bytes(value.empty() ? 0 : std::atoll(value.c_str()) * 1024);
}

}  // namespace

std::string cpu_model(const std::string& cpuinfo) {
  const std::string model = field(cpuinfo, "model name");
  return model.empty() ? "unknown" : model;
}

std::string instruction_sets(const std::string& cpuinfo) {
  const std::vector<std::string> flags = core::split(field(cpuinfo, "flags"), ' ');
  std::vector<std::string> found;
  for (const char* wanted :
       {"sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
        "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"}) {
    if (std::find(flags.begin(), flags.end(), wanted) != flags.end()) found.emplace_back(wanted);
  }
  return found.empty() ? "none that matter" : core::join(found, " ");
}

std::string memory_line(const std::string& meminfo) {
  return core::human(memory_field(meminfo, "MemTotal")) + ", " +
         core::human(memory_field(meminfo, "MemAvailable")) + " available";
}

std::string ranges(const std::vector<int>& sorted_numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted_numbers.size();) {
    std::size_t end = i + 1;
    while (end < sorted_numbers.size() && sorted_numbers[end] == sorted_numbers[end - 1] + 1) ++end;
    const std::string first = std::to_string(sorted_numbers[i]);
    const bool alone = end == i + 1;
    parts.push_back(alone ? first : first + "-" + std::to_string(sorted_numbers[end - 1]));
    i = end;
  }
  return core::join(parts, ",");
}

}  // namespace fm::machine
