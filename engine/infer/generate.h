// Text from a trained model: one prompt, a file of them, a conversation, or how likely texts are.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/types.h"
#include "engine/infer/sampling.h"
#include "engine/options.h"

namespace fm::engine {

struct GenerateOptions {
  std::string ckpt;            // Hugging Face folder
  std::string tokenizer = {};  // folder; empty: ckpt
  LoraOptions lora = {};       // of a PEFT folder; r == 0: none
  core::DType dtype = core::DType::kF32;
  std::string prompt = {};
  std::string prompt_file = {};
  bool chat = false;
  std::string system = {};
  std::string score = {};  // file of texts
  std::string output = {};
  std::int64_t batch_size = 1;
  std::int64_t max_new_tokens = 200;
  std::vector<std::string> stops = {};
  SamplingFlags sampling = {};
};

// Where text goes and comes from.
struct Console {
  std::function<void(std::string_view)> write;
  // A line without its end; nullopt: there is none any more. `cue`: what a person sees before it.
  std::function<std::optional<std::string>(std::string_view cue)> read_line;
  // One line for a person that is no part of the text.
  std::function<void(std::string_view)> note;
};

// The prompt and what follows it, streamed; or a JSON line per prompt of a file, or per text that
// is scored; or a conversation. The same options give the same text (docs/generate.md). Throws
// UserError: 10 for options that do not fit the model, 11 for files.
// `device`: as CachedModel has it.
void generate(const GenerateOptions& options, const Console& console,
              core::Device* device = nullptr);

}  // namespace fm::engine
