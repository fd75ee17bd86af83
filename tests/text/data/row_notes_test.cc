// What people are told of the rows: those that train nothing, documents that are longer than one.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/sample_source.h"

namespace fm::data {
namespace {

using Notes = std::vector<std::string>;

// Of ids; a line without labels trains all.
constexpr const char* kMasked = R"({"input_ids":[1,2,3,4],"labels":[-100,-100,-100,-100]}
{"input_ids":[1,2,3,4,5,6],"labels":[-100,-100,-100,-100,-100,6]}
{"input_ids":[1,2,3,4],"labels":[1,-100,-100,-100]}
{"input_ids":[1,2,3,4],"labels":[-100,-100,-100,4]}
{"input_ids":[1,2]}
)";
constexpr const char* kCut = ": what is behind the row is cut off; raise --max_seq_len";

class RowNotes : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(const Notes& paths, std::int64_t seq_len,
                                     Packing packing) const {
    return open_source({.paths = paths, .packing = packing, .seq_len = seq_len, .vocab = 300});
  }
  Notes notes(const std::string& jsonl, std::int64_t seq_len, Packing packing) const {
    return open({folder_.write("a.jsonl", jsonl)}, seq_len, packing)->notes();
  }
  // Labels of an epoch's rows, counted one by one.
  static std::int64_t untrained(const SampleSource& source, std::size_t seq_len) {
    std::int64_t rows = 0;
    for (std::int64_t at = 0; at < source.samples_per_epoch(); ++at) {
      const testing::Row row = testing::read_row(source, at, seq_len);
      rows += std::ranges::count(row.labels, kIgnored) == std::ssize(row.labels) ? 1 : 0;
    }
    return rows;
  }

  testing::ScratchFolder folder_;
};

// The first id is predicted by none, and the answer of the second line is behind the row.
TEST_F(RowNotes, CountRowsThatTrainNothing) {
  EXPECT_EQ(notes(kMasked, 3, Packing::kOneDocument),
            (Notes{"3 of 5 rows train nothing: no label in them counts; in 1 of them a "
                   "document goes on behind the row (--max_seq_len 3)",
                   std::string("1 of 5 documents are longer than a row (median 4 tokens, "
                               "--max_seq_len 3)") +
                       kCut}));
  EXPECT_EQ(notes(kMasked, 5, Packing::kOneDocument),
            Notes{"2 of 5 rows train nothing: no label in them counts"});
}

// Rows of 10: one of 6 + 4 ids (of 6 + 2 where equal lengths would go otherwise), which train.
TEST_F(RowNotes, CountThemInEveryPacking) {
  for (const Packing packing : {Packing::kConcat, Packing::kOneDocument, Packing::kBestFit}) {
    for (const std::int64_t seq_len : {1, 2, 3, 4, 9}) {
      const auto source = open({folder_.write("a.jsonl", kMasked)}, seq_len, packing);
      const std::int64_t expected = untrained(*source, static_cast<std::size_t>(seq_len));
      const std::string all = std::to_string(source->samples_per_epoch());
      const std::string head = std::to_string(expected) + " of " + all + " rows train nothing";
      const Notes said = source->notes();
      const bool says = !said.empty() && said[0].starts_with(head);
      EXPECT_EQ(says, expected > 0) << head << ", packing " << static_cast<int>(packing);
    }
  }
}

TEST_F(RowNotes, AnAnswerFarInItsRowIsFound) {
  std::string ids, labels;
  for (int at = 0; at < 1000; ++at) {
    ids += (at == 0 ? "" : ",") + std::to_string(at % 7);
    labels += (at == 0 ? "" : ",") + std::string(at == 999 ? "5" : "-100");
  }
  const std::string line = "{\"input_ids\":[" + ids + "],\"labels\":[" + labels + "]}\n";
  EXPECT_EQ(notes(line, 999, Packing::kOneDocument), Notes{});
  EXPECT_EQ(notes(line, 998, Packing::kOneDocument).at(0),
            "1 of 1 rows train nothing: no label in them counts; in 1 of them a document "
            "goes on behind the row (--max_seq_len 998)");
}

// Lengths 4, 6, 4, 4, 2: the middle one is 4.
TEST_F(RowNotes, CountDocumentsThatAreLongerThanARow) {
  const auto head = [](const char* count, const char* row) {
    return std::string(count) +
           " of 5 documents are longer than a row (median 4 tokens, "
           "--max_seq_len " +
           row + ")";
  };
  EXPECT_EQ(notes(kMasked, 4, Packing::kBestFit).back(), head("1", "4") + kCut);
  EXPECT_EQ(notes(kMasked, 2, Packing::kBestFit).back(), head("4", "2") + kCut);
  EXPECT_EQ(notes(kMasked, 2, Packing::kConcat).back(),
            head("4", "2") +
                ": answers are trained without what stands before them in other rows; raise "
                "--max_seq_len, or take --packing best_fit");
  std::string text;
  for (int at = 0; at < 60; ++at) text += "{\"text\":\"" + std::string(1524, 'a') + "\"}\n";
  EXPECT_EQ(notes(text, 128, Packing::kOneDocument),
            Notes{std::string("60 of 60 documents are longer than a row (median 1,525 tokens, "
                              "--max_seq_len 128)") +
                  kCut});
  EXPECT_EQ(notes(text, 1524, Packing::kOneDocument), Notes{});
}

// Id 9 ends a text. What is not trained teaches nothing, nor does the first id of a document.
TEST_F(RowNotes, SayWhereNoEndIsTrained) {
  const auto said = [&](const std::string& jsonl, std::vector<std::int32_t> ends,
                        Packing packing = Packing::kBestFit) {
    return open_source({.paths = {folder_.write("ends.jsonl", jsonl)},
                        .packing = packing,
                        .seq_len = 3,
                        .vocab = 300,
                        .ends = {std::move(ends), "</s> (9)"}})
        ->notes();
  };
  const std::string masked = R"({"input_ids":[1,2,9],"labels":[-100,2,-100]})"
                             "\n";
  const std::string head = "the model will not learn where to stop: in none of ";
  const std::string end = " a token is trained at which generation ends (</s> (9)); ";
  EXPECT_EQ(said(masked + masked, {9}),
            Notes{head + "2 documents" + end +
                  "end answers with one (--chat_template FILE), or name the token that ends them "
                  "by --eos_token, and by --add_tokens, too, where the tokenizer lacks it"});
  EXPECT_EQ(said(masked + masked, {9, 2}), Notes{});
  EXPECT_EQ(said(masked + masked, {}), Notes{});
  const std::string first = "{\"input_ids\":[9,1,2]}\n";
  EXPECT_EQ(said(first + first, {9}), Notes{head + "2 documents" + end + "end documents with one"});
  EXPECT_EQ(said(first + "{\"input_ids\":[1,9]}\n", {9}), Notes{});
  std::string many;
  for (int at = 0; at < 25'000; ++at) many += "{\"input_ids\":[1,2]}\n";
  EXPECT_EQ(said(many, {9}),
            Notes{head + "8334 documents, evenly spaced," + end + "end documents with one"});
}

TEST_F(RowNotes, LookForAnEndInRowsOfFlatFiles) {
  const auto said = [&](const std::vector<std::int32_t>& ids) {
    const std::string bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0]));
    return open_source({.paths = {folder_.write("flat.bin", bytes)},
                        .token_type = TokenType::kI32,
                        .seq_len = 2,
                        .vocab = 300,
                        .ends = {{9}, "id 9"}})
        ->notes();
  };
  EXPECT_EQ(said({1, 2, 3, 4, 5, 9}), Notes{});
  EXPECT_EQ(said({1, 2, 3, 4, 5, 6}),
            Notes{"the model will not learn where to stop: in none of 2 rows a token is trained at "
                  "which generation ends (id 9); end documents with one"});
}

TEST_F(RowNotes, AMedianOfAnEvenNumberLiesBetweenTwo) {
  EXPECT_EQ(
      notes("{\"input_ids\":[1,2]}\n{\"input_ids\":[1,2,3,4,5,6]}\n", 3, Packing::kOneDocument),
      Notes{std::string("1 of 2 documents are longer than a row (median 4 tokens, "
                        "--max_seq_len 3)") +
            kCut});
}

// Text for pre-training is joined and cut on purpose.
TEST_F(RowNotes, AreNoneOfPlainText) {
  EXPECT_EQ(notes("{\"text\":\"abcdefgh\"}\n{\"text\":\"ij\"}\n", 3, Packing::kConcat), Notes{});
}

TEST_F(RowNotes, OfAMixtureNameThePart) {
  const std::string a = folder_.write("a.jsonl", kMasked);
  const std::string b = folder_.write("b.jsonl", "{\"input_ids\":[1,2,3]}\n");
  const auto source = open({"1", b, "1", a}, 5, Packing::kOneDocument);
  EXPECT_EQ(source->notes(), Notes{"part 2 of the mixture: 2 of 5 rows train nothing: no label in "
                                   "them counts"});
  EXPECT_EQ(source->name_of(0), "document 1 of part 1");
}

// A split is a part of the same documents.
TEST_F(RowNotes, AreThoseOfThePart) {
  SourceOptions options{.paths = {folder_.write("a.jsonl", kMasked)},
                        .packing = Packing::kOneDocument,
                        .seq_len = 5,
                        .vocab = 300};
  const SplitSource split = open_split(options, {.training = 0.4, .evaluation = 0.6});
  EXPECT_EQ(split.training->notes(), Notes{"1 of 2 rows train nothing: no label in them counts"});
  EXPECT_EQ(split.evaluation->notes(), Notes{"1 of 3 rows train nothing: no label in them counts"});
}

TEST_F(RowNotes, RowsAreNamedByTheirDocuments) {
  const auto names = [&](std::int64_t seq_len, Packing packing) {
    const auto source = open({folder_.write("a.jsonl", kMasked)}, seq_len, packing);
    std::set<std::string> all;
    for (std::int64_t at = 0; at < source->samples_per_epoch(); ++at)
      all.insert(source->name_of(at));
    return all;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(names(3, Packing::kOneDocument),
            (Names{"document 1", "document 2", "document 3", "document 4", "document 5"}));
  // 20 ids: 4 + 1, 5, 3 + 2, 2 + 2 (1 left of the fourth).
  EXPECT_EQ(names(4, Packing::kConcat),
            (Names{"documents 1-2", "document 2", "documents 3-4", "documents 4-5"}));
  EXPECT_EQ(names(7, Packing::kBestFit), (Names{"documents 2, 5", "documents 1, 3", "document 4"}));
  const std::string flat = folder_.write("flat.bin", std::string(8 * 4, '\0'));
  EXPECT_EQ(open({flat}, 3, Packing::kConcat)->name_of(3), "row 2");
}

}  // namespace
}  // namespace fm::data
