// Compressed files, packed here by zlib's and zstd's own functions.
#include "text/data/text_pieces.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <random>

#include "core/check.h"
#include "core/crc32c.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

std::string gzip(std::string text) {
  z_stream state{};
  deflateInit2(&state, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(text.size() + 1000, ' ');
  state.next_in = reinterpret_cast<Bytef*>(text.data());
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  packed.resize(state.total_out);
  deflateEnd(&state);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), ' ');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string numbers(int count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += std::to_string(i * 7919 % 1'000'003) + "\n";
  return text;
}

class Pieces : public ::testing::Test {
 protected:
  std::string all_of(const std::string& content) {
    TextPieces pieces(folder_.write("f", content));
    std::string all;
    while (true) {
      const std::string_view piece = pieces.next();
      if (piece.empty()) break;
      all += piece;
    }
    EXPECT_EQ(pieces.bytes(), std::ssize(all));
    EXPECT_EQ(pieces.crc(), core::crc32c(std::string_view(all)));
    return all;
  }
  std::string refusal(const std::string& content) {
    return testing::message_of<core::UserError>(11, [&] { all_of(content); });
  }
  testing::ScratchFolder folder_;
};

// 4 MB: several pieces before and behind the compression.
TEST_F(Pieces, AreTheSameHoweverTheFileIsPacked) {
  const std::string text = numbers(600'000);
  ASSERT_GT(text.size(), 3 * core::FileStream::kPiece);
  EXPECT_EQ(all_of(text), text);
  EXPECT_EQ(all_of(gzip(text)), text);
  EXPECT_EQ(all_of(zstd(text)), text);
  for (const std::string& small : {std::string(), std::string("a"), std::string("\x1f")}) {
    EXPECT_EQ(all_of(small), small);
    EXPECT_EQ(all_of(gzip(small)), small);
    EXPECT_EQ(all_of(zstd(small)), small);
  }
}

// As `cat a.gz b.gz` makes them, and pzstd.
TEST_F(Pieces, SeveralMembersAreOneText) {
  const std::string text = numbers(1000);
  EXPECT_EQ(all_of(gzip("a") + gzip("") + gzip(text)), "a" + text);
  EXPECT_EQ(all_of(zstd("a") + zstd("") + zstd(text)), "a" + text);
}

// RFC 8878, 3.1.2. pzstd begins with such a frame.
TEST_F(Pieces, FramesThatReadersSkipAreSkipped) {
  const std::string rest = "\x2a\x4d\x18" + std::string("\x04\0\0\0", 4);
  for (int kind = 0x50; kind < 0x60; ++kind) {
    const std::string skipped = static_cast<char>(kind) + rest + "size";
    EXPECT_EQ(all_of(skipped + zstd("a") + skipped + zstd("b") + skipped), "ab") << kind;
    EXPECT_EQ(all_of(skipped), "");
  }
  for (const std::string& other :
       {"\x4f" + rest, "\x60" + rest, std::string("P*M"), "P*N" + rest}) {
    EXPECT_EQ(all_of(other), other);
  }
}

// RFC 8878, 3.1.1.1.2: a window of 2^(10 + exponent) bytes, then one empty block.
TEST_F(Pieces, ALargeWindowIsNamed) {
  const auto frame = [](int exponent) {
    return std::string("\x28\xb5\x2f\xfd\0", 5) + static_cast<char>(exponent << 3) +
           std::string("\x01\0\0", 3);
  };
  EXPECT_EQ(all_of(frame(17)), "");
  for (const int exponent : {18, 21}) {
    EXPECT_NE(refusal(frame(exponent))
                  .find("a window of at most 128 MiB; compress the file anew, "
                        "with --long=27 at most"),
              std::string::npos)
        << refusal(frame(exponent));
  }
}

// bgzip and mgzip write such files, and several runs of a compressor behind each other.
TEST_F(Pieces, IdsAreSeenInBlocksOfAnySize) {
  const std::string lines = "\n \n{\"source\":\"" + std::string(3 << 20, 's') +
                            "\",\"input_ids\":[1,2,3,4],\"text\":\"a\"}\n{\"input_ids\":[5]}\n";
  const std::string array = "[\n" + lines.substr(3, lines.rfind("\n{") - 3) + "]";
  for (const std::string& text : {lines, array}) {
    for (const std::size_t block : {std::size_t{1}, std::size_t{64}, std::size_t{65'536}}) {
      std::string gz = gzip("");
      std::string zst = zstd("");
      // Small blocks up to the name of the ids and behind it, else it would take long.
      const std::size_t small = block < 1000 ? 40 : text.size();
      for (std::size_t at = 0; at < text.size();) {
        const bool middle = at >= small && at < text.size() - 100 && block < 1000;
        const std::size_t size = middle ? text.size() - 100 - at : block;
        gz += gzip(text.substr(at, size));
        zst += zstd(text.substr(at, size));
        at += size;
      }
      EXPECT_TRUE(holds_ids(folder_.write("a.jsonl.gz", gz + gzip("")))) << block;
      EXPECT_TRUE(holds_ids(folder_.write("a.jsonl.zst", zst + zstd("")))) << block;
    }
    EXPECT_TRUE(holds_ids(folder_.write("a.jsonl", text)));
  }
}

// 260 MB in 30 kB.
TEST_F(Pieces, ALineHasALimit) {
  const std::string begin = "\n{\"text\": \"a\"}\n{\"text\": \"";
  const std::string million(1'000'000, 'x');
  const std::string gz = gzip(million), zst = zstd(million);
  std::string bombs[] = {gzip(begin), zstd(begin)};
  for (int i = 0; i < 260; ++i) {
    bombs[0] += gz;
    bombs[1] += zst;
  }
  for (const std::string& bomb : bombs) {
    const std::string path = folder_.write("bomb.jsonl", bomb);
    const std::string said = testing::message_of<core::UserError>(
        11, [&] { open_source({.paths = {path}, .seq_len = 4, .vocab = 259}); });
    EXPECT_NE(said.find("bomb.jsonl:3: a line must have at most 256.0 MB"), std::string::npos)
        << said;
  }
  std::string only;
  for (int i = 0; i < 260; ++i) only += gz;
  EXPECT_NE(testing::message_of<core::UserError>(
                11, [&] { holds_ids(folder_.write("only.jsonl", only)); })
                .find("only.jsonl:1: a line must have at most 256.0 MB"),
            std::string::npos);
}

// A megabyte of zeros in a kilobyte.
TEST_F(Pieces, MuchMayComeOutOfLittle) {
  const std::string text(10 << 20, 'z');
  EXPECT_EQ(all_of(gzip(text)), text);
  EXPECT_EQ(all_of(zstd(text)), text);
}

TEST_F(Pieces, ACutFileIsRefused) {
  for (const std::string& packed : {gzip(numbers(1000)), zstd(numbers(1000))}) {
    for (const std::size_t size : {packed.size() - 1, packed.size() / 2, std::size_t{5}}) {
      const std::string said = refusal(packed.substr(0, size));
      EXPECT_NE(said.find("/f: compressed data must be whole; the file ends too early"),
                std::string::npos)
          << said;
    }
  }
}

// Every damaged file is refused with its name, or its content is the same (in a name of gzip).
TEST_F(Pieces, ADamagedFileIsRefused) {
  std::mt19937 random(3);
  const std::string text = numbers(200);
  const std::string good[] = {gzip(text), zstd(text)};
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bad = good[round % 2];
    const std::size_t at = 4 + random() % (bad.size() - 4);
    switch (random() % 3) {
      case 0: bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8))); break;
      case 1: bad.erase(at, 1 + random() % 9); break;
      default: bad.insert(at, 1, static_cast<char>(random())); break;  // the third
    }
    try {
      all_of(bad);
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError) << error.what();
      EXPECT_NE(std::string(error.what()).find("/f: "), std::string::npos) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 750);
}

TEST_F(Pieces, ACompressedCorpusIsTheSameData) {
  const std::string text = "{\"text\":\"hello\"}\n{\"text\":\"world, and more\"}\n";
  const auto open = [&](const std::string& name, const std::string& content) {
    return open_source({.paths = {folder_.write(name, content)}, .seq_len = 4, .vocab = 259});
  };
  const auto plain = open("a.jsonl", text);
  for (const auto& packed : {open("b.jsonl.gz", gzip(text)), open("c.jsonl.zst", zstd(text)),
                             open("d.jsonl", zstd(text))}) {
    EXPECT_EQ(packed->fingerprint(), plain->fingerprint());
    EXPECT_EQ(testing::epoch_of(*packed, 0, 4), testing::epoch_of(*plain, 0, 4));
  }
}

}  // namespace
}  // namespace fm::data
