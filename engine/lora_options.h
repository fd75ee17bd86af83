// Low-rank adapters of a run.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace fm::engine {

// Low-rank adapters beside frozen weights, as peft's LoraConfig.
struct LoraOptions {
  std::int64_t r = 0;  // 0: every parameter is trained
  double alpha = 8.0;
  double dropout = 0.0;
  bool rslora = false;                       // scale alpha / sqrt(r), not alpha / r
  std::vector<std::string> targets;          // none: the family's usual ones
  std::vector<std::string> modules_to_save;  // trained as they are
  // Of the embedding, and of the head where that is a matrix of its own: rows that are trained
  // beside the adapters (peft's trainable_token_indices); ascending.
  std::vector<std::int64_t> token_rows;
  std::vector<std::string> token_modules;  // the modules with these rows; none: both
  std::string start;                       // PEFT folder with the first adapters; "": fresh ones

  double scale() const {
    const auto rank = static_cast<double>(r);
    return alpha / (rslora ? std::sqrt(rank) : rank);
  }
};

}  // namespace fm::engine
