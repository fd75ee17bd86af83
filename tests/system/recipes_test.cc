// What docs/recipes.md prints is run as it stands there, and README's rates do a model no harm.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// UTF-8 of a code point below 2^11.
std::string utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's alphabet, a token per byte, and ChatML's two tokens.
std::string byte_tokenizer() {
  json vocab = json::object();
  int others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool shown = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    vocab[utf8(shown ? byte : 256 + others++)] = byte;
  }
  const auto token = [](int id, const char* text) {
    return json{{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const json level = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  return json{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"added_tokens", {token(256, "<|im_start|>"), token(257, "<|im_end|>")}},
              {"normalizer", nullptr},
              {"pre_tokenizer", level},
              {"post_processor", nullptr},
              {"decoder", level},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false},
                {"vocab", vocab},
                {"merges", json::array()}}}}
      .dump();
}

// A block that starts programs of ours, and the next one, which shows what they print.
struct Script {
  std::string words;
  std::string prints;
};

std::vector<Script> scripts_of(const std::string& document) {
  const std::string text = content_of(fs::path(FM_SOURCES) / document);
  std::vector<Script> found;
  for (std::size_t at = 0; (at = text.find("\n```\n", at)) != std::string::npos;) {
    const std::size_t first = at + 5;
    const std::size_t end = text.find("\n```\n", first);
    const std::string block = text.substr(first, end + 1 - first);
    if (block.find("\nbuild/") != std::string::npos) {
      found.push_back({block, ""});
    } else if (!found.empty() && found.back().prints.empty()) {
      found.back().prints = block;
    }
    at = end + 4;
  }
  return found;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Words with one space between two: a banner is as wide as its terminal.
std::string one_line(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  for (std::string word; in >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

// The first part of `prints`, a line or what "..." leaves of it, that is not in `said` behind the
// parts before it; "": all are.
std::string missing(const std::string& prints, const std::string& said) {
  const std::string whole = one_line(said);
  std::istringstream lines(replaced(prints, "...", "\n"));
  std::size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string part = one_line(line);
    const std::size_t found = whole.find(part, at);
    if (found == std::string::npos) return part;
    at = found + part.size();
  }
  return "";
}

class Recipes : public SystemCase {
 protected:
  // Where documents are read: programs, JSON files, and a model.
  Recipes() {
    fs::create_directory_symlink(FM_PROGRAMS, folder() / "build");
    fs::create_directory_symlink(FM_SOURCES "/configs", folder() / "configs");
  }

  Ended run_script(const std::string& script) {
    return run_well({.starter = Starter::kAlone,
                     .words = {"/bin/bash", "-e", "-c", "cd " + folder().string() + "\n" + script},
                     .variables = {"OMPI_MCA_rmaps_base_oversubscribe=1"}});
  }
  // Trains a Llama with one layer of 64 and positions for `length` tokens.
  void train_base(int length, const std::string& data, int steps, std::vector<std::string> more) {
    const SmallRun run{
        .config = small_config(folder(), 0),
        .model = write_file(folder() / "llama.json", core::concat(R"({"model_type": "llama",
              "architectures": ["LlamaForCausalLM"], "vocab_size": 264, "hidden_size": 64,
              "intermediate_size": 176, "num_hidden_layers": 1, "num_attention_heads": 4,
              "num_key_value_heads": 2, "max_position_embeddings": )",
                                                                  length, "}")),
        .data = data,
        .output = folder() / "base",
        .steps = steps,
        .more = std::move(more)};
    std::vector<std::string> words = words_of(run);
    *std::ranges::find(words, "32") = std::to_string(std::min(length, 256));  // --max_seq_len
    run_well({.words = words, .variables = {}});
    fs::create_directory_symlink(folder() / "base" / "hf", folder() / "HF_FOLDER");
  }
};

TEST_F(Recipes, RunAsPrinted) {
  const fs::path tokenizer = folder() / "tokenizer";
  write_file(tokenizer / "tokenizer.json", byte_tokenizer());
  write_file(tokenizer / "tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  write_file(tokenizer / "chat_template.jinja",
             "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
             "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const std::string line = "{\"text\": \"" + std::string(1200, 'a') + "\"}\n";
  train_base(2048, write_file(folder() / "first.jsonl", line), 1,
             {"--tokenizer", tokenizer.string()});
  const std::vector<Script> scripts = scripts_of("docs/recipes.md");
  ASSERT_EQ(scripts.size(), 3U);
  for (const Script& script : scripts) {
    const Ended ended = run_script(script.words);
    EXPECT_EQ(missing(script.prints, ended.out), "") << ended.out;
    EXPECT_NE(script.prints, "") << script.words;
    EXPECT_EQ(ended.out.find("learn where to stop"), std::string::npos) << ended.out;
    EXPECT_EQ(ended.out.find("longer than a row"), std::string::npos) << ended.out;
  }
  for (const char* const file : {"output-chats/hf/model.safetensors", "output-lora/adapter",
                                 "output-text/hf/model.safetensors"}) {
    EXPECT_TRUE(fs::exists(folder() / file)) << file;
  }
  EXPECT_NE(content_of(folder() / "scores.jsonl").find("\"perplexity\""), std::string::npos);
}

// Of the documents of this tree: paragraphs of at most 250 bytes, every tenth of them apart.
struct Corpus {
  std::string training, held;
};
Corpus corpus() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(FM_SOURCES "/docs")) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  Corpus corpus;
  int number = 0;
  for (const fs::path& file : files) {
    const std::string text = content_of(file);
    for (std::size_t at = 0; at < text.size(); at += 250) {
      const std::string line =
          json{{"text", text.substr(at, 250)}}.dump(-1, ' ', true, json::error_handler_t::replace) +
          "\n";
      (++number % 10 == 0 ? corpus.held : corpus.training) += line;
    }
  }
  return corpus;
}

double perplexity_of(const std::string& scores) {
  const std::size_t last = scores.rfind('\n', scores.size() - 2);
  return json::parse(scores.substr(last + 1)).at("perplexity").get<double>();
}

// README's command of fine-tuning, with its JSON and the rate in it, on a model that knows a
// corpus.
TEST_F(Recipes, ReadmesRateKeepsWhatAModelKnows) {
  const Corpus texts = corpus();
  write_file(folder() / "chats.jsonl", texts.training);
  write_file(folder() / "held.jsonl", texts.held);
  train_base(256, (folder() / "chats.jsonl").string(), 200, {});
  std::string command;
  for (const auto& [script, prints] : scripts_of("README.md")) {
    const std::size_t first = script.find("mpirun");
    if (first != std::string::npos && script.find("HF_FOLDER") != std::string::npos) {
      command = script.substr(first, script.find("\nbuild/", first) - first);
    }
  }
  ASSERT_NE(command.find("--deepspeed_config configs/sft.json"), std::string::npos) << command;
  const std::string steps = "--train_steps 1000";
  ASSERT_NE(command.find(steps), std::string::npos) << command;
  command.replace(command.find(steps), steps.size(), "--train_steps 20");
  run_script(
      "build/fmengine-generate --ckpt HF_FOLDER --score held.jsonl > before.jsonl\n" + command +
      "\nbuild/fmengine-generate --ckpt output/hf --score held.jsonl > after.jsonl\n" + command +
      " --learning_rate 0.05 --output_dir forgot\n"
      "build/fmengine-generate --ckpt forgot/hf --score held.jsonl > forgot.jsonl\n");
  const auto perplexity = [&](const char* file) {
    return perplexity_of(content_of(folder() / file));
  };
  EXPECT_LT(perplexity("before.jsonl"), 30.0) << "of 256 bytes: the model knows the texts";
  EXPECT_LT(perplexity("after.jsonl"), perplexity("before.jsonl"));
  EXPECT_GT(perplexity("forgot.jsonl"), perplexity("before.jsonl")) << "at another rate it forgets";
}

}  // namespace
}  // namespace fm::system
