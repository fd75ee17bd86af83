// Lines of every form as ids and labels, counted by hand with the small tokenizer of scratch.h.
#include <gtest/gtest.h>

#include <random>

#include "tests/text/prepare/scratch.h"
#include "tests/text/prepare/small_tokenizer.h"
#include "text/prepare/text_recipe.h"

namespace fm::prepare {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kNo = data::kIgnored;
constexpr std::int32_t kSpace = 26, kLine = 27, kAb = 28, kSpaceA = 29, kEos = 30, kStart = 31,
                       kEnd = 32, kBos = 33;

class LineForms : public Scratch {
 protected:
  LineForms() {
    write("model/tokenizer.json", small_tokenizer());
    write("model/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    write("model/chat_template.jinja", kChatMl);
  }

  Recipe recipe(const TextOptions& options = {}) const {
    return read_recipe(folder_ / "model", "", options);
  }
  static std::vector<data::Document> read(const Recipe& recipe, std::string_view line) {
    std::vector<data::Document> documents;
    EXPECT_EQ(recipe.read_line(line, documents), "");
    return documents;
  }
  // Of a line that makes one document.
  data::Document document(std::string_view line, const TextOptions& options = {}) const {
    std::vector<data::Document> documents = read(recipe(options), line);
    EXPECT_EQ(documents.size(), 1U);
    documents.resize(1);
    return documents.front();
  }
  std::string problem(std::string_view line, const TextOptions& options = {}) const {
    std::vector<data::Document> documents;
    return recipe(options).read_line(line, documents);
  }
};

TEST_F(LineForms, ATextHasWhatTheTokenizerAddsAndOneEos) {
  const data::Document plain = document(R"({"text": "abc a"})");
  EXPECT_EQ(plain.ids, (Ids{kBos, kAb, 2, kSpaceA, kEos}));
  EXPECT_TRUE(plain.labels.empty());
  EXPECT_EQ(document(R"({"text": "c</s>"})").ids, (Ids{kBos, 2, kEos}));
  EXPECT_EQ(document(R"({"text": ""})").ids, (Ids{kBos, kEos}));
  EXPECT_EQ(document(R"({"body": "c"})", {.text_field = "body"}).ids, (Ids{kBos, 2, kEos}));
}

// As Gemma 3, whose models of text have no row for the token of images.
TEST_F(LineForms, AnAddedTokenWithoutARowIsABadLineOnly) {
  EXPECT_EQ(recipe().vocab, kBos + 1);
  EXPECT_LE(recipe().plain, kBos);
  const Recipe small = within(recipe(), kBos);
  EXPECT_EQ(small.vocab, kBos);
  EXPECT_NE(small.words, recipe().words) << "what is prepared has other bad lines";
  std::vector<data::Document> documents;
  EXPECT_EQ(small.read_line(R"({"messages": [{"role": "assistant", "content": "c"}]})", documents),
            "");
  EXPECT_NE(small.read_line(R"({"text": "c"})", documents)
                .find(core::concat("no row for the added token ", kBos)),
            std::string::npos);
  EXPECT_EQ(within(recipe(), 100).vocab, kBos + 1);
}

TEST_F(LineForms, OfAPromptOnlyTheCompletionAndEosAreTrained) {
  const data::Document pair = document(R"({"prompt": "c", "completion": " ad"})");
  EXPECT_EQ(pair.ids, (Ids{kBos, 2, kSpaceA, 3, kEos}));
  EXPECT_EQ(pair.labels, (Ids{kNo, kNo, kSpaceA, 3, kEos}));
}

// The prompt alone is "c", "space"; in the whole the space belongs to the completion's token.
TEST_F(LineForms, ATokenThatReachesOverTheBorderIsTrained) {
  const data::Document pair = document(R"({"prompt": "c ", "completion": "ad"})");
  EXPECT_EQ(pair.ids, (Ids{kBos, 2, kSpaceA, 3, kEos}));
  EXPECT_EQ(pair.labels, (Ids{kNo, kNo, kSpaceA, 3, kEos}));
}

TEST_F(LineForms, SegmentsAreJoinedAsTheyAre) {
  const data::Document line = document(
      R"({"segments": [{"text": "c ", "label": false}, {"text": "ad</s>", "label": true}]})");
  EXPECT_EQ(line.ids, (Ids{2, kSpace, 0, 3, kEos}));
  EXPECT_EQ(line.labels, (Ids{kNo, kNo, 0, 3, kEos}));
}

// "user" is 20 18 4 17, "assistant" 0 18 18 8 18 19 0 13 19.
TEST_F(LineForms, OfAChatTheAnswersAreTrainedWithTheirEnd) {
  for (
      const char* line :
      {R"({"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})",
       R"({"conversations": [{"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]})"}) {
    const data::Document chat = document(line);
    Ids ids = {kStart, 20, 18, 4, 17, kLine, 2, kEnd, kLine};
    const Ids header = {kStart, 0, 18, 18, 8, 18, 19, 0, 13, 19, kLine};
    ids.insert(ids.end(), header.begin(), header.end());
    Ids labels(ids.size(), kNo);
    for (const std::int32_t id : {3, kEnd, kLine}) {
      ids.push_back(id);
      labels.push_back(id);
    }
    EXPECT_EQ(chat.ids, ids);
    EXPECT_EQ(chat.labels, labels);
  }
}

TEST_F(LineForms, TrainOnInputsTrainsEverything) {
  const TextOptions all{.train_on_inputs = true};
  for (const char* line : {R"({"messages": [{"role": "user", "content": "c"}]})",
                           R"({"prompt": "c", "completion": "d"})",
                           R"({"segments": [{"text": "c", "label": false}]})"}) {
    const data::Document made = document(line, all);
    EXPECT_TRUE(made.labels.empty() || made.labels == made.ids) << line;
  }
}

TEST_F(LineForms, ByteOrderMarksAndLineEndsBelongToNoText) {
  EXPECT_EQ(document("\xEF\xBB\xBF{\"text\": \"c\"}\r").ids, (Ids{kBos, 2, kEos}));
}

TEST_F(LineForms, WhatIsWrongIsSaidWithItsCure) {
  const std::pair<const char*, const char*> kLines[] = {
      {"[1]", "each line must be one JSON object"},
      {"{\"text\": ", "correct the JSON at byte 10"},
      {R"({"text": 3})", "\"text\" must be a string"},
      {R"({"poem": "c", "n": 1, "no": null})",
       "a field \"text\" (--text_field), \"messages\", \"conversations\", \"prompt\" and "
       "\"completion\", \"instruction\" and \"output\" or \"segments\" is required; name the "
       "fields so, or say with --columns FIELD=MEANING what they are (the line has poem, n)"},
      {R"({"text": null})",
       "name the fields so, or say with --columns FIELD=MEANING what they are (the line has none)"},
      {R"({"prompt": "c", "chosen": "d", "rejected": "a"})", "\"chosen\" is a part of it"},
      {R"({"prompt": "c", "completion": "d", "label": false})", "preference data is not trained"},
      {R"({"messages": [{"role": "assistant", "content": "c", "weight": 0}]})",
       "an answer of the assistant is required"},
      {R"({"instruction": "c", "output": "d", "history": [["a", "b"]]})",
       "\"history\" has no place"},
      {R"({"messages": []})", "\"messages\" must be a list with messages"},
      {R"({"messages": [{"role": "robot", "content": "c"}]})", "a role must be assistant"},
      {R"({"messages": [{"role": "user"}]})", "\"content\""},
      {R"({"messages": [{"role": "user", "content": "c"}]})", "an answer of the assistant"},
      {R"({"conversations": [{"from": "martian", "value": "c"}]})", "\"from\" must be human"},
      {R"({"prompt": "c", "completion": 3})", "\"completion\" must be text"},
      {R"({"segments": [{"text": "c"}]})", "\"segments\" must be a list of"},
  };
  for (const auto& [line, words] : kLines) {
    EXPECT_NE(problem(line).find(words), std::string::npos) << line << ": " << problem(line);
  }
}

// A field that is null is not there.
TEST_F(LineForms, NullsAreAbsentEverywhere) {
  const std::string chat =
      R"("messages": [{"role": "user", "content": "c", "weight": null, "train": null},
      {"role": "assistant", "content": "d", "tool_calls": null}]})";
  const data::Document plain = document("{" + chat);
  EXPECT_EQ(document(R"({"text": null, "tools": null, "system": null, )" + chat).ids, plain.ids);
  EXPECT_EQ(document(R"({"text": null, "prompt": null, "completion": null, "chosen": null,
                         "label": null, "instruction": null, "input": null, "output": null, )" +
                     chat)
                .labels,
            plain.labels);
  EXPECT_EQ(document(R"({"text": "c", "messages": null, "segments": null})").ids,
            (Ids{kBos, 2, kEos}));
  EXPECT_EQ(document(R"({"text": null, "segments": [{"text": "c", "label": true}]})").ids, Ids{2});
  EXPECT_EQ(document(R"({"instruction": "c", "input": null, "output": "d"})").ids,
            document(R"({"instruction": "c", "output": "d"})").ids);
}

TEST_F(LineForms, OtherFormsComeBeforeATextWhoseFieldIsNotNamed) {
  const std::pair<const char*, const char*> kForms[] = {
      {R"("prompt": "c", "completion": "d")", "prompt and completion"},
      {R"("instruction": "c", "output": "d")", "instruction and output"},
      {R"("messages": [{"role": "assistant", "content": "c"}])", "messages"},
      {R"("conversations": [{"from": "gpt", "value": "c"}])", "conversations"}};
  for (const auto& [fields, what] : kForms) {
    const std::string line = R"({"text": "ab", "body": "ab", )" + std::string(fields) + "}";
    const data::Document made = document(line);
    EXPECT_FALSE(made.labels.empty()) << what;
    EXPECT_EQ(made.unused, (std::vector<std::string>{"text", "body"})) << what;
    for (const char* name : {"text", "body"}) {
      EXPECT_EQ(document(line, {.text_field = name, .text_first = true}).ids,
                (Ids{kBos, kAb, kEos}))
          << what;
    }
  }
  // Tables fill the columns of other forms with nothing.
  for (const char* const empty :
       {R"("prompt": "", "completion": "")", R"("instruction": "", "output": "")",
        R"("messages": [])", R"("conversations": [], "prompt": "", "completion": "")"}) {
    EXPECT_EQ(document(R"({"text": "ab", )" + std::string(empty) + "}").ids, (Ids{kBos, kAb, kEos}))
        << empty;
  }
  EXPECT_EQ(document(R"({"messages": [], "prompt": "c", "completion": "d"})").ids,
            document(R"({"prompt": "c", "completion": "d"})").ids);
  EXPECT_EQ(document(R"({"prompt": "c", "completion": "d", "rejected": ""})").ids,
            document(R"({"prompt": "c", "completion": "d"})").ids);
  // A named field that the line does not have.
  EXPECT_FALSE(
      document(R"({"prompt": "c", "completion": "d"})", {.text_field = "body", .text_first = true})
          .labels.empty());
  EXPECT_EQ(document(R"({"text": "ab", "role": "prompter"})").ids, (Ids{kBos, kAb, kEos}));
}

TEST_F(LineForms, FieldsWithoutEffectAreNamedInTheFirstDocument) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(document(R"({"text": "c", "meta": {"a": 1}, "label": 0})").unused,
            (Names{"meta", "label"}));
  EXPECT_EQ(document(R"({"segments": [{"text": "c", "label": true}], "id": 1})").unused,
            Names{"id"});
  EXPECT_EQ(document(R"({"prompt": "c", "completion": "d", "source": "s"})").unused,
            Names{"source"});
  EXPECT_EQ(document(R"({"tools": [{"name": "f"}], "messages": [
                {"role": "assistant", "content": "c", "id": 3}]})")
                .unused,
            (Names{"tools", "messages[].id"}));
  write("model/chat_template.jinja",
        "{% for m in messages %}{{ m.role }}{% if loop.last and m.role == 'assistant' %}!{% endif "
        "%}{{ m.content }}"
        "{% endfor %}{% if add_generation_prompt %}assistant{% endif %}");
  const std::vector<data::Document> two = read(recipe(), R"({"id": 1, "messages": [
      {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"},
      {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].unused, Names{"id"});
  EXPECT_TRUE(two[1].unused.empty());
}

// TRL: assistant_only_loss false trains the turns of a conversation, completion_only_loss true
// masks prompts; a prompt of messages is one.
TEST_F(LineForms, ConversationsAndCompletionsAreMaskedApart) {
  const char* const chat = R"({"messages": [{"role": "user", "content": "c"},
      {"role": "assistant", "content": "d"}]})";
  const char* const pair = R"({"prompt": "c", "completion": "d"})";
  const char* const messages = R"({"prompt": [{"role": "user", "content": "c"}],
      "completion": [{"role": "assistant", "content": "d"}]})";
  const auto trains_all = [&](const char* line, const TextOptions& options) {
    const data::Document made = document(line, options);
    return made.labels.empty() || made.labels == made.ids;
  };
  const TextOptions turns{.train_prompts = false, .train_turns = true};
  EXPECT_TRUE(trains_all(chat, turns));
  EXPECT_FALSE(trains_all(pair, turns));
  EXPECT_FALSE(trains_all(messages, turns));
  const TextOptions prompts{.train_prompts = true};
  EXPECT_FALSE(trains_all(chat, prompts));
  EXPECT_TRUE(trains_all(pair, prompts));
  EXPECT_TRUE(trains_all(messages, prompts));
  const TextOptions answers{.train_on_inputs = true, .train_turns = false};
  EXPECT_FALSE(trains_all(chat, answers));
  EXPECT_TRUE(trains_all(pair, answers));
  EXPECT_NE(recipe(turns).words, recipe(prompts).words);
  const TextOptions texts{.train_prompts = true, .train_turns = false};
  EXPECT_FALSE(trains_all(messages, texts));
  EXPECT_NE(recipe(texts).words, recipe(prompts).words);
}

TEST_F(LineForms, AnAnswerThatIsNotToBeTrainedAndTrainOnInputsExcludeEachOther) {
  const char* const line = R"({"messages": [{"role": "assistant", "content": "c", "weight": 0},
      {"role": "assistant", "content": "d"}]})";
  EXPECT_NE(problem(line, {.train_on_inputs = true}).find("--train_on_inputs"), std::string::npos);
  EXPECT_EQ(problem(line), "");
}

// Whatever a line is: documents whose labels are those of their ids, or a refusal.
TEST_F(LineForms, MutatedLinesAreReadOrRefused) {
  const std::string lines[] = {
      R"({"text": "abc \u00e9 a"})",
      R"({"messages": [{"role": "user", "content": "c"}, {"role": "assistant", "content": " d"}]})",
      R"({"prompt": "c", "completion": " ad"})",
      R"({"instruction": "a", "input": "", "output": "b"})",
      R"({"segments": [{"text": "c ", "label": false}, {"text": "ad</s>", "label": true}]})",
  };
  const Recipe how = recipe();
  std::mt19937 random(5);
  int read = 0;
  for (int round = 0; round < 5'000; ++round) {
    std::string line = lines[random() % std::size(lines)];
    for (unsigned change = random() % 4; change < 4; ++change) {
      const std::size_t at = random() % line.size();
      if (random() % 2 == 0) line[at] = static_cast<char>(random() % 256);
      if (random() % 4 == 0) line.erase(at, random() % 5);
      if (line.empty()) line = "{";
    }
    std::vector<data::Document> documents;
    if (!how.read_line(line, documents).empty()) continue;
    ++read;
    for (const data::Document& each : documents) {
      ASSERT_TRUE(each.labels.empty() || each.labels.size() == each.ids.size()) << line;
      for (std::size_t i = 0; i < each.ids.size(); ++i) {
        ASSERT_TRUE(each.ids[i] >= 0 && each.ids[i] < how.vocab) << line;
        if (each.labels.empty() || each.labels[i] == kNo) continue;
        ASSERT_EQ(each.labels[i], each.ids[i]) << line;
      }
    }
  }
  EXPECT_GT(read, 200);
}

TEST_F(LineForms, ATemplateThatRefusesIsQuoted) {
  write("model/chat_template.jinja", "{{ raise_exception('roles must alternate') }}");
  const std::string said = problem(R"({"messages": [{"role": "assistant", "content": "c"}]})");
  EXPECT_NE(said.find("roles must alternate"), std::string::npos) << said;
  EXPECT_FALSE(said.starts_with(":")) << said;
}

TEST_F(LineForms, AChatWithoutATemplateIsRefused) {
  std::filesystem::remove(folder_ / "model" / "chat_template.jinja");
  const char* const line = R"({"messages": [{"role": "assistant", "content": "c"}]})";
  EXPECT_NE(problem(line).find("--chat_template"), std::string::npos) << problem(line);
  const std::string file = write("other.jinja", kChatMl);
  std::vector<data::Document> documents;
  EXPECT_EQ(read_recipe(folder_ / "model", file, {}).read_line(line, documents), "");
}

TEST_F(LineForms, WhateverDecidesTheIdsIsInTheWords) {
  const std::string words = recipe().words;
  EXPECT_EQ(recipe().words, words);
  EXPECT_NE(recipe({.text_field = "body"}).words, words);
  EXPECT_NE(recipe({.train_on_inputs = true}).words, words);
  EXPECT_NE(recipe({.text_first = true}).words, words);
  write("model/chat_template.jinja", "another");
  const std::string other = recipe().words;
  EXPECT_NE(other, words);
  write("model/tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "z"})");
  EXPECT_NE(recipe().words, other);
}

TEST_F(LineForms, AFolderWithoutATokenizerIsRefused) {
  std::filesystem::create_directories(folder_ / "empty");
  const std::string said = refusal([&] { read_recipe(folder_ / "empty", "", {}); });
  EXPECT_NE(said.find("tokenizer.json"), std::string::npos) << said;
}

TextOptions with_columns(std::string_view words) {
  TextOptions options;
  options.columns.add(words);
  return options;
}

TEST_F(LineForms, ColumnsAreRenamedBeforeAFormIsRecognised) {
  const data::Document pair = document(R"({"prompt": "c", "completion": " ad"})");
  const auto same = [&](const char* line, const char* words) {
    const data::Document renamed = document(line, with_columns(words));
    EXPECT_EQ(renamed.ids, pair.ids) << line;
    EXPECT_EQ(renamed.labels, pair.labels) << line;
    EXPECT_TRUE(renamed.unused.empty()) << line;
  };
  same(R"({"question": "c", "answer": " ad"})", "question=prompt,answer=completion");
  same(R"({"completion": "c", "prompt": " ad"})", "prompt=completion,completion=prompt");
  same(R"({"q": "c", "a": " ad", "prompt": ""})", "q=prompt,a=completion");
  EXPECT_EQ(
      document(R"({"story": "c", "prompt": "a", "completion": "d"})", with_columns("story=text"))
          .ids,
      (Ids{kBos, 2, kEos}));
}

TEST_F(LineForms, ColumnsThatARowDoesNotHaveOrHasTwiceAreRefused) {
  EXPECT_EQ(problem(R"({"q": "c", "answer": "d"})", with_columns("question=prompt")),
            "a column \"question\" is required by --columns question=prompt; name one that the row "
            "has (q, answer)");
  EXPECT_EQ(
      problem(R"({"q": "c", "prompt": "d"})", with_columns("q=prompt")),
      "one column may be \"prompt\", and by --columns q=prompt two are; rename the other, too, "
      "as in prompt=other_prompt");
}

// The columns of public data sets: gsm8k, Dolly, OpenHermes-like lists, C4-like texts.
TEST_F(LineForms, KnownColumnsAreNamedInTheRefusal) {
  const auto advice = [&](const char* line) {
    const std::string said = problem(line);
    const std::size_t at = said.find("--columns ");
    return at == said.npos ? said : said.substr(at + 10, said.find(" (", at) - at - 10);
  };
  EXPECT_EQ(advice(R"({"question": "c", "answer": "d"})"), "question=prompt,answer=completion");
  EXPECT_EQ(advice(R"({"prompt": "c", "response": "d"})"), "response=completion");
  EXPECT_EQ(advice(R"({"instruction": "c", "context": "", "response": "d", "category": "x"})"),
            "context=input,response=output");
  EXPECT_EQ(advice(R"({"chat": [{"role": "user", "content": "a"}]})"), "chat=messages");
  EXPECT_EQ(advice(R"({"items": [{"from": "human", "value": "a"}]})"), "items=conversations");
  EXPECT_EQ(advice(R"({"content": "a", "url": "b"})"), "content=text");
  EXPECT_EQ(advice(R"({"prompt": "c", "chosen": "d", "rejected": "e"})"),
            "chosen=completion,rejected=not_trained, or leave \"chosen\" and \"rejected\" out");
  EXPECT_EQ(document(R"({"prompt": "c", "chosen": "d", "rejected": "e"})",
                     with_columns("chosen=completion,rejected=not_trained"))
                .ids,
            (Ids{kBos, 2, 3, kEos}));
}

}  // namespace
}  // namespace fm::prepare
