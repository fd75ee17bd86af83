#include "tests/system/small_job.h"

#include <random>
#include <sstream>
#include <stdexcept>

#include "core/check.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;
using core::concat;

// The characters of a number behind `key` on a line of metrics.jsonl.
std::string number_text(const std::string& line, const std::string& key) {
  const std::string name = "\"" + key + "\": ";
  const std::size_t at = line.find(name);
  if (at == std::string::npos) throw std::runtime_error("no " + key + " in: " + line);
  const std::size_t begin = at + name.size();
  return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

// Whole lines of steps in metrics.jsonl: a killed write may end short.
std::vector<std::string> lines_in(const fs::path& output) {
  const std::string text = content_of(output / "metrics.jsonl");
  std::istringstream whole(text.substr(0, text.rfind('\n') + 1));
  std::vector<std::string> lines;
  for (std::string line; std::getline(whole, line);) {
    if (line.starts_with("{\"step\": ")) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::string small_model(const fs::path& folder) {
  return write_file(folder / "small.json",
                    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 264, "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128})");
}

std::string odd_model(const fs::path& folder, bool tied) {
  return write_file(folder / (tied ? "odd_tied.json" : "odd_untied.json"),
                    concat(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "vocab_size": 777, "hidden_size": 96, "intermediate_size": 250, "num_hidden_layers": 5,
    "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "tie_word_embeddings": )",
                           tied ? "true" : "false", "}"));
}

std::string small_tokens(const fs::path& folder, int rows) {
  std::mt19937 random(11);
  std::string bytes;
  for (int at = 0; at < rows * 33; ++at) {
    const std::int32_t id = static_cast<std::int32_t>(random() % 264);
    bytes.append(reinterpret_cast<const char*>(&id), sizeof id);
  }
  // A rank that still runs refuses a file that is written anew.
  const fs::path path = folder / "tokens.bin";
  return content_of(path) == bytes ? path.string() : write_file(path, bytes);
}

std::string small_config(const fs::path& folder, int zero_stage, const std::string& more) {
  const std::string text = concat(R"({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 1,
    "gradient_clipping": 0.5, "zero_optimization": {"stage": )",
                                  zero_stage, R"(}, "optimizer": {"type": "AdamW",
    "params": {"lr": 1e-2, "weight_decay": 0.1}})",
                                  more.empty() ? "" : ", ", more, "}");
  return write_file(folder / concat("ds", std::hash<std::string>{}(text), ".json"), text);
}

std::string unwrapped(std::string printed) {
  const std::string behind = "\n" + std::string(13, ' ');
  for (std::size_t at = 0; (at = printed.find(behind)) != std::string::npos;) {
    printed.replace(at, behind.size(), " ");
  }
  return printed;
}

std::vector<std::string> words_of(const SmallRun& run) {
  std::vector<std::string> words{FM_PROGRAMS "/fmengine-train",
                                 "--deepspeed_config",
                                 run.config,
                                 "--model_config",
                                 run.model,
                                 "--data_path",
                                 run.data,
                                 "--max_seq_len",
                                 "32",
                                 "--train_steps",
                                 std::to_string(run.steps),
                                 "--save_steps",
                                 std::to_string(run.save_steps),
                                 "--output_dir",
                                 run.output.string()};
  if (!run.data.ends_with(".jsonl")) {
    words.insert(words.end(), {"--data_format", "tokens_i32"});
  }
  words.insert(words.end(), run.more.begin(), run.more.end());
  return words;
}

StepTexts steps_in(const fs::path& output) {
  StepTexts steps;
  for (const std::string& line : lines_in(output)) {
    steps[std::stoi(number_text(line, "step"))] =
        number_text(line, "loss") + " " + number_text(line, "grad_norm");
  }
  return steps;
}

StepTexts numbers_in(const fs::path& output, const std::string& key) {
  StepTexts numbers;
  for (const std::string& line : lines_in(output)) {
    numbers[std::stoi(number_text(line, "step"))] = number_text(line, key);
  }
  return numbers;
}

std::string first_difference(const StepTexts& expected, const StepTexts& got, int count) {
  for (int step = 1; step <= count; ++step) {
    const auto wanted = expected.find(step);
    const auto found = got.find(step);
    if (wanted == expected.end()) return concat("step ", step, " was not expected");
    if (found == got.end()) return concat("step ", step, " is missing");
    if (wanted->second != found->second) {
      return concat("step ", step, ": expected ", wanted->second, ", got ", found->second);
    }
  }
  return got.rbegin()->first == count ? "" : concat("steps after ", count);
}

std::string leftovers_in(const fs::path& output) {
  std::string found;
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".")) found += name + " ";
  }
  return found;
}

void wait_for_step(Job& job, const fs::path& output, int step) {
  const auto written = [&] {
    const StepTexts steps = steps_in(output);
    return !steps.empty() && steps.rbegin()->first >= step;
  };
  bool ended = false;
  eventually(kLimitMs, [&] {
    ended = job.all_gone(0);
    return ended || written();
  });
  if (written()) return;
  const std::string why = ended ? job.wait(0).err : "it takes too long";
  throw std::runtime_error(concat("step ", step, " never came in ", output.string(), ": ", why));
}

}  // namespace fm::system
