#include "text/data/token_stream.h"

#include <gtest/gtest.h>

#include <set>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/small_streams.h"
#include "text/data/document_choice.h"

namespace fm::data {
namespace {

using testing::address_stream;
using testing::Ids;

Ids read(const TokenStream& stream, std::int64_t first, std::size_t count) {
  Ids ids(count);
  stream.read(first, ids);
  return ids;
}

std::vector<std::int64_t> begins(const TokenStream& stream) {
  std::vector<std::int64_t> all;
  for (std::int64_t at = 0; at <= stream.documents(); ++at) all.push_back(stream.begin_of(at));
  return all;
}

// 1: 2 + 3 ids, 2: nothing, 3: 1 + 0 + 4 ids.
TEST(JoinedStreams, DocumentsLieBehindEachOther) {
  const StreamPtr all = join_streams(
      {address_stream(1, {2, 3}), address_stream(2, {0}), address_stream(3, {1, 0, 4})});
  EXPECT_EQ(all->size(), 10);
  EXPECT_EQ(begins(*all), (std::vector<std::int64_t>{0, 2, 5, 5, 6, 6, 10}));
  EXPECT_EQ(read(*all, 0, 10), (Ids{1000, 1001, 1002, 1003, 1004, 3000, 3001, 3002, 3003, 3004}));
  EXPECT_EQ(read(*all, 4, 2), (Ids{1004, 3000}));
  EXPECT_EQ(read(*all, 5, 1), (Ids{3000}));
  Ids labels(2);
  all->read_labels(4, labels);
  EXPECT_EQ(labels, (Ids{-1004, -3000}));
  EXPECT_EQ(all->filler(), 7);
}

TEST(JoinedStreams, OneFlatFileHidesWhereDocumentsBegin) {
  const StreamPtr all = join_streams({address_stream(1, {2, 3}), address_stream(2, {}, 4)});
  EXPECT_EQ(all->documents(), 0);
  EXPECT_EQ(read(*all, 4, 3), (Ids{1004, 2000, 2001}));
}

TEST(JoinedStreams, TheFingerprintFollowsTheOrder) {
  const StreamPtr one = address_stream(1, {2, 3});
  const StreamPtr two = address_stream(2, {2, 3});
  EXPECT_EQ(join_streams({one})->fingerprint(), one->fingerprint());
  EXPECT_NE(join_streams({one, two})->fingerprint(), join_streams({two, one})->fingerprint());
}

// As Megatron splits: 10 documents in shares 0.7, 0.2, 0.1.
TEST(StreamSlice, HoldsItsShareOfTheDocuments) {
  const StreamPtr whole = address_stream(1, {1, 1, 1, 1, 1, 1, 1, 5, 2, 9});
  const StreamPtr first = slice_stream(whole, 0.0, 0.7);
  const StreamPtr second = slice_stream(whole, 0.7, 0.7 + 0.2);
  EXPECT_EQ(first->documents(), 7);
  EXPECT_EQ(first->size(), 7);
  EXPECT_EQ(begins(*second), (std::vector<std::int64_t>{0, 5, 7}));
  EXPECT_EQ(read(*second, 5, 2), (Ids{1012, 1013}));
  EXPECT_NE(first->fingerprint(), second->fingerprint());
  EXPECT_EQ(slice_stream(whole, 0.0, 1.0), whole);
}

TEST(StreamSlice, OfAFlatStreamHoldsIds) {
  const StreamPtr part = slice_stream(address_stream(1, {}, 20), 0.5, 0.75);
  EXPECT_EQ(part->documents(), 0);
  EXPECT_EQ(part->size(), 5);
  EXPECT_EQ(read(*part, 0, 2), (Ids{1010, 1011}));
}

TEST(StreamSlice, AnEmptyPartIsRefused) {
  const std::string said = testing::message_of<core::UserError>(11, [] {
    slice_stream(address_stream(1, {5, 5, 5}), 0.9, 1.0);
  });
  EXPECT_NE(said.find("(documents 3 to 3 of 3)"), std::string::npos) << said;
}

// Lengths 1 to 9: what a part has is the whole's documents, in their order.
TEST(ChosenDocuments, AreWholeAndInOrder) {
  const StreamPtr whole = address_stream(0, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::set<std::int64_t> seen;
  for (const auto& [begin, end] : {std::pair(0.0, 2.0 / 3), std::pair(2.0 / 3, 1.0)}) {
    const StreamPtr part = choose_documents(whole, begin, end, 3);
    EXPECT_EQ(part->documents(), begin == 0.0 ? 6 : 3);
    std::int64_t before = 0;
    std::vector<std::int32_t> all(static_cast<std::size_t>(part->size()));
    part->read(0, all);
    for (std::int64_t at = 0; at < part->documents(); ++at) {
      const std::int64_t number = part->number_of(at);
      EXPECT_GT(number, before);
      before = number;
      EXPECT_TRUE(seen.insert(number).second) << number;
      const std::int64_t first = part->begin_of(at);
      EXPECT_EQ(part->begin_of(at + 1) - first, number);
      for (std::int64_t id = 0; id < number; ++id) {
        std::int32_t one[1];
        part->read(first + id, one);
        EXPECT_EQ(one[0], whole->begin_of(number - 1) + id);
        EXPECT_EQ(all[static_cast<std::size_t>(first + id)], one[0]);
        part->read_labels(first + id, one);
        EXPECT_EQ(one[0], -(whole->begin_of(number - 1) + id));
      }
    }
  }
  EXPECT_EQ(seen.size(), 9U);
}

}  // namespace
}  // namespace fm::data
