#include "device/card_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <utility>

namespace fm::device {

std::vector<std::string> card_files(const std::filesystem::path& devices) {
  constexpr std::string_view kStart = "nvidia";
  std::vector<std::string> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(devices, none)) {
    const std::string name = entry.path().filename();
    const bool numbered = name.starts_with(kStart) && name.size() > kStart.size() &&
                          name.find_first_not_of("0123456789", kStart.size()) == name.npos;
    if (numbered) files.push_back(entry.path());
  }
  std::ranges::sort(files, {},
                    [](const std::string& file) { return std::pair(file.size(), file); });
  return files;
}

}  // namespace fm::device
