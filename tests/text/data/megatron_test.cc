// Megatron-LM's datasets, written here by the layout of its indexed_dataset.py.
#include "text/data/formats/megatron.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <random>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/written_numbers.h"
#include "text/data/data_paths.h"

namespace fm::data {
namespace {

using testing::bytes_of;
using testing::bytes_of_all;
using testing::Ids;
using testing::Row;

struct Written {
  std::string bin, idx;
};

// `documents`: their sequences' lengths; ids count from 1. `bytes`: of the type with this code.
Written written(int code, int width, const std::vector<std::vector<int>>& documents) {
  Written files;
  std::vector<int> lengths;
  std::vector<std::int64_t> pointers;
  std::vector<std::int64_t> borders = {0};
  std::int64_t id = 1;
  for (const std::vector<int>& document : documents) {
    for (const int length : document) {
      lengths.push_back(length);
      pointers.push_back(std::ssize(files.bin));
      for (int at = 0; at < length; ++at, ++id) {
        const bool single = code == 7;
        const bool twice = code == 6;
        const std::int64_t number = single  ? std::bit_cast<std::int32_t>(static_cast<float>(id))
                                    : twice ? std::bit_cast<std::int64_t>(static_cast<double>(id))
                                            : id;
        files.bin += bytes_of(number, width);
      }
    }
    borders.push_back(std::ssize(lengths));
  }
  files.idx = std::string("MMIDIDX\0\0", 9) + bytes_of(1, 8) + bytes_of(code, 1) +
              bytes_of(std::ssize(lengths), 8) + bytes_of(std::ssize(borders), 8) +
              bytes_of_all(lengths, 4) + bytes_of_all(pointers, 8) + bytes_of_all(borders, 8);
  return files;
}

class Megatron : public ::testing::Test {
 protected:
  std::string write(const Written& files) {
    folder_.write("d.bin", files.bin);
    folder_.write("d.idx", files.idx);
    return (folder_.path() / "d").string();
  }
  StreamPtr open(const Written& files, std::int64_t vocab = 100) {
    return open_megatron(write(files), {.vocab = vocab});
  }
  std::string refusal(const Written& files, std::int64_t vocab = 100) {
    return testing::message_of<core::UserError>(11, [&] { open(files, vocab); });
  }
  testing::ScratchFolder folder_;
};

Ids all_of(const TokenStream& stream) {
  Ids ids(static_cast<std::size_t>(stream.size()));
  stream.read(0, ids);
  return ids;
}

TEST_F(Megatron, DocumentsOfEveryTypeAreRead) {
  const std::pair<int, int> codes[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4},
                                       {5, 8}, {6, 8}, {7, 4}, {8, 2}};
  for (const auto& [code, width] : codes) {
    const StreamPtr stream = open(written(code, width, {{3, 2}, {4}, {}, {1}}));
    EXPECT_EQ(all_of(*stream), (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})) << code;
    ASSERT_EQ(stream->documents(), 4) << code;
    EXPECT_EQ(stream->begin_of(0), 0);
    EXPECT_EQ(stream->begin_of(1), 5);
    EXPECT_EQ(stream->begin_of(2), 9);
    EXPECT_EQ(stream->begin_of(3), 9);
    EXPECT_EQ(stream->begin_of(4), 10);
  }
}

TEST_F(Megatron, EitherFileOrThePrefixNamesIt) {
  const std::string prefix = write(written(8, 2, {{6}, {6}}));
  for (const char* const end : {"", ".bin", ".idx"}) {
    EXPECT_EQ(file_of(prefix + end, DataFormat::kAuto).format, DataFormat::kMegatron) << end;
    const auto source = open_source({.paths = {prefix + end}, .seq_len = 3, .vocab = 100});
    const std::set<Row> expected = {
        {{1, 2, 3}, {2, 3, 4}}, {{5, 6, 7}, {6, 7, 8}}, {{9, 10, 11}, {10, 11, 12}}};
    EXPECT_EQ(testing::epoch_of(*source, 0, 3), expected);
    EXPECT_NE(source->describe().find("d.bin: 2 documents, 12 uint16 tokens (Megatron); 3 rows"),
              std::string::npos)
        << source->describe();
  }
  folder_.write("d.idx", "no index");
  EXPECT_EQ(file_of(prefix + ".bin", DataFormat::kAuto).format, DataFormat::kTokens);
}

TEST_F(Megatron, DocumentsArePackedWhole) {
  const std::string prefix = write(written(4, 4, {{2, 1}, {2}, {4}}));
  const auto source =
      open_source({.paths = {prefix}, .packing = Packing::kBestFit, .seq_len = 4, .vocab = 100});
  const std::set<Row> expected = {{{6, 7, 8, 9}, {7, 8, 9, kIgnored}},
                                  {{1, 2, 3, 4}, {2, 3, kIgnored, 5}}};
  EXPECT_EQ(testing::epoch_of(*source, 0, 4), expected);
}

TEST_F(Megatron, ModesOfTextAreNoHarm) {
  Written files = written(8, 2, {{3, 2}, {4}});
  const std::string idx = files.idx;
  files.idx = idx + std::string(3, '\0');
  EXPECT_EQ(open(files)->size(), 9);
  files.idx = idx + std::string("\0\1\0", 3);
  EXPECT_NE(refusal(files).find("sequence 1 is no text: its mode is 1"), std::string::npos);
}

TEST_F(Megatron, DamageIsNamed) {
  const Written good = written(8, 2, {{3, 2}, {4}});
  const auto says = [&](Written files, const std::string& words) {
    const std::string said = refusal(files);
    EXPECT_NE(said.find(words), std::string::npos) << said;
  };
  const auto with = [&](std::size_t at, const std::string& bytes) {
    Written files = good;
    files.idx.replace(at, bytes.size(), bytes);
    return files;
  };
  says(with(0, "X"),
       "d.idx: a Megatron dataset needs its whole .idx file; write it anew (it is no");
  says(with(9, bytes_of(2, 8)), "its version is not 1");
  says(with(17, bytes_of(0, 1)), "its type is none of 1 to 8");
  says(with(17, bytes_of(9, 1)), "its type is none of 1 to 8");
  says(with(18, bytes_of(4, 8)), "another size than its numbers");
  says(with(18, bytes_of(-1, 8)), "another size than its numbers");
  says(with(26, bytes_of(0, 8)), "another size than its numbers");
  says(with(34, bytes_of(-3, 4)), "sequence 0 has -3 ids");
  says(with(34, bytes_of(2, 4)), "sequence 1 does not begin where");
  says(with(46 + 8, bytes_of(8, 8)), "sequence 1 does not begin where");
  says(with(70, bytes_of(1, 8)), "document 0 does not begin at 0");
  says(with(78, bytes_of(4, 8)), "document 1 begins at sequence 4 of 3");
  says(with(86, bytes_of(2, 8)), "documents end before its sequences do");
  says({good.bin, good.idx.substr(0, 60)}, "another size than its numbers");
  says({good.bin, ""}, "it is no index");
  says({good.bin.substr(2), good.idx}, "16 bytes, 9 uint16 = 18 bytes in the .idx");
  EXPECT_NE(refusal(good, 9).find("d.bin: token ids must be in [0, vocab_size); check that dataset "
                                  "and model belong together (id 9 at position 8, vocab_size=9"),
            std::string::npos)
      << refusal(good, 9);
  Written half = written(7, 4, {{3}});
  half.bin.replace(4, 4, bytes_of(std::bit_cast<std::int32_t>(1.5F), 4));
  says(half, "(id 1.5 at position 1");
}

TEST_F(Megatron, AFileThatIsCutWhileARunReadsItIsRefused) {
  const StreamPtr stream = open(written(8, 2, {{3, 2}, {4}}));
  std::filesystem::resize_file(folder_.path() / "d.bin", 4);
  const std::string said = testing::message_of<core::UserError>(11, [&] { all_of(*stream); });
  EXPECT_NE(said.find("d.bin: the file must stay as it is"), std::string::npos) << said;
}

// Thousands of damaged pairs end in a dataset that can be read, or in one refusal.
TEST_F(Megatron, DamagedFilesAreReadOrRefused) {
  std::mt19937 random(17);
  const Written good = written(8, 2, {{3, 2}, {4}, {1, 1, 1}});
  int opened = 0;
  for (int round = 0; round < 1000; ++round) {
    Written bad = good;
    for (auto left = 1 + random() % 2; left > 0; --left) {
      std::string& file = random() % 3 == 0 ? bad.bin : bad.idx;
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0: file[at] = static_cast<char>(random()); break;
        case 1: file[at] = static_cast<char>(file[at] ^ 1); break;
        case 2: file.erase(at, 1 + random() % 9); break;
        default: file.insert(at, 1 + random() % 8, '\0'); break;  // the fourth
      }
      if (file.empty()) file = "x";
    }
    try {
      const StreamPtr stream = open(bad);
      all_of(*stream);
      for (std::int64_t at = 0; at < stream->documents(); ++at) {
        EXPECT_LE(stream->begin_of(at), stream->begin_of(at + 1));
      }
      ++opened;
    } catch (const core::UserError& refused) {
      EXPECT_EQ(refused.code(), core::ExitCode::kDataError) << refused.what();
    }
  }
  EXPECT_GT(opened, 20);
  EXPECT_LT(opened, 800);
}

}  // namespace
}  // namespace fm::data
