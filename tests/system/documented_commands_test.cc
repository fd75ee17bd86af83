// The commands that documents print for fine-tuning, run as they stand there.
#include <regex>
#include <sstream>

#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"
#include "tests/text/prepare/small_tokenizer.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;

// Those of a document that begin and go on so, without the ends of lines.
std::vector<std::string> commands_of(const std::string& document, const std::string& begin,
                                     const std::string& holds) {
  const std::string text = content_of(fs::path(FM_SOURCES) / document);
  std::vector<std::string> found;
  for (std::size_t at = 0; (at = text.find("\n" + begin, at)) != std::string::npos;) {
    std::string command;
    do {
      const std::size_t end = text.find('\n', ++at);
      command += text.substr(at, end - at);
      at = end;
    } while (command.ends_with('\\') && (command.pop_back(), true));
    if (command.find(holds) != std::string::npos) found.push_back(command);
  }
  return found;
}

// Those that train a given model.
std::vector<std::string> commands_of(const std::string& document) {
  return commands_of(document, "mpirun ", "HF_FOLDER");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return std::regex_replace(text, std::regex(from), to);
}

class DocumentedCommands : public SystemCase {
 protected:
  // Chats of some 900 tokens, so that a step of every command has its rows.
  std::string chats() const {
    const std::string a(400, 'a');
    const std::string b(400, 'b');
    std::string text;
    for (int at = 0; at < 40; ++at) {
      text += R"({"messages": [{"role": "user", "content": ")" + a +
              R"("}, {"role": "assistant", "content": ")" + b + "\"}]}\n";
    }
    return write_file(folder() / "chats.jsonl", text);
  }
  // A Hugging Face folder with weights, tokenizer and chat template.
  std::string model() {
    const fs::path tokenizer = folder() / "tokenizer";
    write_file(tokenizer / "tokenizer.json", prepare::small_tokenizer());
    write_file(tokenizer / "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    write_file(tokenizer / "chat_template.jinja", prepare::kChatMl);
    const SmallRun first{.config = small_config(folder(), 0),
                         .model = write_file(folder() / "long.json", R"({"model_type": "llama",
            "architectures": ["LlamaForCausalLM"], "vocab_size": 264, "hidden_size": 32,
            "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 2, "max_position_embeddings": 2048})"),
                         .data = chats(),
                         .output = folder() / "base",
                         .steps = 1,
                         .more = {"--tokenizer", tokenizer.string(), "--packing", "concat"}};
    run_well({.words = words_of(first), .variables = {}});
    return (folder() / "base" / "hf").string();
  }
};

TEST_F(DocumentedCommands, OfFineTuningRunAsPrinted) {
  std::vector<std::string> commands = commands_of("README.md");
  const std::vector<std::string> more = commands_of("docs/finetuning.md");
  commands.insert(commands.end(), more.begin(), more.end());
  ASSERT_EQ(commands.size(), 3U);
  const std::string base = model();
  int number = 0;
  for (std::string command : commands) {
    const fs::path output = folder() / ("run" + std::to_string(++number));
    command = replaced(command, "HF_FOLDER", base);
    command = replaced(command, "chats.jsonl", (folder() / "chats.jsonl").string());
    command = replaced(command, "configs/", FM_SOURCES "/configs/");
    command = replaced(command, "--train_steps 1000", "--train_steps 2");
    command = replaced(command, "--output_dir output", "");
    std::istringstream words(command);
    Launch launch{.starter = Starter::kMpirun, .words = {}, .variables = {}};
    std::string word;
    words >> word >> word >> launch.ranks >> word;  // mpirun -np N build/fmengine-train
    ASSERT_EQ(word, "build/fmengine-train");
    launch.words.push_back(FM_PROGRAMS "/fmengine-train");
    while (words >> word) launch.words.push_back(word);
    launch.words.insert(launch.words.end(), {"--output_dir", output.string()});
    const Ended ended = run_well(launch);
    EXPECT_TRUE(fs::exists(output / "hf" / "model.safetensors")) << command;
    EXPECT_EQ(ended.out.find("may forget"), std::string::npos) << "a rate for random weights";
    EXPECT_EQ(ended.out.find("train nothing"), std::string::npos) << ended.out;
  }
}

TEST_F(DocumentedCommands, OfTiersPlanAsPrinted) {
  const auto commands = commands_of("docs/offload.md", "build/fmengine-train ", "--plan");
  ASSERT_EQ(commands.size(), 1U);
  Launch launch{.starter = Starter::kAlone, .words = {}, .variables = {}};
  std::istringstream words(replaced(commands[0], "configs/", FM_SOURCES "/configs/"));
  std::string word;
  words >> word;
  launch.words.push_back(FM_PROGRAMS "/fmengine-train");
  while (words >> word) launch.words.push_back(word);
  const std::string plan = run_well(launch).out;
  EXPECT_NE(plan.find("tiers optimizer on NVMe (nvme), parameters on NVMe (nvme)"),
            std::string::npos)
      << plan;
  EXPECT_NE(plan.find("  wear "), std::string::npos) << plan;
}

}  // namespace
}  // namespace fm::system
