#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "core/check.h"
#include "data/batch_stream.h"
#include "data/sample_source.h"
#include "tests/data/scratch_folder.h"

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
    return open_source({.path = folder_.write("t.bin", bytes), .seq_len = seq_len, .vocab = vocab});
  }
  std::string refusal(const std::string& bytes, std::int64_t vocab) {
    return testing::message_of<core::UserError>(11, [&] { open(bytes, 3, vocab); });
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
  const auto later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };

  const auto cut = open(bytes, 3);
  EXPECT_EQ(read(*cut), (Ids{4, 5, 6}));
  std::filesystem::resize_file(path, 8);
  EXPECT_NE(message(*cut).find("t.bin: the file must stay as it is"), std::string::npos);
  EXPECT_NE(message(*cut).find("(48 bytes when it was opened, 8 now"), std::string::npos);

  const auto written = open(bytes, 3);
  later();  // than the clock of a file system can tell apart
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << 'x';
  EXPECT_NE(message(*written).find("t.bin: the file must stay as it is"), std::string::npos);

  const auto replaced = open(bytes, 3);
  std::filesystem::rename(folder_.write("new.bin", bytes_of(counting(4))), path);
  EXPECT_EQ(read(*replaced), (Ids{4, 5, 6}));
}

TEST_F(TokenRows, Int64IdsAreNamed) {
  for (const std::int32_t count : {32, 100'000}) {
    const std::string message = refusal(bytes_of_width(scattered(count, 300), 8), 300);
    EXPECT_NE(message.find("t.bin: "), std::string::npos) << message;
    EXPECT_NE(message.find("looks like int64"), std::string::npos) << message;
    EXPECT_NE(message.find("\"<i8\").astype(\"<i4\").tofile("), std::string::npos) << message;
  }
  // Of another vocabulary too: the type is what is wrong first.
  EXPECT_NE(refusal(bytes_of_width(scattered(5000, 900), 8), 300).find("looks like int64"),
            std::string::npos);
}

// Every second id 0 is no accident from 32 pairs on; all ids 0 say nothing about their width.
TEST_F(TokenRows, Int32IdsWithManyZerosAreReadAsTheyAre) {
  Ids zeros = scattered(62, 300);
  for (std::size_t at = 1; at < zeros.size(); at += 2) zeros[at] = 0;
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 31);
  zeros = scattered(64, 300);
  for (std::size_t at = 1; at < zeros.size(); at += 2) zeros[at] = 0;
  EXPECT_NE(refusal(bytes_of(zeros), 300).find("looks like int64"), std::string::npos);
  zeros[63] = 7;
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 32);
  EXPECT_EQ(open(bytes_of(Ids(1000, 0)), 1, 300)->samples_per_epoch(), 500);
  zeros.assign(200, 0);
  for (std::size_t at = 1; at < zeros.size(); at += 2) zeros[at] = 5;  // every other one
  EXPECT_EQ(open(bytes_of(zeros), 1, 300)->samples_per_epoch(), 100);
}

TEST_F(TokenRows, Uint16IdsAreNamed) {
  for (const std::int32_t count : {200, 201, 100'000, 100'001}) {
    const std::string message = refusal(bytes_of_width(scattered(count, 300), 2), 300);
    EXPECT_NE(message.find("looks like uint16"), std::string::npos) << count << message;
    EXPECT_NE(message.find("\"<u2\").astype(\"<i4\").tofile("), std::string::npos) << message;
  }
  EXPECT_NE(refusal(bytes_of_width(scattered(500, 300), 2), 200).find("token ids must be in"),
            std::string::npos);
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

TEST_F(TokenRows, NpyFilesAreNamed) {
  const std::string npy = std::string("\x93NUMPY\x01\x00", 8) + bytes_of(counting(100));
  const std::string message = refusal(npy, 300);
  EXPECT_NE(message.find("a NumPy .npy file"), std::string::npos) << message;
  EXPECT_NE(message.find("numpy.load("), std::string::npos) << message;
  EXPECT_NE(refusal(npy + "x", 300).find("a NumPy .npy file"), std::string::npos);
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
