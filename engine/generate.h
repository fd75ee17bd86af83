// Text from a trained model, for a sanity look: one rank, no key-value cache, the byte tokenizer.
#pragma once

#include <cstdint>
#include <string>

namespace fm::engine {

struct GenerateOptions {
  std::string ckpt;  // Hugging Face folder
  std::string prompt;
  std::int64_t max_new_tokens = 200;
  double temperature = 0.0;  // 0: greedy
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 3407;
};

// The prompt and what follows it; ends early at the end-of-text id. The same options give the same
// text. Throws UserError: 10 for a tokenizer that is not the byte tokenizer, 11 for files.
std::string generate(const GenerateOptions& options);

}  // namespace fm::engine
