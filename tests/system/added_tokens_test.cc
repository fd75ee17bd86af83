// A base model and a chat template whose markers its tokenizer does not have.
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"
#include "tests/text/prepare/small_tokenizer.h"

namespace fm::system {
namespace {

constexpr const char* kNote = "the chat template writes <|im_start|> and <|im_end|>, which";
constexpr const char* kCure = "--add_tokens \"<|im_start|>,<|im_end|>\"";

class AddedTokens : public SystemCase {
 protected:
  AddedTokens() {
    std::string tokenizer = prepare::small_tokenizer();
    for (const char* token : {"<|im_start|>", "<|im_end|>"}) {
      const std::size_t at = tokenizer.find(std::string("\"content\": \"") + token);
      const std::size_t begin = tokenizer.rfind('{', at);
      tokenizer.erase(begin, tokenizer.find("},", at) + 2 - begin);
    }
    const std::string ids = "\"ids\": [33]";
    tokenizer.replace(tokenizer.find(ids), ids.size(), "\"ids\": [31]");
    tokenizer_ = write_file(folder() / "tokenizer" / "tokenizer.json", tokenizer);
    tokenizer_.resize(tokenizer_.rfind('/'));
    write_file(tokenizer_ + "/tokenizer_config.json",
               R"({"bos_token": "<s>", "eos_token": "</s>"})");
    template_ = write_file(folder() / "chatml.jinja", prepare::kChatMl);
    for (char letter = 'a'; letter <= 'p'; ++letter) {
      chats_ += std::string(R"({"messages": [{"role": "user", "content": ")") + letter +
                R"("}, {"role": "assistant", "content": "yes"}]})" + "\n";
    }
    chats_ = write_file(folder() / "chats.jsonl", chats_);
  }

  Launch words(std::vector<std::string> words) const {
    return {.words = std::move(words), .variables = {}};
  }
  // Two layers, 32 ids, as many as the tokenizer has.
  std::string base() {
    const std::string model = write_file(
        folder() / "model.json",
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32,
            "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
            "eos_token_id": 30, "bos_token_id": 31})");
    std::string text;
    for (int i = 0; i < 40; ++i)
      text += R"({"text": "some words of a text to begin with"})"
              "\n";
    run_well(words({FM_PROGRAMS "/fmengine-train", "--model_config", model, "--tokenizer",
                    tokenizer_, "--data_path", write_file(folder() / "text.jsonl", text),
                    "--max_seq_len", "32", "--per_device_train_batch_size", "2", "--train_steps",
                    "1", "--output_dir", (folder() / "base").string()}));
    return (folder() / "base" / "hf").string();
  }
  std::vector<std::string> tuning(const std::string& base, const std::string& output) const {
    return {FM_PROGRAMS "/fmengine-train",
            "--init_ckpt",
            base,
            "--data_path",
            chats_,
            "--chat_template",
            template_,
            "--packing",
            "none",
            "--max_seq_len",
            "32",
            "--learning_rate",
            "3e-3",
            "--per_device_train_batch_size",
            "4",
            "--save_steps",
            "0",
            "--output_dir",
            (folder() / output).string()};
  }
  std::string answer(const std::string& model) {
    return run_well(words({FM_PROGRAMS "/fmengine-generate", "--ckpt", model, "--chat", "--prompt",
                           "c", "--temperature", "0", "--max_new_tokens", "12"}))
        .out;
  }

  std::string tokenizer_, template_, chats_;
};

TEST_F(AddedTokens, EndTheAnswersOfABaseModel) {
  const std::string base = this->base();
  std::vector<std::string> tuned = tuning(base, "tuned");
  tuned.insert(tuned.end(), {"--train_steps", "200", "--add_tokens", "<|im_start|>,<|im_end|>"});
  const Ended ended = run_well(words(tuned));
  EXPECT_NE(ended.out.find("vocabulary 34"), std::string::npos) << ended.out;
  EXPECT_EQ(ended.out.find(kNote), std::string::npos) << ended.out;
  EXPECT_EQ(answer((folder() / "tuned" / "hf").string()), "yes\n");

  // With other tokens a text has other ids.
  tuned[tuned.size() - 3] = "201";
  tuned.back() = "<|im_end|>,<|im_start|>";
  const Ended other = run(words(tuned));
  EXPECT_EQ(other.codes, std::vector<int>{10}) << other.err;
}

TEST_F(AddedTokens, AreNamedByANoteWhereTheyAreMissing) {
  std::vector<std::string> tuned = tuning(base(), "tuned");
  tuned.insert(tuned.end(), {"--train_steps", "1", "--plan"});
  const Ended plan = run_well(words(tuned));
  EXPECT_NE(plan.out.find(kNote), std::string::npos) << plan.out;
  EXPECT_NE(plan.out.find(kCure), std::string::npos) << plan.out;
  tuned.insert(tuned.end(), {"--eos_token", "<|im_end|>"});
  const Ended refused = run(words(tuned));
  EXPECT_EQ(refused.codes, std::vector<int>{10}) << refused.out;
  EXPECT_NE(refused.err.find("add it with --add_tokens \"<|im_end|>\""), std::string::npos)
      << refused.err;
}

}  // namespace
}  // namespace fm::system
