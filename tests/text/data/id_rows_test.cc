// Rows of whole documents: what stands where.
#include "text/data/id_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/small_streams.h"
#include "text/data/packing.h"

namespace fm::data {
namespace {

using testing::address_stream;
using testing::Ids;
using testing::Row;
constexpr std::int32_t X = kIgnored;

std::unique_ptr<SampleSource> rows_of(std::vector<std::int64_t> lengths, Packing packing,
                                      std::int64_t seq_len) {
  return make_rows(address_stream(0, std::move(lengths)),
                   {.packing = packing, .seq_len = seq_len, .vocab = 100'000}, "");
}

// Rows of 6 ids for documents of 3, 5, 2, 1, 9 and 4 ids, at 0, 3, 8, 10, 11 and 20. Longest first:
// 9 is cut to 6, 5 opens a row (room 1), 4 opens one (room 2), 3 opens one (room 3), 2 goes to the
// row of 4, where it fits best. The document of 1 id has no target.
TEST(BestFit, TheLongestComesFirstIntoTheTightestRoom) {
  const auto source = rows_of({3, 5, 2, 1, 9, 4}, Packing::kBestFit, 5);
  EXPECT_EQ(source->samples_per_epoch(), 4);
  const std::set<Row> expected = {
      {{11, 12, 13, 14, 15}, {-12, -13, -14, -15, -16}},
      {{3, 4, 5, 6, 7}, {-4, -5, -6, -7, X}},
      {{20, 21, 22, 23, 8}, {-21, -22, -23, X, -9}},
      {{0, 1, 2, 7, 7}, {-1, -2, X, X, X}},
  };
  EXPECT_EQ(testing::epoch_of(*source, 0, 5), expected);
  EXPECT_EQ(testing::epoch_of(*source, 3, 5), expected);
  // 20 ids in 4 rows of 6.
  EXPECT_NE(source->describe().find("4 rows of 6 ids (whole documents, 83.3 % full; 1 empty left "
                                    "out, 1 cut by 3 ids)"),
            std::string::npos)
      << source->describe();
}

// Of many documents each is in one row, whole, and never more than fit; windows of 65,536.
TEST(BestFit, EveryDocumentIsThereOnce) {
  std::mt19937 random(1);
  std::vector<std::int64_t> lengths(150'000);
  for (std::int64_t& length : lengths) length = random() % 40;
  const auto stream = address_stream(0, lengths);
  core::Ledger ledger;
  const auto plan = make_row_plan(*stream, Packing::kBestFit, 64, ledger);
  std::map<std::int64_t, std::int64_t> seen;  // first id -> ids
  std::int64_t ids = 0;
  std::vector<Segment> segments;
  for (std::int64_t row = 0; row < plan->rows(); ++row) {
    plan->find(row, segments);
    std::int64_t filled = 0;
    for (const Segment& segment : segments) {
      EXPECT_TRUE(seen.emplace(segment.first, segment.count).second);
      filled += segment.count;
    }
    EXPECT_LE(filled, 64);
    ids += filled;
  }
  std::int64_t expected = 0;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    if (length >= 2) {
      ++expected;
      EXPECT_EQ(seen[begin], length);
    }
    begin += length;
  }
  EXPECT_EQ(std::ssize(seen), expected);
  EXPECT_GT(static_cast<double>(ids), 0.995 * 64 * static_cast<double>(plan->rows()));
  EXPECT_GT(ledger.current(core::Account::kData), core::Bytes(4 * expected));
}

// Documents of fewer than 2 ids leave no gap in the numbers of the rows.
TEST(OneDocument, ShortDocumentsAreLeftOutWhereverTheyAre) {
  const auto source = rows_of({1, 0, 2, 3, 1, 1, 2, 0}, Packing::kOneDocument, 2);
  const std::set<Row> expected = {{{1, 2}, {-2, X}}, {{3, 4}, {-4, -5}}, {{8, 9}, {-9, X}}};
  EXPECT_EQ(testing::epoch_of(*source, 0, 2), expected);
  EXPECT_NE(source->describe().find("5 empty left out"), std::string::npos) << source->describe();
}

std::set<std::vector<std::int32_t>> starts_of(const SampleSource& source) {
  std::set<std::vector<std::int32_t>> all;
  for (std::int64_t at = 0; at < source.samples_per_epoch(); ++at) {
    all.insert(source.document_starts(at));
  }
  return all;
}

TEST(DocumentStarts, AreWhereDocumentsBeginInARow) {
  using Starts = std::set<std::vector<std::int32_t>>;
  // Rows [0, 6) and [6, 12) of documents at 0, 3, 8, 8, 10 and 11: the last id of a row is a label.
  EXPECT_EQ(starts_of(*rows_of({3, 5, 0, 2, 1, 3}, Packing::kConcat, 5)),
            (Starts{{0, 3}, {0, 2, 4}}));
  EXPECT_EQ(starts_of(*rows_of({3, 5, 2, 1, 9, 4}, Packing::kBestFit, 5)), (Starts{{0}, {0, 4}}));
  EXPECT_EQ(starts_of(*rows_of({3, 5, 2}, Packing::kOneDocument, 5)), (Starts{{0}}));
  const auto flat = make_rows(address_stream(1, {}, 30), {.seq_len = 5, .vocab = 100}, "");
  EXPECT_EQ(starts_of(*flat), (Starts{{0}}));
}

TEST(Rows, PackingNeedsDocuments) {
  for (const Packing packing : {Packing::kBestFit, Packing::kOneDocument}) {
    const std::string said = testing::message_of<core::UserError>(10, [&] {
      make_rows(address_stream(1, {}, 30), {.packing = packing, .seq_len = 5, .vocab = 100}, "");
    });
    EXPECT_NE(said.find("stream 1: --packing needs documents"), std::string::npos) << said;
  }
}

TEST(Rows, DocumentAttentionNeedsDocuments) {
  const std::string said = testing::message_of<core::UserError>(10, [&] {
    make_rows(address_stream(1, {}, 30), {.needs_documents = true, .seq_len = 5, .vocab = 100}, "");
  });
  EXPECT_NE(said.find("stream 1: --document_attention needs documents"), std::string::npos) << said;
}

TEST(Rows, OrderAndFingerprintFollowPackingSeedAndLength) {
  const std::vector<std::int64_t> lengths(100, 6);
  const auto print = [&](Packing packing, std::uint64_t seed, std::int64_t seq_len) {
    return make_rows(address_stream(0, lengths),
                     {.packing = packing, .seq_len = seq_len, .vocab = 100'000, .seed = seed}, "")
        ->fingerprint();
  };
  const std::set<std::string> all = {
      print(Packing::kBestFit, 1, 5), print(Packing::kBestFit, 2, 5), print(Packing::kConcat, 1, 5),
      print(Packing::kOneDocument, 1, 5), print(Packing::kBestFit, 1, 6)};
  EXPECT_EQ(all.size(), 5U);
  const auto source = rows_of(lengths, Packing::kBestFit, 5);
  int moved = 0;
  for (std::int64_t at = 0; at < 100; ++at) {
    moved += testing::read_row(*source, at, 5) == testing::read_row(*source, 100 + at, 5) ? 0 : 1;
  }
  EXPECT_GT(moved, 80);
}

}  // namespace
}  // namespace fm::data
