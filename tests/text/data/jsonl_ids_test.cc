// Documents that were tokenized elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "core/check.h"
#include "tests/text/data/read_rows.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/documents.h"

namespace fm::data {
namespace {

using testing::Ids;
using testing::Row;
constexpr std::int32_t X = kIgnored;

std::vector<Document> documents(std::string_view text, std::int64_t vocab = 100) {
  std::vector<Document> found;
  BadLines bad;
  const auto next_piece = [&] { return std::exchange(text, {}); };
  read_jsonl(next_piece, "f.jsonl", ids_reader(vocab), bad,
             [&](const Document& one) { found.push_back(one); });
  return found;
}

TEST(JsonlIds, ListsAreDocuments) {
  const auto found = documents(R"({"input_ids":[1,2,99]}
{"labels":[-100,5],"x":{"input_ids":["a"]},"input_ids":[4,5],"y":[[1],2.5,null]}
{"input_ids":[]}
)");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].ids, (Ids{1, 2, 99}));
  EXPECT_EQ(found[0].labels, Ids());
  EXPECT_EQ(found[1].ids, (Ids{4, 5}));
  EXPECT_EQ(found[1].labels, (Ids{X, 5}));
  EXPECT_EQ(found[2].ids, Ids());
}

// Left and right padding is no part of a document.
TEST(JsonlIds, WhatTheMaskHidesIsLeftOut) {
  const auto found = documents(
      R"({"input_ids":[0,7,8,0,0],"attention_mask":[0,1,1,0,0],"labels":[-100,-100,8,-100,-100]})");
  EXPECT_EQ(found[0].ids, (Ids{7, 8}));
  EXPECT_EQ(found[0].labels, (Ids{X, 8}));
}

// As TRL's collator and, since it stores labels, its build_labels do: what is trained is what all
// of them name. verl and SkyRL write loss_mask.
TEST(JsonlIds, MasksSayWhatIsTrained) {
  const auto labels = [](const std::string& fields) {
    const auto found = documents(R"({"input_ids":[5,6,7,8],)" + fields + "}\n");
    EXPECT_EQ(found[0].ids, (Ids{5, 6, 7, 8}));
    return found[0].labels;
  };
  for (const std::string name : {"completion_mask", "assistant_masks", "loss_mask"}) {
    EXPECT_EQ(labels('"' + name + "\":[0,0,1,1]"), (Ids{X, X, 7, 8})) << name;
    EXPECT_EQ(labels('"' + name + "\":[0,0,0,0]"), (Ids{X, X, X, X})) << name;
    EXPECT_EQ(labels('"' + name + "\":[1,1,1,1]"), (Ids{5, 6, 7, 8})) << name;
  }
  EXPECT_EQ(labels(R"("completion_mask":[0,1,1,1],"assistant_masks":[1,0,1,0])"),
            (Ids{X, X, 7, X}));
  EXPECT_EQ(labels(R"("labels":[9,9,-100,9],"loss_mask":[0,1,1,1])"), (Ids{X, 9, X, 9}));
  // Nobody's word on training.
  const std::string others =
      R"("special_tokens_mask":[1,0,0,1],"mask":"none","segment_ids":"a","type_ids":[0,0,0,0])";
  EXPECT_EQ(labels(others), Ids());
}

TEST(JsonlIds, PaddingIsLeftOutOfMasksAndPositionsToo) {
  const auto found = documents(
      R"({"position_ids":[-1,-1,0,1,2],"input_ids":[0,0,7,8,9],"attention_mask":[0,0,1,1,1],)"
      R"("loss_mask":[1,1,0,1,1]})");
  EXPECT_EQ(found[0].ids, (Ids{7, 8, 9}));
  EXPECT_EQ(found[0].labels, (Ids{X, 8, 9}));
}

TEST(JsonlIds, BadLinesAreNamedWithWhatIsWrong) {
  const auto refusal = [](const std::string& line) {
    return testing::message_of<core::UserError>(
        11, [&] { documents("{\"input_ids\":[1]}\n\n" + line + "\n"); });
  };
  struct Case {
    const char* line;
    const char* why;
  };
  const Case cases[] = {
      {R"({"text":"a"})", "field \"input_ids\" is required"},
      {R"({"input_ids":[1,100]})", "number 100 at position 1, vocab_size=100"},
      {R"({"input_ids":[-1]})", "number -1 at position 0"},
      {R"({"input_ids":[99999999999999999999]})", "it holds a number"},
      {R"({"input_ids":[18446744073709551615]})", "number 9223372036854775807 at"},
      {R"({"input_ids":[1.0]})", "it holds a number"},
      {R"({"input_ids":[true]})", "it holds a boolean"},
      {R"({"input_ids":[[1]]})", "it holds an array"},
      {R"({"input_ids":[{}]})", "it holds an object"},
      {R"({"input_ids":7})", "it is a number"},
      {R"({"input_ids":{"a":[1]}})", "it is an object"},
      {R"({"input_ids":null})", "it is null"},
      {R"({"input_ids":[1],"input_ids":[1]})", "it is there twice"},
      {R"({"input_ids":[1,2],"labels":[1]})",
       "\"labels\" must be as long as the ids; correct the row (1 and 2"},
      {R"({"input_ids":[1],"labels":[-99]})", "number -99 at position 0"},
      {R"({"input_ids":[1],"attention_mask":[2]})", "number 2 at position 0"},
      {R"({"input_ids":[1,2],"loss_mask":[1]})",
       "\"loss_mask\" must be as long as the ids; correct the row (1 and 2"},
      {R"({"input_ids":[1],"completion_mask":[0.5]})", "it holds a number"},
      {R"({"input_ids":[1],"assistant_masks":[-1]})", "number -1 at position 0"},
      {R"({"input_ids":[1],"loss_mask":null})", "it is null"},
      {R"({"prompt_mask":[1],"input_ids":[1]})", "field \"prompt_mask\" is not known"},
      {R"({"input_ids":[1],"label_masks":[]})", "field \"label_masks\" is not known"},
      {R"({"input_ids":[1,2,3],"seq_lengths":[2,1]})",
       "field \"seq_lengths\" tells documents of a row apart"},
      {R"({"segment_ids":[0,0,1],"input_ids":[1,2,3]})",
       "with --packing best_fit --document_attention"},
      {R"({"input_ids":[1,2,3],"position_ids":[0,1,0]})", "(position 0 at place 2)"},
      {R"({"input_ids":[1,2],"position_ids":[1,2]})", "(position 1 at place 0)"},
      {R"({"input_ids":[1,2,3],"attention_mask":[1,0,1],"position_ids":[0,1,2]})",
       "(position 2 at place 1)"},
      {R"({"input_ids":[1],"position_ids":[4294967296]})", "number 4294967296 at position 0"},
      {R"({"input_ids":[1)", "JSON object"},
      {R"([{"input_ids":[1]}])", "JSON object"},
      {R"(7)", "it is a number"},
  };
  for (const Case& one : cases) {
    const std::string message = refusal(one.line);
    EXPECT_TRUE(message.starts_with("f.jsonl:3: ")) << message;
    EXPECT_NE(message.find(one.why), std::string::npos) << one.line << "\n" << message;
  }
}

class JsonlIdsRows : public ::testing::Test {
 protected:
  std::unique_ptr<SampleSource> open(const std::string& text, Packing packing,
                                     std::int64_t skip = 0) {
    return open_source({.paths = {folder_.write("c.jsonl", text)},
                        .packing = packing,
                        .seq_len = 3,
                        .vocab = 70'000,
                        .skip_bad_lines = skip});
  }
  testing::ScratchFolder folder_;
};

// The stream is 1 2 3 | 4 5 | 6 7 8, and in the second and third document not all counts.
constexpr const char* kThree = R"({"input_ids":[1,2,3]}
{"input_ids":[4,5],"labels":[-100,5]}
{"input_ids":[6,7,69999],"labels":[-100,-100,69999]}
)";

TEST_F(JsonlIdsRows, LabelsAreThoseOfTheNextId) {
  const auto source = open(kThree, Packing::kConcat);
  const std::set<Row> expected = {{{1, 2, 3}, {2, 3, X}}, {{5, 6, 7}, {X, X, 69'999}}};
  EXPECT_EQ(testing::epoch_of(*source, 0, 3), expected);
  EXPECT_NE(source->describe().find("3 documents, 8 tokens (input_ids); 2 rows of 4 ids"),
            std::string::npos)
      << source->describe();
}

TEST_F(JsonlIdsRows, OneDocumentPerRowHasNoTargetBeyondIt) {
  const std::set<Row> expected = {
      {{1, 2, 3}, {2, 3, X}}, {{4, 5, 0}, {5, X, X}}, {{6, 7, 69'999}, {X, 69'999, X}}};
  EXPECT_EQ(testing::epoch_of(*open(kThree, Packing::kOneDocument), 0, 3), expected);
}

// Each field once, of all files and lines that are read.
TEST_F(JsonlIdsRows, FieldsWithoutEffectAreNamedOnce) {
  folder_.write("d.jsonl", R"({"input_ids":[1,2,3,4],"id":7,"source":{"labels":[1]}})");
  folder_.write("e.jsonl", R"({"id":"a","input_ids":[5,6,7,8],"labels":[5,6,7,8]}
{"input_ids":[1,2,3,4],"attention_mask":[1,1,1,1],"id":[]}
{"input_ids":[1,2,3,99999],"never":1}
)");
  const auto source = open_source(
      {.paths = {folder_.path().string()}, .seq_len = 3, .vocab = 70'000, .skip_bad_lines = 1});
  const std::string words = source->describe();
  EXPECT_TRUE(words.ends_with("; fields without effect: id (3 rows), source (1 row)")) << words;
  EXPECT_EQ(open(kThree, Packing::kConcat)->describe().find("without effect"), std::string::npos);
}

TEST(UnusedFields, ANoteAndItsMemoryAreBounded) {
  UnusedFields unused;
  add_unused("a\x1b[2Jb", 1234, unused);
  EXPECT_EQ(words_of(unused), "; fields without effect: a\\u001b[2Jb (1,234 rows)");
  UnusedFields many;
  const std::string e = "\u00e9";
  for (int name = 0; name < 1000; ++name) add_unused('x' + std::to_string(name + 1000), 1, many);
  EXPECT_EQ(many.size(), 101U);
  EXPECT_EQ(many.at("others"), 900);
  EXPECT_TRUE(words_of(many).ends_with(", x1018 (1 row), 81 others")) << words_of(many);
  UnusedFields wide;
  for (const char last : {'y', 'z'}) add_unused(std::string(59, 'x') + e + last, 2, wide);
  const UnusedFields cut = {{std::string(59, 'x'), 4}};  // not within the e
  EXPECT_EQ(wide, cut);
}

// Labels that come late in a file do not change what came before.
TEST_F(JsonlIdsRows, DocumentsBeforeTheFirstLabelsCountWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "{\"input_ids\":[1,2,3,4]}\n";
  text += "{\"input_ids\":[5,6,7,8],\"labels\":[-100,-100,7,-100]}\n";
  const std::set<Row> expected = {{{1, 2, 3}, {2, 3, 4}}, {{5, 6, 7}, {X, 7, X}}};
  EXPECT_EQ(testing::epoch_of(*open(text, Packing::kConcat), 0, 3), expected);
}

TEST_F(JsonlIdsRows, TheFirstObjectTellsTextFromIds) {
  EXPECT_NE(open("\nno object\n{\"text\":\"a\",\"input_ids\":[1,2,3,4]}\n", Packing::kConcat, 1)
                ->describe()
                .find("input_ids"),
            std::string::npos);
  const std::string said = testing::message_of<core::UserError>(
      11, [&] { open("{\"text\":\"abcdef\"}\n{\"input_ids\":[1,2,3,4]}\n", Packing::kConcat); });
  EXPECT_NE(said.find("c.jsonl:2: field \"text\" is required"), std::string::npos) << said;
}

TEST_F(JsonlIdsRows, BadLinesAreSkippedAndCountedUpToTheirLimit) {
  const std::string text =
      "{\"input_ids\":[1,2,3,4]}\nx\n{\"input_ids\":[70000]}\n{\"input_ids\":[5,6,7,8]}\n{\n";
  const auto source = open(text, Packing::kConcat, 3);
  EXPECT_EQ(source->samples_per_epoch(), 2);
  const std::string words = source->describe();
  EXPECT_NE(words.find("; 3 bad lines skipped (the first: "), std::string::npos) << words;
  EXPECT_NE(words.find("c.jsonl:2: each line must be one JSON object"), std::string::npos) << words;
  const std::string said =
      testing::message_of<core::UserError>(11, [&] { open(text, Packing::kConcat, 2); });
  EXPECT_NE(said.find("c.jsonl:5: each line must be one JSON object"), std::string::npos) << said;
  EXPECT_NE(said.find("--skip_bad_lines allows 2 bad lines, the first was "), std::string::npos);
}

constexpr const char* kNames[] = {"input_ids",       "labels",          "attention_mask",
                                  "completion_mask", "assistant_masks", "loss_mask",
                                  "position_ids"};
constexpr std::size_t kFields = std::size(kNames);

// A list that is a mask in name only.
bool has_foreign_mask(const nlohmann::json& object) {
  return std::ranges::any_of(object.items(), [](const auto& field) {
    const std::string& name = field.key();
    const bool known =
        name == "special_tokens_mask" || std::ranges::find(kNames, name) != std::end(kNames);
    return field.value().is_array() && !known &&
           (name.ends_with("mask") || name.ends_with("masks"));
  });
}

bool is_in_range(std::size_t field, const nlohmann::json& value) {
  if (!value.is_number_integer()) return false;
  if (field == 6) return value >= -(1LL << 31) && value < 1LL << 31;
  return (field == 1 && value == -100) || (value >= 0 && value < (field < 2 ? 100 : 2));
}

// What a second way of reading (a DOM) makes of a line; unset: nothing.
std::optional<std::pair<Ids, Ids>> by_dom(const std::string& line) {
  int keys[kFields] = {};
  const auto count = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    for (std::size_t at = 0; at < kFields; ++at) {
      const bool is_key = event == nlohmann::json::parse_event_t::key && depth == 1;
      keys[at] += is_key && parsed == kNames[at] ? 1 : 0;
    }
    return true;
  };
  const auto parsed = nlohmann::json::parse(line, count, false);
  if (!parsed.is_object() || keys[0] != 1 || has_foreign_mask(parsed)) return std::nullopt;
  Ids lists[kFields];
  for (std::size_t at = 0; at < kFields; ++at) {
    if (keys[at] == 0) continue;
    const auto& list = parsed[kNames[at]];
    if (keys[at] > 1 || !list.is_array() || list.size() != parsed[kNames[0]].size())
      return std::nullopt;
    for (const auto& value : list) {
      if (!is_in_range(at, value)) return std::nullopt;
      lists[at].push_back(value.get<std::int32_t>());
    }
  }
  std::pair<Ids, Ids> kept;
  for (std::size_t at = 0; at < lists[0].size(); ++at) {
    if (keys[2] == 1 && lists[2][at] == 0) continue;
    if (keys[6] == 1 && lists[6][at] != std::ssize(kept.first)) return std::nullopt;
    const bool hidden = (keys[3] == 1 && lists[3][at] == 0) ||
                        (keys[4] == 1 && lists[4][at] == 0) || (keys[5] == 1 && lists[5][at] == 0);
    kept.first.push_back(lists[0][at]);
    const bool labelled = keys[1] + keys[3] + keys[4] + keys[5] > 0;
    if (labelled) kept.second.push_back(hidden ? X : lists[keys[1] == 1 ? 1 : 0][at]);
  }
  return kept;
}

TEST(JsonlIdsMutation, AgreesWithASecondReader) {
  const std::string seeds[] = {
      R"({"input_ids":[1,2,30],"labels":[-100,2,30],"attention_mask":[1,1,0]})",
      R"({"a":{"labels":[1]},"input_ids":[10,99,5],"labels":[-100,99,5]})",
      R"({"input_ids":[1,0],"attention_mask":[1,1],"t":[1.5,"x"]})",
      R"({"loss_mask":[0,1,1],"input_ids":[10,9,5],"position_ids":[0,1,2]})",
      R"({"assistant_masks":[0,1],"input_ids":[1,9],"completion_mask":[0,1]})",
  };
  const std::string letters = "{}[]\":,-019.e \\alist_";
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string line = seeds[random() % std::size(seeds)];
    for (auto change = 1 + random() % 3; change > 0; --change) {
      const std::size_t at = random() % line.size();
      switch (random() % 3) {
        case 0: line[at] = letters[random() % letters.size()]; break;
        case 1: line.insert(at, 1, letters[random() % letters.size()]); break;
        default: line.erase(at, 1 + random() % 3); break;  // the third
      }
      if (line.empty()) line = "{";
    }
    Document document;
    const std::string problem = ids_reader(100)(line, document);
    const auto expected = by_dom(line);
    ASSERT_EQ(problem.empty(), expected.has_value()) << line << "\n" << problem;
    if (!expected) continue;
    ASSERT_EQ(document.ids, expected->first) << line;
    ASSERT_EQ(document.labels, expected->second) << line;
    ++accepted;
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace fm::data
