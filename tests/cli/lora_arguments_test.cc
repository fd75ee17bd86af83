// Adapters by flags, by FMEngine's block and from a PEFT folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cli/flags/arguments.h"
#include "cli/flags/train_flags.h"
#include "cli/peft_folder.h"
#include "tests/cli/expect_refusal.h"
#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// As peft 0.21 writes it, some keys left out.
constexpr const char* kPeft = R"({"alpha_pattern": {}, "base_model_name_or_path": "/nowhere",
  "bias": "none", "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true,
  "layers_pattern": null, "layers_to_transform": null, "lora_alpha": 32, "lora_bias": false,
  "lora_dropout": 0.05, "modules_to_save": ["lm_head"], "peft_type": "LORA", "r": 16,
  "rank_pattern": {}, "revision": null, "target_modules": ["v_proj", "q_proj"],
  "task_type": "CAUSAL_LM", "use_dora": false, "use_rslora": true})";

fs::path folder() {
  const fs::path out = fs::path(testing::TempDir()) / "fm_lora_arguments";
  fs::create_directories(out);
  return out;
}

void write(const std::string& text) { std::ofstream(folder() / "adapter_config.json") << text; }

engine::LoraOptions parse(Words words) {
  words.insert(words.begin(), {"--model_config=m.json", "--data_path=d.jsonl"});
  return parse_command(words).options.lora;
}
std::string refusal_of_words(const Words& words) {
  return refusal_of([&] { parse(words); });
}

TEST(LoraFlags, HavePeftsNamesAndDefaults) {
  EXPECT_EQ(parse({}).r, 0);
  const engine::LoraOptions usual = parse({"--lora_r", "4"});
  EXPECT_EQ(usual.r, 4);
  EXPECT_EQ(usual.alpha, 8.0);
  EXPECT_EQ(usual.dropout, 0.0);
  EXPECT_TRUE(usual.targets.empty());
  const engine::LoraOptions all =
      parse({"--lora_r=4", "--lora_alpha", "16", "--lora_dropout=0.1", "--lora_target_modules",
             "q_proj", "up_proj", "--use_rslora", "--modules_to_save", "lm_head"});
  EXPECT_EQ(all.alpha, 16.0);
  EXPECT_EQ(all.dropout, 0.1);
  EXPECT_TRUE(all.rslora);
  EXPECT_EQ(all.targets, (Words{"q_proj", "up_proj"}));
  EXPECT_EQ(all.modules_to_save, Words{"lm_head"});
  EXPECT_EQ(parse({"--lora_r=1", "--lora_target_modules=q_proj,v_proj"}).targets,
            (Words{"q_proj", "v_proj"}));
}

TEST(LoraFlags, ThatMeanNothingAreRefused) {
  EXPECT_TRUE(holds(refusal_of_words({"--lora_alpha", "8"}), "--lora_alpha belongs to --lora_r"));
  EXPECT_TRUE(holds(refusal_of_words({"--lora_r", "0"}), "--lora_r must be"));
  EXPECT_TRUE(holds(refusal_of_words({"--lora_r=2", "--lora_alpha=0"}), "greater than 0"));
  EXPECT_TRUE(holds(refusal_of_words({"--lora_r=2", "--lora_dropout=1"}), "below 1"));
  write(kPeft);
  EXPECT_TRUE(holds(refusal_of_words({"--lora_r=2", "--adapter", folder().string()}),
                    "leave out the others"));
}

TEST(LoraBlock, IsFMEnginesAndOffWhenEmpty) {
  EXPECT_EQ(read("{}").lora.r, 0);
  EXPECT_EQ(read("{lora: {}}").lora.r, 0);
  EXPECT_EQ(read("{lora: null}").lora.r, 0);
  const engine::LoraOptions lora = read("{lora: {r: 32, lora_alpha: 16, lora_dropout: 0.1}}").lora;
  EXPECT_EQ(lora.r, 32);
  EXPECT_EQ(lora.alpha, 16.0);
  EXPECT_EQ(lora.dropout, 0.1);
  EXPECT_TRUE(holds(refusal("{lora: {r: 8, lora_dropout: 1.5}}"), "below 1"));
  EXPECT_TRUE(holds(refusal("{lora: {rank: 8}}"), "rank"));
}

TEST(PeftFolder, SaysWhatItsAdaptersAre) {
  write(kPeft);
  const engine::LoraOptions lora = parse({"--adapter", folder().string()});
  EXPECT_EQ(lora.r, 16);
  EXPECT_EQ(lora.alpha, 32.0);
  EXPECT_EQ(lora.dropout, 0.05);
  EXPECT_TRUE(lora.rslora);
  EXPECT_EQ(lora.scale(), 8.0);
  EXPECT_EQ(lora.targets, (Words{"v_proj", "q_proj"}));
  EXPECT_EQ(lora.modules_to_save, Words{"lm_head"});
  EXPECT_EQ(lora.start, folder().string());
}

TEST(LoraFlags, RowsOfTokensAreAListOfIds) {
  EXPECT_EQ(parse({"--lora_r=1", "--trainable_token_indices", "401,400,401"}).token_rows,
            (std::vector<std::int64_t>{400, 401}));
  for (const char* words : {"4,x", "-1", "1.5", "4,,5"}) {
    EXPECT_TRUE(holds(refusal_of_words({"--lora_r=1", "--trainable_token_indices", words}),
                      "must be a list of ids"))
        << words;
  }
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kPeft;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(PeftFolder, OfAnotherKindIsRefusedByItsKey) {
  const auto refused = [&](const std::string& from, const std::string& to) {
    write(changed(from, to));
    return refusal_of_words({"--adapter", folder().string()});
  };
  EXPECT_TRUE(holds(refused("\"LORA\"", "\"LOHA\""), "\"peft_type\" must be \"LORA\""));
  EXPECT_TRUE(holds(refused("\"use_dora\": false", "\"use_dora\": true"), "\"use_dora\""));
  EXPECT_TRUE(holds(refused("\"bias\": \"none\"", "\"bias\": \"all\""), "\"bias\""));
  EXPECT_TRUE(holds(refused("\"use_dora\": false", "\"alora_invocation_tokens\": [5]"),
                    "\"alora_invocation_tokens\""));
  EXPECT_TRUE(
      holds(refused("\"rank_pattern\": {}", "\"rank_pattern\": {\"q\": 2}"), "rank_pattern"));
  EXPECT_TRUE(holds(refused("\"r\": 16", "\"r\": 1.5"), "whole number"));
}

// A list is of the embedding alone; peft 0.21, utils/other.py: set_additional_trainable_modules.
TEST(PeftFolder, MayTrainRowsOfTokens) {
  const auto rows = [](const std::string& json) {
    write(changed("\"bias\": \"none\"", "\"trainable_token_indices\": " + json));
    return parse({"--adapter", folder().string()});
  };
  EXPECT_EQ(rows("[7, 9]").token_rows, (std::vector<std::int64_t>{7, 9}));
  EXPECT_EQ(rows("[7, 9]").token_modules.front(), "embed_tokens");
  const engine::LoraOptions both = rows(R"({"embed_tokens": [7, 9], "lm_head": [7, 9]})");
  EXPECT_EQ(both.token_rows, (std::vector<std::int64_t>{7, 9}));
  EXPECT_EQ(both.token_modules, (Words{"embed_tokens", "lm_head"}));
  EXPECT_TRUE(rows("null").token_rows.empty());
  const auto refused = [&](const std::string& json) { return refusal_of([&] { rows(json); }); };
  EXPECT_TRUE(holds(refused(R"({"embed_tokens": [7], "lm_head": [8]})"), "the same ids"));
  EXPECT_TRUE(holds(refused("[9, 7]"), "ascending order"));
  EXPECT_TRUE(holds(refused(R"({"embed_tokens": []})"), "ascending order"));
}

TEST(PeftFolder, InThePlaceOfTheModelNamesIt) {
  const fs::path base = folder() / "base";
  fs::create_directories(base);
  write(changed("/nowhere", base.string()));
  const engine::TrainOptions options =
      parse_command(Words{"--init_ckpt", folder().string(), "--data_path=d.jsonl"}).options;
  EXPECT_EQ(options.init_ckpt, base.string());
  EXPECT_EQ(options.lora.start, folder().string());
  write(kPeft);
  EXPECT_TRUE(holds(refusal_of([] {
                      parse_command(Words{"--init_ckpt", folder().string(), "--data_path=d.jsonl"});
                    }),
                    "base model must be a folder here"));
}

TEST(PeftFolder, AModelAndAnAdapterThatAreSwappedAreTold) {
  const std::filesystem::path model = folder() / "model";
  std::filesystem::create_directories(model);
  std::ofstream(model / "config.json") << "{}";
  write(R"({"peft_type": "LORA", "base_model_name_or_path": "here"})");
  std::string ckpt = folder().string();
  const std::string said = refusal_of([&] { split_adapter(ckpt, model.string(), "--ckpt"); });
  EXPECT_TRUE(holds(said, "--ckpt names a PEFT folder and --adapter a model; swap them: --ckpt " +
                              model.string() + " --adapter " + folder().string()))
      << said;
}

// peft 0.21 changes the base as it loads an adapter of these, tuners/lora/layer.py: update_layer.
TEST(PeftFolder, AdaptersThatChangeTheirBaseAreRefused) {
  const auto refused = [](const std::string& start) {
    write(changed("\"init_lora_weights\": true", "\"init_lora_weights\": " + start));
    return refusal_of_words({"--adapter", folder().string()});
  };
  for (const char* start : {"\"pissa\"", "\"pissa_niter_4\"", "\"olora\"", "\"corda\"", "\"loftq\"",
                            "\"lora_ga\"", "\"mica\""}) {
    EXPECT_TRUE(holds(refused(start), "\"init_lora_weights\" must leave the base model as it is"))
        << start;
  }
  for (const char* start : {"true", "false", "null", "\"gaussian\"", "\"eva\"", "\"orthogonal\""}) {
    EXPECT_EQ(refused(start), "accepted") << start;
  }
}

// Whatever is in the file, it is read or refused.
TEST(PeftFolder, MutatedFilesAreReadOrRefused) {
  std::mt19937 random(5);
  const std::string whole = kPeft;
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + random() % 9); break;
        default: text.insert(at, whole.substr(random() % whole.size(), random() % 9));  // a copy
      }
    }
    write(text);
    try {
      parse({"--adapter", folder().string()});
    } catch (const core::UserError&) {
      continue;
    }
  }
}

TEST(PeftFolder, BracketsWithoutEndAreRefused) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const char* const key : {"use_dora", "target_modules", "init_lora_weights", "unheard"}) {
    write(std::string(R"({"peft_type": "LORA", ")") + key + "\": " + deep + "}");
    try {
      read_adapter(folder().string());
      ADD_FAILURE() << key;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      EXPECT_TRUE(holds(error.what(), "adapter_config.json: at most 100 levels of brackets"));
    }
  }
}

}  // namespace
}  // namespace fm::cli
