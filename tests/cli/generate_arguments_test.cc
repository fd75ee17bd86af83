#include "cli/flags/program_arguments.h"
#include "tests/cli/expect_refusal.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

TEST(GenerateArguments, FlagsReachTheOptions) {
  const GenerateCommand command =
      parse_generate_command(Words{"--ckpt", "d", "--prompt", "int main", "--max-new-tokens", "9",
                                   "--temperature", "0.5", "--top_k=40", "--seed", "3"});
  EXPECT_EQ(command.options.ckpt, "d");
  EXPECT_EQ(command.options.prompt, "int main");
  EXPECT_EQ(command.options.max_new_tokens, 9);
  EXPECT_EQ(command.options.sampling.temperature, 0.5);
  EXPECT_EQ(command.options.sampling.top_k, 40);
  EXPECT_EQ(command.options.sampling.seed, 3U);
}

TEST(GenerateArguments, EveryWayOfAskingReachesTheOptions) {
  const engine::GenerateOptions chat =
      parse_generate_command(Words{"--ckpt=d", "--chat", "--system", "Be brief.", "--stop", "A",
                                   "--stop=B c", "--top_p=0.9", "--min_p=0.1", "--dtype", "bf16",
                                   "--repetition_penalty=1.2", "--tokenizer=t"})
          .options;
  EXPECT_TRUE(chat.chat);
  EXPECT_EQ(chat.system, "Be brief.");
  EXPECT_EQ(chat.stops, (Words{"A", "B c"}));
  EXPECT_EQ(chat.sampling.top_p, 0.9);
  EXPECT_EQ(chat.sampling.min_p, 0.1);
  EXPECT_EQ(chat.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(chat.dtype, core::DType::kBF16);
  EXPECT_EQ(chat.tokenizer, "t");
  const engine::GenerateOptions file =
      parse_generate_command(Words{"--ckpt=d", "--prompt_file=p", "--output=o", "--batch_size=3"})
          .options;
  EXPECT_EQ(file.prompt_file, "p");
  EXPECT_EQ(file.output, "o");
  EXPECT_EQ(file.batch_size, 3);
  EXPECT_EQ(parse_generate_command(Words{"--ckpt=d", "--score=s"}).options.score, "s");
}

TEST(GenerateArguments, NumbersMayBeWrittenAsInScripts) {
  const engine::GenerateOptions options =
      parse_generate_command(Words{"--ckpt=d", "--prompt=p", "--temperature", "1.", "--top_p=.9",
                                   "--min_p", "+0.1", "--repetition_penalty", "1.1e0", "--top_k",
                                   "+40", "--max_new_tokens=1_000"})
          .options;
  EXPECT_EQ(options.sampling.temperature, 1.0);
  EXPECT_EQ(options.sampling.top_p, 0.9);
  EXPECT_EQ(options.sampling.min_p, 0.1);
  EXPECT_EQ(options.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(options.sampling.top_k, 40);
  EXPECT_EQ(options.max_new_tokens, 1000);
  for (const char* wrong : {"nan", "inf", "0x1"}) {
    EXPECT_TRUE(
        holds(refusal_of([&] {
                parse_generate_command(Words{"--ckpt=d", "--prompt=p", "--temperature", wrong});
              }),
              "--temperature must be a number"));
  }
}

TEST(GenerateArguments, WhatDoesNotFitTogetherIsRefused) {
  const auto refused = [](const Words& more) {
    Words words{"--ckpt=d"};
    words.insert(words.end(), more.begin(), more.end());
    return refusal_of([&] { parse_generate_command(words); });
  };
  EXPECT_TRUE(holds(refused({"--prompt=a", "--score=s"}), "at most one of --prompt"));
  EXPECT_TRUE(holds(refused({"--chat", "--score=s"}), "at most one of --prompt"));
  EXPECT_TRUE(holds(refused({"--system=a"}), "--system is a message of a conversation"));
  EXPECT_TRUE(holds(refused({"--prompt=a", "--output=o"}), "--output is for --prompt_file"));
  EXPECT_TRUE(holds(refused({"--stop="}), "--stop must be a text"));
  EXPECT_TRUE(holds(refused({"--top_p=1.5"}), "--top_p must be a number from 0 to 1"));
  EXPECT_TRUE(holds(refused({"--repetition_penalty=0"}), "--repetition_penalty must be above 0"));
  EXPECT_TRUE(holds(refused({"--batch_size=0"}), "--batch_size must be"));
  EXPECT_TRUE(holds(refused({"--dtype=int8"}), "--dtype must be one of fp32, bf16, fp16"));
}

// Each stays open for the folder to decide.
TEST(GenerateArguments, WhatIsNotGivenIsNotDecided) {
  const engine::SamplingFlags open = parse_generate_command(Words{"--ckpt=d"}).options.sampling;
  EXPECT_FALSE(open.temperature || open.top_k || open.top_p || open.min_p ||
               open.repetition_penalty);
  const engine::SamplingFlags given =
      parse_generate_command(Words{"--ckpt=d", "--temperature=0", "--top_k=0"}).options.sampling;
  EXPECT_EQ(given.temperature, 0.0);
  EXPECT_EQ(given.top_k, 0);
}

TEST(GenerateArguments, APeftFolderIsTheModelWithItsBaseOrGoesBesideOne) {
  const testing::ScratchFolder base;
  const testing::ScratchFolder adapter;
  base.write("config.json", "{}");
  const std::string path = adapter.path().string();
  const auto write = [&](const std::string& named) {
    adapter.write("adapter_config.json", R"({"peft_type": "LORA", "r": 4, "lora_alpha": 2,
        "target_modules": ["q_proj"], "base_model_name_or_path": ")" +
                                             named + "\"}");
  };
  write(base.path().string());
  const engine::GenerateOptions alone = parse_generate_command(Words{"--ckpt", path}).options;
  EXPECT_EQ(alone.ckpt, base.path().string());
  EXPECT_EQ(alone.lora.start, path);
  EXPECT_EQ(alone.lora.scale(), 0.5);
  write("someone/somewhere");
  EXPECT_TRUE(holds(refusal_of([&] {
                      parse_generate_command(Words{"--ckpt", path});
                    }),
                    "name it with --ckpt, and the adapter with --adapter"));
  const engine::GenerateOptions beside =
      parse_generate_command(Words{"--ckpt=d", "--adapter", path}).options;
  EXPECT_EQ(beside.ckpt, "d");
  EXPECT_EQ(beside.lora.r, 4);
  EXPECT_EQ(parse_generate_command(Words{"--ckpt=d"}).options.lora.r, 0);
}

TEST(GenerateArguments, HelpAndRefusals) {
  EXPECT_TRUE(parse_generate_command(Words{"--help"}).help);
  EXPECT_TRUE(holds(refusal_of([] { parse_generate_command(Words{}); }), "a model is required"));
  EXPECT_TRUE(holds(refusal_of([] {
                      parse_generate_command(Words{"--ckpt=d", "--temp=1"});
                    }),
                    "unknown flag --temp"));
  EXPECT_TRUE(holds(refusal_of([] {
                      parse_generate_command(Words{"--ckpt=d", "--temperature=-1"});
                    }),
                    "--temperature must be a number, at least 0"));
}

}  // namespace
}  // namespace fm::cli
