// Normalisers of tokenizer.json: what changes the characters of a text before it is cut.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer_file.h"

namespace fm::tokenizer {

// A text that is being normalised.
struct Normalizing {
  std::string text;
  std::string scratch;    // of the steps
  bool at_start = false;  // it begins with the first character of the input
};

using NormalizeStep = std::function<void(Normalizing& at)>;

// The steps of a component, sequences unfolded; none where `settings` is null. Throws UserError
// (11) naming a component that is not supported.
std::vector<NormalizeStep> read_normalizer(const JsonTree* settings);

}  // namespace fm::tokenizer
