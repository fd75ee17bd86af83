#include "engine/shown/next_commands.h"

#include "comm/agree.h"
#include "core/check.h"
#include "core/shell_word.h"
#include "core/text.h"
#include "engine/plan/export_dtype.h"
#include "engine/plan/run_model.h"
#include "engine/state/persistence.h"
#include "text/prepare/answer_rows.h"

namespace fm::engine {

std::string exported_words(const TrainOptions& options, const model::ModelFacts& facts) {
  const core::DType dtype = export_dtype_of(options, facts);
  const bool as_init = !options.export_dtype && !weights_folder(options).empty();
  std::string words = core::concat(options.output_dir, "/hf, ", core::name_of(dtype));
  if (as_init && dtype != core::DType::kF32) {
    words += " as in " + weights_folder(options).string() + " (see --export_dtype)";
  }
  if (options.lora.r > 0) words += core::concat("; ", options.output_dir, "/adapter for peft");
  return words;
}

// A hint depends on it, so what cannot be read is none.
bool begins_with_chat(const TrainOptions& options) {
  bool chat = false;
  comm::attempt([&] {
    chat = prepare::begins_with_chat(options.data_path, options.data_format, options.rows);
  });
  return chat;
}

std::vector<std::string> next_commands(const TrainOptions& options, const RunContext& context) {
  const auto command = [&](const char* program) {
    return core::shell_word(context.programs + program);
  };
  const std::string model = core::shell_word(options.output_dir + "/hf");
  std::vector<std::string> commands;
  if (!knows_tokenizer(options)) {
    commands.push_back("AutoModelForCausalLM.from_pretrained(\"" + options.output_dir +
                       "/hf\") of transformers");
  } else {
    commands.push_back(
        core::concat(command("fmengine-generate"), " --ckpt ", model,
                     begins_with_chat(options) ? " --chat" : " --prompt \"Once upon a time\""));
  }
  commands.push_back(
      core::concat(command("fmengine-report"), " ", core::shell_word(options.output_dir)));
  return commands;
}

}  // namespace fm::engine
