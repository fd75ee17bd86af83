#include "engine/infer/sampling.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::engine {
namespace {

using testing::ScratchFolder;

Sampling chosen(const std::string& json, const SamplingFlags& flags = {}) {
  const ScratchFolder folder;
  folder.write("generation_config.json", json);
  return choose_sampling(folder.path(), flags);
}

// temperature, top_k, top_p, min_p, repetition_penalty
std::string values(const Sampling& sampling) {
  const SamplerOptions& of = sampling.sampler;
  return core::concat(of.temperature, " ", of.top_k, " ", of.top_p, " ", of.min_p, " ",
                      of.repetition_penalty);
}

constexpr const char* kGreedy = "0 0 1 0 1";

TEST(Sampling, IsGreedyWhereNobodySaysAnything) {
  const ScratchFolder folder;
  EXPECT_EQ(values(choose_sampling(folder.path(), {})), kGreedy);
  for (const char* json : {"{}", R"({"eos_token_id": [1, 2], "max_length": 4096})",
                           R"({"do_sample": false, "temperature": 0.6})",
                           R"({"temperature": 0.6, "do_sample": null})"}) {
    EXPECT_EQ(values(chosen(json)), kGreedy) << json;
    EXPECT_TRUE(chosen(json).notes.empty()) << json;
  }
}

// GenerationConfig._get_default_generation_params of transformers 5.
TEST(Sampling, HasTransformersDefaultsWhereTheFileAsksForIt) {
  const Sampling plain = chosen(R"({"do_sample": true})");
  EXPECT_EQ(values(plain), "1 50 1 0 1");
  EXPECT_EQ(plain.notes, (std::vector<std::string>{
                             "as generation_config.json says: do_sample, top_k 50 (its default)"}));
  EXPECT_EQ(values(chosen(R"({"do_sample": true, "top_k": 0, "min_p": null})")), "1 0 1 0 1");
}

// The file of a published chat model.
TEST(Sampling, IsWhatTheFileSays) {
  const Sampling all = chosen(
      R"({"bos_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643],
          "pad_token_id": 151643, "repetition_penalty": 1.05, "temperature": 0.7,
          "top_k": 20, "top_p": 0.8, "min_p": 0.05, "transformers_version": "4.37.0"})");
  EXPECT_EQ(values(all), "0.7 20 0.8 0.05 1.05");
  EXPECT_EQ(all.notes, (std::vector<std::string>{
                           "as generation_config.json says: do_sample, temperature 0.7, top_k 20, "
                           "top_p 0.8, min_p 0.05, repetition_penalty 1.05"}));
}

TEST(Sampling, CountsThePenaltyOfGreedyTexts) {
  const Sampling penalty = chosen(R"({"repetition_penalty": 1.1, "top_p": 0.8, "top_k": 7})");
  EXPECT_EQ(values(penalty), "0 0 1 0 1.1");
  EXPECT_EQ(penalty.notes,
            (std::vector<std::string>{"as generation_config.json says: repetition_penalty 1.1"}));
}

TEST(Sampling, TakesFlagsFirst) {
  constexpr const char* kFull = R"({"do_sample": true, "repetition_penalty": 1.05,
      "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.05})";
  const Sampling flags = chosen(
      kFull,
      {.temperature = 0.3, .top_k = 0, .top_p = 1, .min_p = 0, .repetition_penalty = 1, .seed = 9});
  EXPECT_EQ(values(flags), "0.3 0 1 0 1");
  EXPECT_EQ(flags.sampler.seed, 9U);
  EXPECT_TRUE(flags.notes.empty());
  const Sampling greedy = chosen(kFull, {.temperature = 0});
  EXPECT_EQ(greedy.sampler.temperature, 0.0);
  EXPECT_EQ(greedy.notes,
            (std::vector<std::string>{"as generation_config.json says: repetition_penalty 1.05"}));
  // A flag asks for sampling: what the file says of it counts. What it does not say is not limited,
  // where transformers' generate(do_sample=True) has top_k 50, unless the file itself samples.
  const Sampling drawn = chosen(R"({"top_p": 0.8})", {.temperature = 1.5});
  EXPECT_EQ(values(drawn), "1.5 0 0.8 0 1");
  EXPECT_EQ(drawn.notes, (std::vector<std::string>{"as generation_config.json says: top_p 0.8"}));
  EXPECT_EQ(values(chosen(R"({"do_sample": true})", {.temperature = 1.5})), "1.5 50 1 0 1");
}

// -1 is vLLM's word for all tokens.
TEST(Sampling, ReadsOnlyWhatTakesEffect) {
  EXPECT_EQ(values(chosen(R"({"do_sample": true, "top_k": -1})")), "1 0 1 0 1");
  EXPECT_EQ(values(chosen(R"({"temperature": -1, "top_k": 1.5, "top_p": 7, "min_p": "x"})")),
            kGreedy);
  constexpr const char* kWrong = R"({"do_sample": "x", "repetition_penalty": 0,
      "temperature": -1, "top_k": 1.5, "top_p": 7, "min_p": "x"})";
  EXPECT_EQ(values(chosen(kWrong, {.temperature = 0, .repetition_penalty = 1})), kGreedy);
  EXPECT_EQ(
      values(chosen(
          kWrong,
          {.temperature = 2, .top_k = 3, .top_p = 0.5, .min_p = 0.25, .repetition_penalty = 1.5})),
      "2 3 0.5 0.25 1.5");
  EXPECT_THROW(chosen(kWrong, {.temperature = 0}), core::UserError);
}

TEST(Sampling, NamesWhatHasNoEffect) {
  const Sampling many = chosen(
      R"({"num_beams": 4, "no_repeat_ngram_size": 3, "bad_words_ids": [[5]], "typical_p": 0.9,
          "suppress_tokens": [], "penalty_alpha": 0.0, "forced_eos_token_id": 0,
          "guidance_scale": null, "min_length": 0, "length_penalty": 2.0})");
  EXPECT_EQ(many.notes,
            (std::vector<std::string>{"without effect here, of generation_config.json: num_beams, "
                                      "no_repeat_ngram_size, bad_words_ids, forced_eos_token_id"}));
  const Sampling drawn = chosen(R"({"typical_p": 0.9, "eta_cutoff": 0})", {.temperature = 1});
  EXPECT_EQ(
      drawn.notes,
      (std::vector<std::string>{"without effect here, of generation_config.json: typical_p"}));
}

TEST(EndIds, AreThoseOfTheModelsFolder) {
  using Ids = std::vector<std::int32_t>;
  const ScratchFolder folder;
  EXPECT_EQ(end_ids(folder.path()), Ids());
  folder.write("config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(end_ids(folder.path()), Ids{7});
  folder.write("config.json", R"({"text_config": {"eos_token_id": [9, 2]}})");
  EXPECT_EQ(end_ids(folder.path()), (Ids{9, 2}));
  folder.write("generation_config.json", R"({"eos_token_id": [3, 5]})");
  EXPECT_EQ(end_ids(folder.path()), (Ids{3, 5}));
  folder.write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(end_ids(folder.path()), Ids());
  folder.write("generation_config.json", R"({"eos_token_id": ["</s>"]})");
  EXPECT_THROW(end_ids(folder.path()), core::UserError);
}

TEST(Sampling, RefusesWrongValuesByFileAndKey) {
  const auto refused = [](const std::string& json) -> std::string {
    try {
      chosen(json);
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      return error.what();
    }
    return "";
  };
  const auto expect = [&](const std::string& json, const std::string& end) {
    const std::string message = refused(json);
    EXPECT_NE(message.find("/generation_config.json: " + end), message.npos) << message;
  };
  expect(R"({"do_sample": "yes"})", "do_sample must be true or false; correct the file (\"yes\")");
  expect(R"({"do_sample": true, "temperature": -1})", "temperature must be a number, at least 0");
  expect(R"({"do_sample": true, "temperature": "warm"})",
         "temperature must be a number, at least 0");
  expect(R"({"do_sample": true, "top_p": 1.5})",
         "top_p must be a number from 0 to 1; correct the file (1.5)");
  expect(R"({"do_sample": true, "min_p": true})",
         "min_p must be a number from 0 to 1; correct the file (true)");
  expect(R"({"do_sample": true, "top_k": 1.5})", "top_k must be a whole number, at least 0");
  expect(R"({"do_sample": true, "top_k": -2})", "top_k must be a whole number, at least 0");
  expect(R"({"repetition_penalty": 0})", "repetition_penalty must be a number above 0");
  expect("[]", "a JSON object is required");
  EXPECT_NE(refused("{").find("/generation_config.json"), std::string::npos);
}

}  // namespace
}  // namespace fm::engine
