#include "text/data/batch_stream.h"

#include <gtest/gtest.h>

#include <map>

namespace fm::data {
namespace {

// Token t of row p is 100 p + t, its label one more; every third label of row 5 is ignored.
class AddressSource : public SampleSource {
 public:
  std::int64_t samples_per_epoch() const override { return 1000; }
  void read(std::int64_t position, std::span<std::int32_t> tokens_T,
            std::span<std::int32_t> labels_T) const override {
    for (std::size_t t = 0; t < tokens_T.size(); ++t) {
      tokens_T[t] = static_cast<std::int32_t>(100 * position + static_cast<std::int64_t>(t));
      labels_T[t] = position == 5 && t % 3 == 0 ? kIgnored : tokens_T[t] + 1;
    }
  }
  std::string describe() const override { return "addresses"; }
  std::string fingerprint() const override { return "addresses"; }
};

// Documents of row p begin at 0 and at 1 + p % 3.
class DocumentSource : public AddressSource {
 public:
  std::vector<std::int32_t> document_starts(std::int64_t position) const override {
    return {0, static_cast<std::int32_t>(1 + position % 3)};
  }
};

TEST(BatchStream, DocumentsApartTakeNoLabelFromEachOther) {
  const DocumentSource source;
  BatchStream::Layout layout{.shape = {.batch = 2, .seq_len = 4}};
  BatchStream together(source, layout);
  together.load_step(6);
  EXPECT_TRUE(together.micro(0).starts_BT.empty());
  EXPECT_EQ(together.count_valid(), 8);
  layout.documents_apart = true;
  BatchStream apart(source, layout);
  apart.load_step(6);
  const MicroBatch& micro = apart.micro(0);
  EXPECT_EQ(micro.starts_BT, (std::vector<std::int32_t>{0, 1, 1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(micro.labels_BT,
            (std::vector<std::int32_t>{kIgnored, 602, 603, 604, 701, kIgnored, 703, 704}));
  EXPECT_EQ(micro.tokens_BT, together.micro(0).tokens_BT);
  EXPECT_EQ(apart.count_valid(), 6);
}

// A ring of two ranks: the first has tokens 0 and 3 of every row, the second 1 and 2.
TEST(BatchStream, SequenceRanksHaveTheirTokensOfEveryRow) {
  const DocumentSource source;
  BatchStream::Layout layout{.shape = {.batch = 2, .seq_len = 2, .split = {.ring = 2}},
                             .documents_apart = true};
  std::int64_t counted = 0;
  for (const int rank : {0, 1}) {
    layout.runs = core::runs_of_rank(4, layout.shape.split, rank);
    BatchStream stream(source, layout);
    stream.load_step(6);
    const MicroBatch& micro = stream.micro(0);
    using Ids = std::vector<std::int32_t>;
    EXPECT_EQ(micro.tokens_BT, rank == 0 ? (Ids{600, 603, 700, 703}) : (Ids{601, 602, 701, 702}));
    EXPECT_EQ(micro.labels_BT,
              rank == 0 ? (Ids{kIgnored, 604, 701, 704}) : (Ids{602, 603, kIgnored, 703}));
    EXPECT_EQ(micro.starts_BT, (Ids{0, 1, 1, 1, 0, 0, 2, 2}));
    EXPECT_EQ(stream.count_valid(0), 6);  // of both ranks
    counted += stream.count_valid();
  }
  EXPECT_EQ(counted, 6);
}

// 3 data ranks x 2 micros x 2 rows: slot s = k * 3 + r holds samples 2 s and 2 s + 1 of the step.
TEST(BatchStream, SlotsTakeSamplesInOrder) {
  const AddressSource source;
  for (int r = 0; r < 3; ++r) {
    BatchStream stream(
        source, {.shape = {.batch = 2, .seq_len = 4}, .micros = 2, .dp_size = 3, .dp_rank = r});
    stream.load_step(24);
    for (int k = 0; k < 2; ++k) {
      const int sample = 24 + 2 * (3 * k + r);
      const std::vector<std::int32_t> expected = {
          100 * sample,       100 * sample + 1,   100 * sample + 2,   100 * sample + 3,
          100 * sample + 100, 100 * sample + 101, 100 * sample + 102, 100 * sample + 103};
      EXPECT_EQ(stream.micro(k).tokens_BT, expected) << "rank " << r << " micro " << k;
    }
  }
}

TEST(BatchStream, TheSamplesOfAStepDoNotDependOnTheLayout) {
  const AddressSource source;
  const auto samples = [&](int dp_size, int micros, std::int64_t batch) {
    std::map<std::int32_t, int> seen;
    for (int r = 0; r < dp_size; ++r) {
      BatchStream stream(source, {.shape = {.batch = batch, .seq_len = 1},
                                  .micros = micros,
                                  .dp_size = dp_size,
                                  .dp_rank = r});
      stream.load_step(16);
      for (int k = 0; k < micros; ++k) {
        for (const std::int32_t token : stream.micro(k).tokens_BT) ++seen[token];
      }
    }
    return seen;
  };
  EXPECT_EQ(samples(1, 8, 1).size(), 8U);
  EXPECT_EQ(samples(2, 4, 1), samples(1, 8, 1));
  EXPECT_EQ(samples(4, 1, 2), samples(1, 8, 1));
}

// 5 slots on 3 data ranks: rank 2 has only one, and never reads what the next step begins with.
TEST(BatchStream, ASlotThatAStepDoesNotHaveIsEmpty) {
  const DocumentSource source;
  for (int r = 0; r < 3; ++r) {
    BatchStream stream(source, {.shape = {.batch = 2, .seq_len = 4},
                                .micros = 2,
                                .dp_size = 3,
                                .dp_rank = r,
                                .documents_apart = true,
                                .slots = 5});
    for (const int first : {10, 20}) {
      stream.load_step(first);
      EXPECT_EQ(stream.micro(0).tokens_BT.front(), 100 * (first + 2 * r));
      EXPECT_EQ(stream.count_valid(0), 6);
      if (r < 2) continue;
      EXPECT_EQ(stream.micro(1).tokens_BT, std::vector<std::int32_t>(8, 0));
      EXPECT_EQ(stream.micro(1).labels_BT, std::vector<std::int32_t>(8, kIgnored));
      EXPECT_EQ(stream.micro(1).starts_BT, std::vector<std::int32_t>(8, 0));
      EXPECT_EQ(stream.count_valid(1), 0);
      EXPECT_EQ(stream.count_valid(), 6);
    }
  }
}

// Rows 4 to 7 of 6 labels each; row 5 has 2 that are ignored.
TEST(BatchStream, OnlyLabelsThatCountAreCounted) {
  const AddressSource source;
  BatchStream stream(source, {.shape = {.batch = 2, .seq_len = 6}, .micros = 2});
  stream.load_step(4);
  EXPECT_EQ(stream.count_valid(0), 10);
  EXPECT_EQ(stream.count_valid(1), 12);
  EXPECT_EQ(stream.count_valid(), 22);
}

TEST(BatchStream, RowsBehindTheEndHaveNoLabelsThatCount) {
  const AddressSource source;
  BatchStream stream(source, {.shape = {.batch = 2, .seq_len = 6}, .micros = 2});
  stream.load_step(8, 11);
  EXPECT_EQ(stream.count_valid(0), 12);
  EXPECT_EQ(stream.count_valid(1), 6);
  EXPECT_EQ(stream.micro(1).tokens_BT[6], 1100);
}

}  // namespace
}  // namespace fm::data
