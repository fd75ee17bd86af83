#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/batch_stream.h"
#include "text/data/sample_source.h"

namespace fm::data {
namespace {

using Ids = std::vector<std::int32_t>;

std::string bytes_of(const Ids& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes += static_cast<char>(static_cast<std::uint32_t>(id) >> shift);
    }
  }
  return bytes;
}

Ids counting(std::int32_t count) {
  Ids ids(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = i;
  return ids;
}

// The same ids in `width` bytes each, as numpy's tofile writes them on this machine.
std::string bytes_of_width(const Ids& ids, int width) {
  std::string bytes;
  for (const std::int32_t id : ids) {
    for (int at = 0; at < width; ++at) {
      bytes += at < 4 ? static_cast<char>(static_cast<std::uint32_t>(id) >> (8 * at)) : '\0';
    }
  }
  return bytes;
}

// `count` ids from 1 to `highest` - 1, without a period in sight.
Ids scattered(std::int32_t count, std::int32_t highest) {
  Ids ids(static_cast<std::size_t>(count));
  std::mt19937 random(5);
  for (std::int32_t& id : ids) {
    id = 1 + static_cast<std::int32_t>(random() % static_cast<unsigned>(highest - 1));
  }
  return ids;
}

class TokenRows : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(const std::string& bytes, std::int64_t seq_len,
                                     std::int64_t vocab = 1'000'000) {
    return open_source(
        {.paths = {folder_.write("t.bin", bytes)}, .seq_len = seq_len, .vocab = vocab});
  }
  std::string refusal(const std::string& bytes, std::int64_t vocab) {
    return testing::message_of<core::UserError>(11, [&] { open(bytes, 3, vocab); });
  }
  std::unique_ptr<SampleSource> open_as(TokenType type, const std::string& bytes) {
    return open_source({.paths = {folder_.write("t.bin", bytes)},
                        .token_type = type,
                        .seq_len = 1,
                        .vocab = 70'000});
  }
  // The ids of a window: the tokens and the last label.
  static Ids row(const SampleSource& source, std::int64_t position, std::size_t seq_len = 3) {
    Ids tokens(seq_len);
    Ids labels(tokens.size());
    source.read(position, tokens, labels);
    tokens.push_back(labels.back());
    return tokens;
  }
  testing::ScratchFolder folder_;
};

TEST_F(TokenRows, WindowsFollowEachOtherAndStartAgain) {
  const auto source = open(bytes_of(counting(11)), 3);  // windows 0-3, 4-7; 8 9 10 are not used
  EXPECT_EQ(source->samples_per_epoch(), 2);
  Ids tokens(3), labels(3);
  source->read(1, tokens, labels);
  EXPECT_EQ(tokens, (Ids{4, 5, 6}));
  EXPECT_EQ(labels, (Ids{5, 6, 7}));
  source->read(2, tokens, labels);
  EXPECT_EQ(tokens, (Ids{0, 1, 2}));
}

// peers/peer_train.py: step s, micro-batch g, rank r, row b reads window
// ((s*GA + g)*world + r)*B + b, modulo the file's windows of T+1 ids.
TEST_F(TokenRows, StepsReadTheWindowsOfThePeers) {
  constexpr std::int64_t T = 4, B = 2, kWindows = 13;
  constexpr int kAccumulation = 3, kWorld = 2;
  const auto source = open(bytes_of(counting(kWindows * (T + 1) + 2)), T);
  for (int r = 0; r < kWorld; ++r) {
    BatchStream stream(*source, {.shape = {.batch = B, .seq_len = T},
                                 .micros = kAccumulation,
                                 .dp_size = kWorld,
                                 .dp_rank = r});
    for (std::int64_t s = 0; s < 4; ++s) {
      stream.load_step(s * B * kAccumulation * kWorld);
      for (int g = 0; g < kAccumulation; ++g) {
        for (std::int64_t b = 0; b < B; ++b) {
          const std::int64_t window = (((s * kAccumulation + g) * kWorld + r) * B + b) % kWindows;
          for (std::int64_t t = 0; t < T; ++t) {
            const auto at = static_cast<std::size_t>(b * T + t);
            ASSERT_EQ(stream.micro(g).tokens_BT[at], window * (T + 1) + t);
            ASSERT_EQ(stream.micro(g).labels_BT[at], window * (T + 1) + t + 1);
          }
        }
      }
    }
  }
}

TEST_F(TokenRows, IdsOutsideTheVocabularyAreNamedWithTheirPosition) {
  Ids ids = counting(200'000);
  for (std::int32_t& id : ids) id %= 500;
  EXPECT_EQ(open(bytes_of(ids), 3, 500)->samples_per_epoch(), 50'000);
  ids[150'001] = 500;
  const std::string high = refusal(bytes_of(ids), 500);
  EXPECT_NE(high.find("t.bin"), std::string::npos) << high;
  EXPECT_NE(high.find("id 500 at position 150001, vocab_size=500"), std::string::npos) << high;
  ids[150'001] = -1;
  EXPECT_NE(refusal(bytes_of(ids), 500).find("id -1 at position 150001"), std::string::npos);
  ids[150'001] = std::numeric_limits<std::int32_t>::min();
  EXPECT_NE(refusal(bytes_of(ids), 500).find("id -2147483648 at"), std::string::npos);
}

TEST_F(TokenRows, AFileThatIsWrittenWhileARunReadsItIsRefused) {
  const std::string bytes = bytes_of(counting(12));
  const std::filesystem::path path = folder_.path() / "t.bin";
  const auto read = [](const SampleSource& source) {
    Ids tokens(3);
    Ids labels(3);
    source.read(1, tokens, labels);
    return tokens;
  };
  const auto message = [&](const SampleSource& source) {
    return testing::message_of<core::UserError>(11, [&] { read(source); });
  };

  const auto cut = open(bytes, 3);
  EXPECT_EQ(read(*cut), (Ids{4, 5, 6}));
  std::filesystem::resize_file(path, 8);
  EXPECT_NE(message(*cut).find("t.bin: the file must stay as it is"), std::string::npos);
  EXPECT_NE(message(*cut).find("(48 bytes when it was opened, 8 now"), std::string::npos);

  const auto written = open(bytes, 3);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << 'x';
  // A file system's clock is coarse.
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_NE(message(*written).find("t.bin: the file must stay as it is"), std::string::npos);

  const auto replaced = open(bytes, 3);
  std::filesystem::rename(folder_.write("new.bin", bytes_of(counting(4))), path);
  EXPECT_EQ(read(*replaced), (Ids{4, 5, 6}));
}

TEST_F(TokenRows, Int64IdsAreReadAsSuch) {
  for (const std::int32_t count : {32, 100'000}) {
    const Ids ids = scattered(count, 300);
    const auto source = open(bytes_of_width(ids, 8), 3, 300);
    EXPECT_EQ(source->samples_per_epoch(), count / 4);
    EXPECT_EQ(row(*source, 1), Ids(ids.begin() + 4, ids.begin() + 8));
    EXPECT_NE(source->describe().find(" int64 tokens; "), std::string::npos) << source->describe();
    EXPECT_TRUE(source->fingerprint().starts_with("tokens_int64 bytes="));
  }
  EXPECT_NE(refusal(bytes_of_width(scattered(5000, 900), 8), 300).find("read as int64"),
            std::string::npos);
}

// Every second id 0 is no accident from 32 pairs on; all ids 0 say nothing about their width.
TEST_F(TokenRows, Int32IdsWithManyZerosAreReadAsTheyAre) {
  Ids zeros = scattered(62, 300);
  for (std::size_t at = 1; at < zeros.size(); at += 2) zeros[at] = 0;
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 31);
  zeros = scattered(64, 300);
  for (std::size_t at = 1; at < zeros.size(); at += 2) zeros[at] = 0;
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 16);  // int64
  EXPECT_EQ(open_as(TokenType::kI32, bytes_of(zeros))->samples_per_epoch(), 32);
  zeros[63] = 7;
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 32);
  EXPECT_EQ(open(bytes_of(Ids(1000, 0)), 1, 300)->samples_per_epoch(), 500);
  zeros.assign(200, 0);
  for (std::size_t at = 1; at < zeros.size(); at += 2) zeros[at] = 5;  // every other one
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 100);
}

TEST_F(TokenRows, Uint16IdsAreReadAsSuch) {
  for (const std::int32_t count : {200, 201, 100'000, 100'001}) {
    const Ids ids = scattered(count, 300);
    const auto source = open(bytes_of_width(ids, 2), 3, 300);
    EXPECT_EQ(source->samples_per_epoch(), count / 4);
    EXPECT_EQ(row(*source, 1), Ids(ids.begin() + 4, ids.begin() + 8));
    EXPECT_NE(source->describe().find(" uint16 tokens; "), std::string::npos);
  }
  EXPECT_NE(refusal(bytes_of_width(scattered(500, 300), 2), 200).find("token ids must be in"),
            std::string::npos);
}

// A vocabulary beyond 65,536 has no room for the guess; the flag says it.
TEST_F(TokenRows, TheTypeThatIsNamedCounts) {
  const Ids ids = scattered(64, 300);
  EXPECT_EQ(row(*open_as(TokenType::kU16, bytes_of_width(ids, 2)), 0, 1),
            Ids(ids.begin(), ids.begin() + 2));
  EXPECT_EQ(row(*open_as(TokenType::kI64, bytes_of_width(ids, 8)), 0, 1),
            Ids(ids.begin(), ids.begin() + 2));
  EXPECT_EQ(row(*open_as(TokenType::kI32, bytes_of(ids)), 0, 1), Ids(ids.begin(), ids.begin() + 2));
  const std::string message = testing::message_of<core::UserError>(
      11, [&] { open_as(TokenType::kI64, bytes_of(counting(33))); });
  EXPECT_NE(message.find("132 bytes is no multiple of 8"), std::string::npos) << message;
}

// 65,539 is the halves 3 and 1.
TEST_F(TokenRows, AnInt32IdThatIsTooLargeIsNotTakenForUint16) {
  Ids ids = scattered(500, 300);
  ids[77] = 65'539;
  EXPECT_NE(refusal(bytes_of(ids), 300).find("id 65539 at position 77"), std::string::npos);
  ids[77] = 5;
  EXPECT_NE(refusal(bytes_of(ids) + "xy", 300).find("2002 bytes is no multiple of 4"),
            std::string::npos);
  ids.assign(500, 128'000);
  EXPECT_NE(refusal(bytes_of(ids), 100'000).find("id 128000 at position 0"), std::string::npos);
}

// As numpy.save writes it.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& order = "False", int version = 1) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const std::size_t head = version == 1 ? 10 : 12;
  while ((head + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (std::size_t at = 8; at < head; ++at) {
    out += static_cast<char>(header.size() >> (8 * (at - 8)));
  }
  return out + header + data;
}

TEST_F(TokenRows, NpyFilesSayTheirType) {
  const Ids ids = scattered(24, 300);
  const Ids second(ids.begin() + 4, ids.begin() + 8);
  for (const auto& [descr, width] :
       {std::pair("<u2", 2), {"<i4", 4}, {"<i8", 8}, {"<i2", 2}, {"<u4", 4}, {"<u8", 8}}) {
    const std::string data = bytes_of_width(ids, width);
    for (const char* shape : {"(24,)", "(4, 6)", "(2,3,4)"}) {
      for (const int version : {1, 2, 3}) {
        const auto source = open(npy(descr, shape, data, "False", version), 3, 300);
        EXPECT_EQ(source->samples_per_epoch(), 6);
        EXPECT_EQ(row(*source, 1), second) << descr << shape;
        EXPECT_NE(source->describe().find(" tokens (.npy); 6 rows of 4"), std::string::npos);
      }
    }
  }
  EXPECT_EQ(open(npy("<i4", "(24,)", bytes_of(ids), "True"), 3, 300)->samples_per_epoch(), 6);
  for (const char* const descr : {"|u1", "|i1"}) {
    const auto source = open(npy(descr, "(8,)", "\x01\x02\x03\x04\x05\x06\x07\x08"), 3, 300);
    EXPECT_EQ(row(*source, 1), (Ids{5, 6, 7, 8})) << descr;
  }
}

TEST_F(TokenRows, NpyFilesOfOtherThingsAreRefused) {
  const std::string data = bytes_of(scattered(24, 300));
  const auto says = [&](const std::string& file, const std::string& words) {
    const std::string message = refusal(file, 300);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  says(npy("<f4", "(24,)", data), "must hold little-endian whole numbers");
  says(npy(">i4", "(24,)", data), "(descr '>i4')");
  says(npy("<i4", "(25,)", data), "25 ids in the header, 96 bytes of them");
  says(npy("<i4", "(4, 6)", data, "True"), "fortran_order: True");
  says(npy("<i4", "(-4, 6)", data), "whole header");
  says(npy("<i4", "(4000000000, 4000000000)", data), "whole header");
  says(npy("<i4", "24", data), "whole header");
  says(npy("<i4", "(24,)", data).substr(0, 40), "whole header");
  says(std::string("\x93NUMPY\x01\x00", 8), "whole header");
  const std::string message = testing::message_of<core::UserError>(
      11, [&] { open_as(TokenType::kU16, npy("<i4", "(24,)", data)); });
  EXPECT_NE(message.find("--token_dtype uint16, the file int32"), std::string::npos) << message;
}

// Thousands of damaged headers end in a source that can be read, or in one refusal.
TEST_F(TokenRows, DamagedNpyFilesAreReadOrRefused) {
  std::mt19937 random(11);
  const std::string good = npy("<u2", "(3, 40)", bytes_of_width(scattered(120, 300), 2));
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (auto left = 1 + random() % 3; left > 0; --left) {
      const std::size_t at = random() % (round % 4 == 0 ? bad.size() : 80);
      switch (random() % 3) {
        case 0: bad[at] = static_cast<char>(random()); break;
        case 1: bad.erase(at, 1 + random() % 5); break;
        case 2: bad.insert(at, 1, "0123456789(),' "[random() % 15]); break;
        default: break;  // there is no other
      }
    }
    try {
      const auto source = open(bad, 3);
      for (std::int64_t at = 0; at < source->samples_per_epoch(); ++at) row(*source, at);
      ++read;
    } catch (const core::UserError& refused) {
      EXPECT_EQ(refused.code(), core::ExitCode::kDataError) << refused.what();
    }
  }
  EXPECT_GT(read, 50);
  EXPECT_LT(read, 2900);
}

TEST_F(TokenRows, WindowsAreShuffledAnewInEachEpoch) {
  const std::string path = folder_.write("t.bin", bytes_of(counting(4 * 50)));
  SourceOptions options{.paths = {path}, .seq_len = 3, .vocab = 1000, .shuffle_windows = true};
  const auto source = open_source(options);
  std::vector<Ids> epochs;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    Ids firsts;
    for (std::int64_t at = 0; at < 50; ++at) {
      const Ids ids = row(*source, epoch * 50 + at);
      EXPECT_EQ(ids[0] % 4, 0);
      EXPECT_EQ(ids[3], ids[0] + 3);
      firsts.push_back(ids[0] / 4);
    }
    epochs.push_back(firsts);
    std::sort(firsts.begin(), firsts.end());
    EXPECT_EQ(firsts, counting(50));  // each window once
  }
  EXPECT_NE(epochs[0], counting(50));
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(row(*open_source(options), 3)[0] / 4, epochs[0][3]);
  const std::string plain = open(bytes_of(counting(200)), 3)->fingerprint();
  EXPECT_TRUE(plain.ends_with(" order=file")) << plain;
  EXPECT_TRUE(source->fingerprint().ends_with(" order=shuffled seed=3407"));
  EXPECT_NE(source->describe().find("shuffled per epoch (seed 3407)"), std::string::npos);
}

TEST_F(TokenRows, CutAndShortFilesAreRefused) {
  EXPECT_NE(refusal(bytes_of(counting(8)) + "x", 100).find("33 bytes is no multiple of 4"),
            std::string::npos);
  EXPECT_NE(refusal(bytes_of(counting(3)), 100).find("3 ids, max_seq_len + 1 = 4"),
            std::string::npos);
  EXPECT_NE(refusal("", 100).find("0 ids"), std::string::npos);
}

}  // namespace
}  // namespace fm::data
