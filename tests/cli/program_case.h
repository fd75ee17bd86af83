// The built programs as a user meets them: words in, text and an exit code out.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace fm::cli {

namespace fs = std::filesystem;

inline const std::string kTrain = std::string(FM_PROGRAMS) + "/fmengine-train";
inline const std::string kGenerate = std::string(FM_PROGRAMS) + "/fmengine-generate";
inline const std::string kExport = std::string(FM_PROGRAMS) + "/fmengine-export";
inline const std::string kTokenize = std::string(FM_PROGRAMS) + "/fmengine-tokenize";
inline const std::string kReport = std::string(FM_PROGRAMS) + "/fmengine-report";
inline const std::string kAny = std::string(FM_PROGRAMS) + "/fmengine";
inline const std::string kConfigs = std::string(FM_SOURCES) + "/configs/";

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

inline std::string read_all(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A folder of one test, removed with it.
class Programs : public ::testing::Test {
 protected:
  Programs() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("fm_programs_") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Programs() override { fs::remove_all(folder_); }

  // `command` is for sh; it runs in the test's folder.
  Outcome run(const std::string& command) const {
    const std::string whole = "cd " + folder_.string() + " && " + command + " > .out 2> .err";
    const int status = std::system(whole.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, read_all(folder_ / ".out"), read_all(folder_ / ".err")};
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::string tiny_model() const {
    return write("model.json", R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "vocab_size": 259, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128})");
  }

  std::string tiny_corpus() const {
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      lines += "{\"text\": \"int value_" + std::to_string(i) + " = " + std::to_string(i * i) +
               "; // the square of a small number\"}\n";
    }
    return write("corpus.jsonl", lines);
  }

  // A run of some steps into the folder o; the words of its command.
  std::string trained(const std::string& more = "") const {
    const std::string words = kTrain + " --deepspeed_config " + kConfigs +
                              "zero0.json --model_config " + tiny_model() + " --data_path " +
                              tiny_corpus() + " --output_dir o --max_seq_len 32 --train_steps 1 ";
    const Outcome train = run(words + more);
    EXPECT_EQ(train.code, 0) << train.err << train.out;
    return words;
  }
  // Its names, hidden ones too, that are not of this test itself.
  std::string names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (name != ".out" && name != ".err") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
    return text;
  }

  fs::path folder_;
};

inline void expect_one_line(const Outcome& outcome, int code, const std::string& part) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("fmengine")) << outcome.err;
  EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

}  // namespace fm::cli
