#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/documents.h"
#include "text/data/sample_source.h"

namespace fm::data {
namespace {

using testing::epoch_of;
using testing::Ids;
using testing::read_row;
using testing::Row;
constexpr std::int32_t E = core::kEosId;
constexpr std::int32_t P = core::kPadId;

class DocumentRows : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(std::string_view jsonl, std::int64_t seq_len,
                                     Packing packing = Packing::kConcat, std::uint64_t seed = 1) {
    return open_source({.paths = {folder_.write("corpus.jsonl", jsonl)},
                        .packing = packing,
                        .seq_len = seq_len,
                        .vocab = 259,
                        .seed = seed,
                        .ledger = &ledger_});
  }

  testing::ScratchFolder folder_;
  core::Ledger ledger_;
};

constexpr const char* kThree = "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"cdefg\"}\n";

// Stream: a b EOS EOS c d e f g EOS; rows of 4: [a b E E] [c d e f], "g E" is dropped.
TEST_F(DocumentRows, ConcatJoinsWithEosAndCutsWholeRows) {
  const auto source = open(kThree, 3);
  EXPECT_EQ(source->samples_per_epoch(), 2);
  const std::set<Row> expected = {{{'a', 'b', E}, {'b', E, E}}, {{'c', 'd', 'e'}, {'d', 'e', 'f'}}};
  EXPECT_EQ(epoch_of(*source, 0, 3), expected);
  EXPECT_EQ(epoch_of(*source, 7, 3), expected);
  EXPECT_NE(source->describe().find("3 documents, 10 byte tokens; 2 rows of 4 ids"),
            std::string::npos)
      << source->describe();
  EXPECT_NE(source->describe().find("last 2 ids dropped"), std::string::npos);
}

TEST_F(DocumentRows, OneDocumentIsCutOrPaddedWithOneEosThatCounts) {
  const auto source = open(
      "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"cde\"}\n{\"text\":\"fghi\"}\n"
      "{\"text\":\"jklmnop\"}\n{\"text\":\"q\"}\n",
      3, Packing::kOneDocument);
  EXPECT_EQ(source->samples_per_epoch(), 5);
  const std::set<Row> expected = {
      {{'a', 'b', E}, {'b', E, kIgnored}},    {{'c', 'd', 'e'}, {'d', 'e', E}},
      {{'f', 'g', 'h'}, {'g', 'h', 'i'}},     {{'j', 'k', 'l'}, {'k', 'l', 'm'}},
      {{'q', E, P}, {E, kIgnored, kIgnored}},
  };
  EXPECT_EQ(epoch_of(*source, 0, 3), expected);
  EXPECT_NE(source->describe().find("1 empty left out"), std::string::npos);
}

std::string numbered_documents(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "{\"text\":\"document number " + std::to_string(1000 + i) + "\"}\n";
  }
  return text;
}

TEST_F(DocumentRows, EpochsHoldTheSameRowsInAnotherOrder) {
  for (const Packing packing : {Packing::kConcat, Packing::kOneDocument}) {
    const auto source = open(numbered_documents(50), 20, packing);
    const std::int64_t size = source->samples_per_epoch();
    ASSERT_GT(size, 40);
    const std::set<Row> rows = epoch_of(*source, 0, 20);
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(epoch_of(*source, 1, 20), rows);
    int moved = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      moved += read_row(*source, i, 20) == read_row(*source, size + i, 20) ? 0 : 1;
    }
    EXPECT_GT(moved, size / 2);
  }
}

TEST_F(DocumentRows, OrderDependsOnTheSeedOnly) {
  const auto a = open(numbered_documents(50), 20, Packing::kConcat, 5);
  const auto b = open(numbered_documents(50), 20, Packing::kConcat, 5);
  const auto c = open(numbered_documents(50), 20, Packing::kConcat, 6);
  int different = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(read_row(*a, i, 20), read_row(*b, i, 20));
    different += read_row(*a, i, 20) == read_row(*c, i, 20) ? 0 : 1;
  }
  EXPECT_GT(different, 25);
}

TEST_F(DocumentRows, FingerprintFollowsContentAndOptions) {
  const std::string base = open(kThree, 3)->fingerprint();
  EXPECT_EQ(open(kThree, 3)->fingerprint(), base);
  EXPECT_NE(open("{\"text\":\"ac\"}\n{\"text\":\"\"}\n{\"text\":\"cdefg\"}\n", 3)->fingerprint(),
            base);
  EXPECT_NE(open(kThree, 4)->fingerprint(), base);
  EXPECT_NE(open(kThree, 3, Packing::kOneDocument)->fingerprint(), base);
  EXPECT_NE(open(kThree, 3, Packing::kConcat, 2)->fingerprint(), base);
}

TEST_F(DocumentRows, MemoryIsChargedToData) {
  const auto source = open(kThree, 3);
  EXPECT_GT(ledger_.current(core::Account::kData), core::Bytes(0));
}

TEST_F(DocumentRows, TooLittleTextIsRefusedWithTheNumbers) {
  const std::string concat = testing::message_of<core::UserError>(11, [&] { open(kThree, 10); });
  EXPECT_NE(concat.find("3 documents, 10 byte tokens: at least one row"), std::string::npos)
      << concat;
  EXPECT_NE(concat.find("max_seq_len + 1 = 11"), std::string::npos) << concat;
  const std::string empty = testing::message_of<core::UserError>(
      11, [&] { open("{\"text\":\"\"}\n", 3, Packing::kOneDocument); });
  EXPECT_NE(empty.find("1 document, all empty"), std::string::npos) << empty;
}

// Four EOS would make a row of EOS.
TEST_F(DocumentRows, EmptyTextsAloneAreRefused) {
  std::string lines;
  for (int at = 0; at < 8; ++at) lines += "{\"text\":\"\"}\n";
  for (const Packing packing : {Packing::kConcat, Packing::kOneDocument}) {
    const std::string message =
        testing::message_of<core::UserError>(11, [&] { open(lines, 3, packing); });
    EXPECT_NE(message.find("at least one document with text is required"), std::string::npos)
        << message;
    EXPECT_NE(message.find("8 documents, all empty"), std::string::npos) << message;
  }
}

std::string many_lines(std::size_t count) {
  std::string lines;
  for (std::size_t at = 0; at < count; ++at) {
    lines += "{\"text\":\"" + std::to_string(at) + " one line of many\"}\n";
  }
  return lines;
}

// Larger than what is read at once, so lines lie across the seams.
TEST_F(DocumentRows, ALongFileGivesEveryDocumentOnce) {
  const auto source = open(many_lines(100'000), 30, Packing::kOneDocument);
  EXPECT_EQ(source->samples_per_epoch(), 100'000);
  std::set<Row> rows;
  for (std::int64_t at = 0; at < 100'000; ++at) rows.insert(read_row(*source, at, 30));
  EXPECT_EQ(rows.size(), 100'000U);
}

// It is cut when the first documents are there: many are still to be read.
TEST_F(DocumentRows, AFileThatIsCutWhileItIsReadIsRefused) {
  const std::string lines = many_lines(150'000);
  const std::filesystem::path path = folder_.write("corpus.jsonl", lines);
  std::atomic<bool> over = false;
  std::thread cutter([&] {
    while (ledger_.current(core::Account::kData) == core::Bytes(0) && !over) {
      std::this_thread::yield();
    }
    std::filesystem::resize_file(path, 5000);
  });
  const std::string said = testing::message_of<core::UserError>(11, [&] {
    open_source({.paths = {path.string()}, .seq_len = 3, .vocab = 259, .ledger = &ledger_});
  });
  over = true;
  cutter.join();
  EXPECT_NE(said.find("corpus.jsonl: the file must stay as it is"), std::string::npos) << said;
}

TEST_F(DocumentRows, SmallVocabulariesMissingFilesAndUnknownNamesAreRefused) {
  const auto refusal = [](const SourceOptions& options) {
    return testing::message_of<core::UserError>(11, [&] { open_source(options); });
  };
  const std::string file = folder_.write("c.jsonl", kThree);
  EXPECT_NE(refusal({.paths = {file}, .seq_len = 3, .vocab = 258}).find("vocab_size=258"),
            std::string::npos);
  const std::string missing = (folder_.path() / "absent.jsonl").string();
  EXPECT_NE(refusal({.paths = {missing}, .vocab = 259}).find(missing), std::string::npos);
  const std::string text = folder_.write("corpus.md", kThree);
  EXPECT_NE(refusal({.paths = {text}, .vocab = 259}).find("--data_format"), std::string::npos);
}

TEST(ByteTokenizer, BytesAreIdsAndBack) {
  const std::string text = "a\n\xC3\xA9\xF0\x9F\x98\x80";
  const Ids ids = encode_bytes(text);
  EXPECT_EQ(ids, (Ids{97, 10, 0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80}));
  EXPECT_EQ(decode_bytes(ids), text);
  EXPECT_EQ(decode_bytes(Ids{core::kBosId, 'h', 'i', E, P, 300, -1}), "hi");
}

}  // namespace
}  // namespace fm::data
