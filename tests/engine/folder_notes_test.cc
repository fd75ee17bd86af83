#include "engine/shown/folder_notes.h"

#include <gtest/gtest.h>

#include <fstream>

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

// A tokenizer of three letters, ids 0 to 2.
std::string folder_with(const std::string& name, const std::string& letters,
                        const std::string& more = "") {
  const fs::path folder = fs::path(testing::TempDir()) / ("fm_folder_notes_" + name);
  fs::create_directories(folder);
  std::string vocab;
  for (std::size_t id = 0; id < letters.size(); ++id) {
    vocab += (id == 0 ? "\"" : ", \"") + letters.substr(id, 1) + "\": " + std::to_string(id);
  }
  std::ofstream(folder / "tokenizer.json")
      << R"({"version": "1.0", )" << more << R"("model": {"type": "BPE", "merges": [], "vocab": {)"
      << vocab << "}}}";
  return folder.string();
}

TEST(FolderNotes, AnotherTokenizerOfTheSameSizeIsSaid) {
  const std::string own = folder_with("own", "ehT");
  const auto note = [&](const std::string& tokenizer) {
    return note_of_other_tokenizer(tokenizer, own);
  };
  EXPECT_EQ(note(""), "");
  EXPECT_EQ(note(own), "");
  EXPECT_EQ(note(own + "/tokenizer.json"), "");
  EXPECT_EQ(note(folder_with("copy", "ehT", " \"padding\": null, ")), "");
  EXPECT_EQ(note_of_other_tokenizer(own, testing::TempDir() + "/fm_no_folder"), "");

  const std::string swapped = note(folder_with("swapped", "heT"));
  EXPECT_NE(swapped.find("2 of 3 ids differ, 0 is \"e\" there and \"h\" here"), std::string::npos)
      << swapped;
  const std::string longer = note(folder_with("longer", "ehTo"));
  EXPECT_NE(longer.find("1 of 4 ids differ, 3 is no token there and \"o\" here"), std::string::npos)
      << longer;
  const std::string lower =
      note(folder_with("lower", "ehT", R"("normalizer": {"type": "Lowercase"}, )"));
  EXPECT_NE(lower.find("texts are cut in another way"), std::string::npos) << lower;
}

TEST(FolderNotes, KeysThatNobodyKnowsAreSaidOnce) {
  model::ModelFacts facts;
  facts.family = "Llama";
  EXPECT_EQ(note_of_unknown_keys(facts), "");
  facts.unknown_keys = {"embedding_multiplier (12.0)", "no_rope_layers (an array)"};
  const std::vector<std::string> notes = folder_notes({}, facts);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("does not know either: embedding_multiplier (12.0), no_rope_layers (an "
                          "array);"),
            std::string::npos)
      << notes[0];
}

TEST(FolderNotes, OfWeightsThatStartRandomDoNotSpeakOfATokenizer) {
  TrainOptions options;
  options.init_ckpt = folder_with("own", "ehT");
  options.tokenizer = folder_with("swapped", "heT");
  EXPECT_EQ(folder_notes(options, {}).size(), 1U);
  options.pretrain = true;
  EXPECT_TRUE(folder_notes(options, {}).empty());
}

}  // namespace
}  // namespace fm::engine
