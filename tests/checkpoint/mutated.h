// Files with small damage, for readers that must refuse or stay sound.
#pragma once

#include <random>
#include <string>
#include <string_view>

namespace fm::testing {

// One to three changes: any byte, one of `letters`, bytes lost or doubled, an early end.
inline std::string mutated(std::string file, std::string_view letters, std::mt19937& random) {
  const auto changes = 1 + random() % 3;
  for (unsigned long change = 0; change < changes && !file.empty(); ++change) {
    const std::size_t at = random() % file.size();
    switch (random() % 6) {
      case 0: file[at] = static_cast<char>(random() % 256); break;
      case 1: file[at] = letters[random() % letters.size()]; break;
      case 2: file.insert(at, 1, letters[random() % letters.size()]); break;
      case 3: file.erase(at, 1 + random() % 4); break;
      case 4: file.insert(at, file.substr(random() % file.size(), random() % 40)); break;
      default:  // the fifth: the file ends early
        file.resize(at);
        break;
    }
  }
  return file;
}

}  // namespace fm::testing
