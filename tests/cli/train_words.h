// The words of fmengine-train with what every run needs.
#pragma once

#include <string>
#include <vector>

#include "cli/flags/arguments.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {

using Words = std::vector<std::string>;

inline const std::string kModel = "--model_config=m.json";
inline const std::string kData = "--data_path=d.jsonl";

inline Command parse(Words words) {
  words.insert(words.begin(), {kModel, kData});
  return parse_command(words);
}

inline std::string refusal(const Words& words) {
  return refusal_of([&] { parse(words); });
}

}  // namespace fm::cli
