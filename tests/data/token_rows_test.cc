#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
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

TEST_F(TokenRows, CutAndShortFilesAreRefused) {
  EXPECT_NE(refusal(bytes_of(counting(8)) + "x", 100).find("33 bytes is no multiple of 4"),
            std::string::npos);
  EXPECT_NE(refusal(bytes_of(counting(3)), 100).find("3 ids, max_seq_len + 1 = 4"),
            std::string::npos);
  EXPECT_NE(refusal("", 100).find("0 ids"), std::string::npos);
}

}  // namespace
}  // namespace fm::data
