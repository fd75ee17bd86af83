// Shards of llm.c, written here by the layout of its dev/data/data_common.py.
#include <gtest/gtest.h>

#include <random>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/written_numbers.h"

namespace fm::data {
namespace {

using testing::bytes_of;
using testing::Ids;

std::string shard(std::int32_t magic, std::int32_t version, int count, int width) {
  std::string file = bytes_of(magic, 4) + bytes_of(version, 4) + bytes_of(count, 4);
  file.resize(1024);
  for (int id = 1; id <= count; ++id) file += bytes_of(id, width);
  return file;
}

std::string gpt2(int count) { return shard(20240520, 1, count, 2); }
std::string llama3(int count) { return shard(20240801, 7, count, 4); }

class LlmC : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(const std::string& file) {
    return open_source({.paths = {folder_.write("t.bin", file)}, .seq_len = 3, .vocab = 100});
  }
  std::string refusal(const std::string& file) {
    return testing::message_of<core::UserError>(11, [&] { open(file); });
  }
  testing::ScratchFolder folder_;
};

TEST_F(LlmC, BothVersionsAreRead) {
  for (const auto& [file, type] : {std::pair(gpt2(10), "uint16"), {llama3(10), "uint32"}}) {
    const auto source = open(file);
    EXPECT_EQ(source->samples_per_epoch(), 2);
    EXPECT_EQ(testing::read_row(*source, 1, 3), (testing::Row{{5, 6, 7}, {6, 7, 8}}));
    EXPECT_NE(source->describe().find(std::string("10 ") + type + " tokens (llm.c); 2 rows"),
              std::string::npos)
        << source->describe();
    EXPECT_TRUE(source->fingerprint().starts_with(std::string("tokens_") + type + "_llm.c bytes="));
  }
}

TEST_F(LlmC, SeveralShardsAreOneStream) {
  const std::string first = folder_.write("a_000.bin", gpt2(5));
  folder_.write("a_001.bin", llama3(7));
  for (const std::vector<std::string>& paths :
       {std::vector{first, (folder_.path() / "a_001.bin").string()},
        std::vector{(folder_.path() / "a_*.bin").string()}, std::vector{folder_.path().string()}}) {
    const auto source = open_source({.paths = paths, .seq_len = 3, .vocab = 100});
    EXPECT_EQ(source->samples_per_epoch(), 3);
    EXPECT_EQ(testing::read_row(*source, 1, 3), (testing::Row{{5, 1, 2}, {1, 2, 3}}));
    EXPECT_NE(source->describe().find("2 files, 12 tokens (the first: "), std::string::npos);
  }
}

TEST_F(LlmC, DamageIsNamed) {
  EXPECT_NE(refusal(shard(20240520, 7, 10, 2))
                .find("version 1; write it anew (1044 bytes, version "
                      "7)"),
            std::string::npos);
  EXPECT_NE(refusal(gpt2(10).substr(0, 1000)).find("(1000 bytes, version 1)"), std::string::npos);
  EXPECT_NE(refusal(gpt2(10) + "x").find("10 ids in the header, 21 bytes of uint16"),
            std::string::npos);
  EXPECT_NE(refusal(llama3(10).substr(0, 1060)).find("10 ids in the header, 36 bytes of uint32"),
            std::string::npos);
  EXPECT_NE(refusal(gpt2(100)).find("id 100 at position 99"), std::string::npos);
  EXPECT_NE(refusal(bytes_of(20240520, 4)).find("(4 bytes, version 0)"), std::string::npos);
}

TEST_F(LlmC, DamagedShardsAreReadOrRefused) {
  std::mt19937 random(23);
  int opened = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bad = round % 2 == 0 ? gpt2(12) : llama3(12);
    const std::size_t at = round % 4 == 0 ? random() % bad.size() : random() % 12;
    switch (random() % 3) {
      case 0: bad[at] = static_cast<char>(random()); break;
      case 1: bad.resize(at); break;
      default: bad.insert(at, 1, '\0'); break;  // the third
    }
    try {
      const auto source = open(bad);
      for (std::int64_t p = 0; p < source->samples_per_epoch(); ++p) {
        testing::read_row(*source, p, 3);
      }
      ++opened;
    } catch (const core::UserError& refused) {
      EXPECT_EQ(refused.code(), core::ExitCode::kDataError) << refused.what();
    }
  }
  EXPECT_GT(opened, 20);
  EXPECT_LT(opened, 900);
}

}  // namespace
}  // namespace fm::data
