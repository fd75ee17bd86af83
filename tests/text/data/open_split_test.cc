// From words to rows of training and of evaluation.
#include <gtest/gtest.h>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/data/written_numbers.h"
#include "text/data/sample_source.h"

namespace fm::data {
namespace {

using testing::Row;

class OpenSplit : public ::testing::Test {
 protected:
  // `count` documents of 4 ids, the first of which count from `begin`.
  std::string documents(const std::string& name, int begin, int count) {
    std::string text;
    for (int id = begin; id < begin + count; ++id) {
      text += core::concat("{\"input_ids\":[", id, ",1,2,3]}\n");
    }
    return folder_.write(name, text);
  }
  std::string flat(const std::string& name, int count) {
    std::string bytes;
    for (int id = 0; id < count; ++id) bytes += testing::bytes_of(id, 4);
    return folder_.write(name, bytes);
  }
  static std::set<std::int32_t> firsts(const SampleSource& source) {
    std::set<std::int32_t> ids;
    for (const Row& row : testing::epoch_of(source, 0, 3)) ids.insert(row.tokens[0]);
    return ids;
  }
  static std::set<std::int32_t> range(std::int32_t begin, std::int32_t end) {
    std::set<std::int32_t> ids;
    while (begin < end) ids.insert(begin++);
    return ids;
  }
  SourceOptions options(std::vector<std::string> paths) {
    return {.paths = std::move(paths), .seq_len = 3, .vocab = 10'000};
  }
  testing::ScratchFolder folder_;
};

TEST_F(OpenSplit, TheFirstDocumentsTrainAndTheNextOnesEvaluate) {
  const SplitSource both =
      open_split(options({documents("a.jsonl", 100, 40)}), {.training = 0.75, .evaluation = 0.2});
  EXPECT_EQ(firsts(*both.training), range(100, 130));
  EXPECT_EQ(firsts(*both.evaluation), range(130, 138));
  EXPECT_NE(both.training->fingerprint(), both.evaluation->fingerprint());
  EXPECT_NE(both.training->describe().find("of which documents 0 to 29; 30 rows"),
            std::string::npos)
      << both.training->describe();
  EXPECT_EQ(open_split(options({documents("b.jsonl", 0, 3)}), {}).evaluation, nullptr);
}

// What scikit-learn and datasets promise of a shuffled split: disjoint parts of the right sizes,
// chosen from everywhere, the same for the same seed.
TEST_F(OpenSplit, ShuffledPartsAreChosenFromEverywhere) {
  SourceOptions asked = options({documents("a.jsonl", 100, 400)});
  const Split split = {.training = 0.75, .evaluation = 0.2, .shuffled = true};
  const SplitSource both = open_split(asked, split);
  const std::set<std::int32_t> training = firsts(*both.training);
  const std::set<std::int32_t> evaluation = firsts(*both.evaluation);
  EXPECT_EQ(training.size(), 300U);
  EXPECT_EQ(evaluation.size(), 80U);
  std::set<std::int32_t> all = training;
  all.insert(evaluation.begin(), evaluation.end());
  EXPECT_EQ(all.size(), 380U);
  for (int quarter = 0; quarter < 4; ++quarter) {  // 20 are expected of 80, by chance 9 to 31
    const auto begin = evaluation.lower_bound(100 + 100 * quarter);
    const auto end = evaluation.lower_bound(200 + 100 * quarter);
    EXPECT_GT(std::distance(begin, end), 8) << quarter;
  }
  EXPECT_EQ(firsts(*open_split(asked, split).evaluation), evaluation);
  EXPECT_NE(both.training->fingerprint(), both.evaluation->fingerprint());
  asked.seed = 1;
  EXPECT_NE(firsts(*open_split(asked, split).evaluation), evaluation);
}

TEST_F(OpenSplit, ShuffledPartsTellDocumentsByTheirPlaceInTheFile) {
  SourceOptions asked = options({documents("a.jsonl", 100, 40)});
  asked.packing = Packing::kOneDocument;
  const SplitSource both =
      open_split(asked, {.training = 0.5, .evaluation = 0.5, .shuffled = true});
  for (const auto* rows : {both.training.get(), both.evaluation.get()}) {
    for (std::int64_t p = 0; p < rows->samples_per_epoch(); ++p) {
      const int number = testing::read_row(*rows, p, 3).tokens[0] - 99;
      EXPECT_EQ(rows->name_of(p), core::concat("document ", number));
    }
  }
}

// Ids 0 to 79: rows of 4 in file order.
TEST_F(OpenSplit, FlatFilesAreSplitByIds) {
  SourceOptions asked = options({flat("t.bin", 80)});
  asked.shuffle_windows = true;
  const SplitSource both = open_split(asked, {.training = 0.9, .evaluation = 0.1});
  EXPECT_EQ(both.training->samples_per_epoch(), 18);
  EXPECT_EQ(both.evaluation->samples_per_epoch(), 2);
  EXPECT_EQ(testing::read_row(*both.evaluation, 0, 3), (Row{{72, 73, 74}, {73, 74, 75}}));
}

// As `datasets`' select(range(n)) of each part.
TEST_F(OpenSplit, TheFirstDocumentsOfEachPathAreTaken) {
  const std::string first = documents("a.jsonl", 100, 40);
  const std::string second = documents("b.jsonl", 200, 20);
  const Split split = {
      .training = 0.5, .evaluation = 0.5, .most_training = 15, .most_evaluation = 4};
  const SplitSource both = open_split(options({first}), split);
  EXPECT_EQ(firsts(*both.training), range(100, 115));
  EXPECT_EQ(firsts(*both.evaluation), range(120, 124));
  EXPECT_NE(both.training->fingerprint(), open_source(options({first}))->fingerprint());
  const SplitSource mixed = open_split(options({"1", first, "1", second}), {.most_training = 15});
  EXPECT_EQ(firsts(*mixed.training).size(), 30U);
  EXPECT_EQ(firsts(*open_split(options({first, second}), {.most_training = 15}).training).size(),
            30U);
  EXPECT_EQ(firsts(*open_split(options({second}), {.most_training = 21}).training),
            range(200, 220));
  EXPECT_NE(testing::message_of<core::UserError>(
                10, [&] { open_split(options({flat("t.bin", 80)}), {.most_training = 3}); })
                .find("--max_train_samples counts documents"),
            std::string::npos);
}

// An evaluation's loss is the mean over its rows, whatever stands before the paths.
TEST_F(OpenSplit, WithoutAMixtureEveryRowCountsOnce) {
  SourceOptions asked =
      options({"1", documents("a.jsonl", 100, 40), "9", documents("b.jsonl", 200, 2)});
  asked.mixes = false;
  const auto rows = open_split(asked, {}).training;
  EXPECT_EQ(rows->samples_per_epoch(), 42);
  EXPECT_EQ(firsts(*rows).size(), 42U);
}

TEST_F(OpenSplit, EveryPartOfAMixtureGivesItsShare) {
  const std::string first = documents("a.jsonl", 100, 40);
  const std::string second = documents("b.jsonl", 200, 20);
  const SplitSource both =
      open_split(options({"3", first, "1", second}), {.training = 0.5, .evaluation = 0.5});
  EXPECT_EQ(both.training->samples_per_epoch(), 30);
  std::set<std::int32_t> held_out = range(120, 140);
  held_out.merge(range(210, 220));
  EXPECT_EQ(firsts(*both.evaluation), held_out);  // each once, whatever its weight
  int of_first = 0;
  for (std::int64_t p = 0; p < 4000; ++p) {
    of_first += testing::read_row(*both.training, p, 3).tokens[0] < 200 ? 1 : 0;
  }
  EXPECT_EQ(of_first, 3000);
}

TEST_F(OpenSplit, SeveralFilesAreOneCorpus) {
  const auto source =
      open_source(options({documents("a.jsonl", 100, 4), documents("b.jsonl", 200, 4)}));
  std::set<std::int32_t> all = range(100, 104);
  all.merge(range(200, 204));
  EXPECT_EQ(firsts(*source), all);
  EXPECT_NE(source->describe().find("2 files, 8 documents, 32 tokens (the first: "),
            std::string::npos)
      << source->describe();
}

TEST_F(OpenSplit, BadLinesOfAllFilesAreCountedTogether) {
  const std::string first = folder_.write("a.jsonl", "{\"input_ids\":[1,2,3,4]}\nx\n");
  const std::string second = folder_.write("b.jsonl", "{\"input_ids\":[5,6,7,8]}\nx\nx\n");
  SourceOptions asked = options({first, second});
  asked.skip_bad_lines = 3;
  EXPECT_EQ(open_source(asked)->samples_per_epoch(), 2);
  asked.skip_bad_lines = 2;
  const std::string said = testing::message_of<core::UserError>(11, [&] { open_source(asked); });
  EXPECT_NE(said.find("b.jsonl:3: "), std::string::npos) << said;
}

}  // namespace
}  // namespace fm::data
