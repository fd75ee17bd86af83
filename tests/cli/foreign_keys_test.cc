// Names of other programs: every one of them has an answer.
#include "cli/foreign/foreign_keys.h"

#include <fstream>
#include <set>

#include "cli/flags/argv.h"
#include "cli/flags/flags.h"
#include "core/text.h"
#include "tests/cli/train_words.h"

namespace fm::cli {
namespace {

// One name a line; "#" begins a source.
Words names_of(const std::string& file) {
  std::ifstream in(std::string(FM_FOREIGN) + "/" + file);
  Words names;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') names.push_back(line);
  }
  EXPECT_GT(names.size(), 200U) << file;
  return names;
}

// A name that only has parts, as special_tokens, is answered by theirs.
bool has_parts(std::span<const ForeignKey> rows, const std::string& name) {
  for (const ForeignKey& row : rows) {
    for (const std::string& each : core::split(row.names, ' ')) {
      if (each.starts_with(name + ".") || each.starts_with(name + "[].")) return true;
    }
  }
  return false;
}

bool is_answered(std::span<const ForeignKey> rows, const std::string& name) {
  return has_parts(rows, name) || find_key(rows, name) != nullptr ||
         find_flag(name, train_flags()) != nullptr || find_key(trainer_keys(), name) != nullptr;
}

// transformers' TrainingArguments, run_clm.py, and TRL's classes of arguments.
TEST(ForeignKeys, EveryNameOfTheTrainerHasAnAnswer) {
  for (const std::string& name : names_of("trainer_names.txt")) {
    EXPECT_TRUE(is_answered({}, name)) << name;
  }
}

// The fields of axolotl's schemas.
TEST(ForeignKeys, EveryNameOfAxolotlHasAnAnswer) {
  for (const std::string& name : names_of("axolotl_names.txt")) {
    EXPECT_TRUE(is_answered(axolotl_keys(), name)) << name;
  }
}

// The fields of LLaMA-Factory's classes of arguments.
TEST(ForeignKeys, EveryNameOfLlamaFactoryHasAnAnswer) {
  for (const std::string& name : names_of("llama_factory_names.txt")) {
    EXPECT_TRUE(is_answered(factory_keys(), name)) << name;
  }
}

// On the command line nobody is told that a name of theirs is unknown and nothing more.
TEST(ForeignKeys, NoFlagOfTheTrainerIsUnknown) {
  for (const std::string& name : names_of("trainer_names.txt")) {
    if (name == "local_rank" || name.find('[') != name.npos) continue;
    const std::string said = refusal_of([&] {
      normalise_argv(Words{"--" + name, "x"}, train_flags());
    });
    EXPECT_EQ(said.find("see --help"), said.npos) << said;
    EXPECT_EQ(said.find("did you mean"), said.npos) << said;
  }
}

const std::vector<std::span<const ForeignKey>> kTables = {trainer_keys(), parallel_keys(),
                                                          axolotl_keys(), factory_keys()};

TEST(ForeignKeys, ATableHasANameOnce) {
  for (const std::span<const ForeignKey> rows : kTables) {
    std::set<std::string> seen;
    for (const ForeignKey& row : rows) {
      for (const std::string& name : core::split(row.names, ' ')) {
        EXPECT_TRUE(seen.insert(name).second) << name;
      }
    }
  }
}

// What a value becomes is a flag of ours, and a row that refuses values says why.
TEST(ForeignKeys, RowsAreWhole) {
  for (const std::span<const ForeignKey> rows : kTables) {
    for (const ForeignKey& row : rows) {
      EXPECT_TRUE(!row.map.empty() || !row.why.empty()) << row.names;
      EXPECT_TRUE(!row.why.empty() || row.map.find("--") != row.map.npos) << row.names;
      for (const char* value : {"true", "false", "x", "lora"}) {
        const std::optional<Translated> ours = translate(row, {value});
        EXPECT_TRUE(ours || !row.why.empty() || !row.instead.empty()) << row.names;
        if (!ours) continue;
        for (const FlagWords& each : ours->flags) {
          EXPECT_NE(find_flag(each.flag, train_flags()), nullptr) << row.names << " " << each.flag;
        }
      }
    }
  }
}

// A table of the Trainer that names one of our own flags would hide it, but for these, whose own
// values stay.
TEST(ForeignKeys, NoNameIsOurs) {
  for (const FlagRow& flag : train_flags()) {
    const std::string_view name = flag.name;
    const bool shared = name == "packing" || name == "deepspeed" || name == "use_peft";
    EXPECT_EQ(trainer_key(flag.name, &flag) != nullptr, shared) << name;
    EXPECT_EQ(find_key(parallel_keys(), name), nullptr) << name;
  }
}

TEST(ForeignKeys, AnExactMeaningIsTaken) {
  const auto normal = [](const Words& words) {
    return core::join(normalise_argv(words, train_flags()).words, " ");
  };
  for (const char* length : {"--block_size", "--max_length", "--max_seq_length", "--cutoff_len",
                             "--sequence_len", "--model_max_length"}) {
    EXPECT_EQ(normal({length, "512"}), "--max_seq_len=512");
  }
  EXPECT_EQ(normal({"--model_name_or_path", "m", "--train_file", "a", "--validation_file", "b"}),
            "--init_ckpt=m --data_path=a --eval_data_path=b");
  EXPECT_EQ(normal({"--lr", "1e-3", "--lora_rank=8", "--num_epochs", "2"}),
            "--learning_rate=1e-3 --lora_r=8 --num_train_epochs=2");
  EXPECT_EQ(normal({"--max_samples", "1000"}), "--max_train_samples=1000");
  EXPECT_EQ(normal({"--max_train_samples", "None"}), "");
  EXPECT_EQ(normal({"--packing", "best_fit"}), "--packing=best_fit");
  EXPECT_EQ(normal({"--packing", "false"}), "--packing=none");
}

// A recipe may share one block of LoRA among runs.
TEST(ForeignKeys, UsePeftFalseTrainsAllWeights) {
  const engine::TrainOptions at =
      parse({"--use_peft", "false", "--lora_r", "16", "--lora_alpha", "32"}).options;
  EXPECT_EQ(at.lora.r, 0);
  EXPECT_NE(core::join(at.notes, "\n").find("flags of LoRA have no effect: --use_peft false"),
            std::string::npos);
}

// TRL trains completions of prompts and all turns of chats unless it is told.
TEST(ForeignKeys, ChatsAndCompletionsAreMaskedByThemselves) {
  const engine::TrainOptions both =
      parse({"--assistant_only_loss", "false", "--completion_only_loss", "true"}).options;
  EXPECT_EQ(both.assistant_only_loss, false);
  EXPECT_EQ(both.completion_only_loss, true);
  EXPECT_FALSE(both.train_on_inputs);
  EXPECT_FALSE(parse({}).options.completion_only_loss);
}

// TRL's switches bring its own values, which a flag beside them wins over.
TEST(ForeignKeys, DefaultsOfAnotherProgramComeBehindFlags) {
  const engine::TrainOptions at = parse({"--use_peft", "--lora_r", "32", "--packing"}).options;
  EXPECT_EQ(at.lora.r, 32);
  EXPECT_EQ(at.lora.alpha, 32);
  EXPECT_EQ(at.lora.dropout, 0.05);
  EXPECT_EQ(at.packing, data::Packing::kBestFit);
  EXPECT_TRUE(at.document_attention);
  EXPECT_EQ(parse({"--lora_alpha", "16", "--use_peft"}).options.lora.alpha, 16);
  EXPECT_EQ(parse({"--dtype", "bfloat16"}).options.element, core::DType::kBF16);
  EXPECT_EQ(parse({"--dtype", "float32", "--bf16"}).options.element, core::DType::kBF16);
}

TEST(ForeignKeys, WhatWouldTrainSomethingElseIsRefused) {
  for (const Words& words :
       {Words{"--load_in_4bit"}, Words{"--use_dora", "True"}, Words{"--loss_type", "dft"},
        Words{"--neftune_noise_alpha", "5"}, Words{"--packing_strategy", "wrapped"},
        Words{"--optim", "adafactor"}}) {
    EXPECT_NE(refusal(words), "accepted") << words[0];
  }
  for (const Words& words :
       {Words{"--load_in_4bit", "False"}, Words{"--use_dora=false"}, Words{"--loss_type", "nll"},
        Words{"--optim", "paged_adamw_8bit"}, Words{"--max_train_samples", "None"},
        Words{"--fsdp", "full_shard", "auto_wrap"}}) {
    EXPECT_EQ(refusal(words), "accepted") << words[0];
  }
}

// The name of a set on a hub is replaced by a file.
TEST(ForeignKeys, AFlagOfOursTakesThePlaceOfWhatCannotBeHonoured) {
  EXPECT_EQ(refusal({"--dataset_name", "wikitext", "--dataset_config_name", "raw"}), "accepted");
  EXPECT_NE(refusal_of([] {
              normalise_argv(Words{"--dataset_name", "wikitext"}, train_flags());
            }),
            "accepted");
}

}  // namespace
}  // namespace fm::cli
