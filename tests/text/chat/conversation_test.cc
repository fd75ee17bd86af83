#include "text/chat/conversation.h"

#include <gtest/gtest.h>

#include "tests/text/data/scratch_folder.h"
#include "text/jinja/json_text.h"

namespace fm::chat {
namespace {

Record read(const std::string& line) { return read_record(jinja::parse_json(line, "c:7"), "c:7"); }

std::string messages_of(const std::string& line) {
  return jinja::to_json(jinja::make_list(std::get<Conversation>(read(line)).messages), {});
}

std::string refusal(const std::string& line) {
  return testing::message_of<core::UserError>(11, [&] { read(line); });
}

TEST(Conversation, KeepsFieldsInOrderAndDropsNulls) {
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "user", "x": 1, "content": "a", "y": null}]})"),
            R"([{"role": "user", "x": 1, "content": "a"}])");
}

TEST(Conversation, FillsTheReasoningThatTemplatesRead) {
  EXPECT_EQ(
      messages_of(R"({"messages": [{"role": "assistant", "content": "a", "reasoning": "r"}]})"),
      R"([{"thinking": "r", "role": "assistant", "content": "a", "reasoning": "r", )"
      R"("reasoning_content": "r"}])");
}

TEST(Conversation, OfShareGptGetsRoles) {
  EXPECT_EQ(messages_of(R"({"conversations": [{"from": "system", "value": "s"},
      {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})"),
            R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, )"
            R"({"role": "assistant", "content": "b"}])");
}

TEST(Conversation, MayCallToolsWithoutContent) {
  EXPECT_EQ(messages_of(R"({"messages": [{"role": "assistant", "content": null,
      "tool_calls": [{"function": {"name": "f"}}]}]})"),
            R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}])");
}

// The words of Stanford Alpaca's train.py.
TEST(Alpaca, HasItsOwnWords) {
  const auto with =
      std::get<PromptCompletion>(read(R"({"instruction": "I", "input": "N", "output": "O"})"));
  EXPECT_EQ(with.prompt,
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n"
            "### Instruction:\nI\n\n### Input:\nN\n\n### Response:");
  EXPECT_EQ(with.completion, "O");
  const auto without =
      std::get<PromptCompletion>(read(R"({"instruction": "I", "input": "", "output": "O"})"));
  EXPECT_EQ(without.prompt,
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nI\n\n### Response:");
}

TEST(PromptCompletion, IsTakenAsItIs) {
  const auto record = std::get<PromptCompletion>(read(R"({"prompt": " a", "completion": "b "})"));
  EXPECT_EQ(record.prompt, " a");
  EXPECT_EQ(record.completion, "b ");
}

TEST(Record, IsTheFirstFormWhoseFieldsAreNotNull) {
  const auto form = [](const char* line) { return form_of(jinja::parse_json(line, "c")); };
  EXPECT_EQ(form(R"({"conversations": [], "messages": [], "instruction": "", "output": ""})"),
            Form::kMessages);
  EXPECT_EQ(form(R"({"messages": null, "prompt": "", "completion": "", "conversations": []})"),
            Form::kConversations);
  EXPECT_EQ(form(R"({"prompt": "", "completion": ""})"), Form::kPromptCompletion);
  EXPECT_EQ(form(R"({"prompt": "", "completion": null, "instruction": "a", "output": "b"})"),
            Form::kAlpaca);
  EXPECT_EQ(form(R"({"text": "a", "prompt": "b"})"), std::nullopt);
  EXPECT_EQ(form("[1]"), std::nullopt);
}

constexpr const char* kTurns =
    R"("conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}])";

TEST(SystemField, BecomesTheFirstMessage) {
  const char* const with = R"([{"role": "system", "content": "s"}, {"role": "user", "content": )"
                           R"("a"}, {"role": "assistant", "content": "b"}])";
  const std::string turns = kTurns;
  EXPECT_EQ(messages_of(R"({"system": "s", )" + turns + "}"), with);
  EXPECT_EQ(messages_of(R"({"system_prompt": "s", )" + turns + "}"), with);
  EXPECT_EQ(messages_of(R"({"system": "s", "system_prompt": "s", )" + turns + "}"), with);
  EXPECT_EQ(messages_of(R"({"system": "s", "messages": [{"role": "system", "content": "s"},
      {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"),
            with);
  const std::string pair = R"("prompt": [{"role": "user", "content": "a"}],
      "completion": [{"role": "assistant", "content": "b"}]})";
  EXPECT_EQ(messages_of(R"({"system": "s", )" + pair), with);
  EXPECT_EQ(std::get<Conversation>(read(R"({"system": "s", )" + pair)).prompt, 2U);
  for (const char* none : {R"("system": "")", R"("system_prompt": null)"}) {
    EXPECT_EQ(messages_of("{" + std::string(none) + ", " + turns + "}"),
              R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])");
  }
}

TEST(SystemField, ThatHasNoPlaceIsRefusedByName) {
  const std::string turns = kTurns;
  EXPECT_EQ(refusal(R"({"system": "t", "conversations": [{"from": "system", "value": "s"}]})"),
            "c:7: \"system\" must say what the other system message of the line says; remove one "
            "of them");
  EXPECT_EQ(refusal(R"({"system": "t", "system_prompt": "s", )" + turns + "}"),
            "c:7: \"system_prompt\" must say what the other system message of the line says; "
            "remove one of them");
  EXPECT_EQ(refusal(R"({"system": ["t"], )" + turns + "}"),
            "c:7: \"system\" must be text; correct it (a list)");
  for (const std::string name : {"system", "system_prompt", "history"}) {
    const std::string field = "{\"" + name + "\": [\"s\"], ";
    for (const char* rest : {R"("prompt": "a", "completion": "b"})",
                             R"("instruction": "a", "input": "", "output": "b"})"}) {
      EXPECT_EQ(
          refusal(field + rest),
          "c:7: \"" + name +
              "\" has no place beside a prompt that is text; write the line "
              "as \"messages\": the system message, earlier questions and answers, then this one");
    }
  }
  const auto none = read(R"({"system": "", "history": [], "instruction": "a", "output": "b"})");
  EXPECT_EQ(std::get<PromptCompletion>(none).completion, "b");
}

std::vector<std::size_t> untrained_of(const std::string& line) {
  return std::get<Conversation>(read(line)).untrained;
}

TEST(Marks, SayWhichAnswersAreNotTrained) {
  const auto with = [](const std::string& mark) {
    return R"({"messages": [{"role": "assistant", "content": "a"}, {"role": "user", )" + mark +
           R"("content": "b"}, {"role": "assistant", )" + mark + R"("content": "c"}]})";
  };
  for (const char* mark :
       {R"("weight": 0, )", R"("weight": 0.0, )", R"("train": false, )", R"("training": false, )",
        R"("trainable": 0, )", R"("loss_mask": 0, )", R"("loss": false, )"}) {
    EXPECT_EQ(untrained_of(with(mark)), std::vector<std::size_t>{2}) << mark;
  }
  EXPECT_TRUE(untrained_of(with(R"("weight": null, )")).empty());
  EXPECT_EQ(untrained_of(R"({"system": "s", "conversations": [{"from": "human", "value": "a"},
      {"from": "gpt", "value": "b", "weight": 0}, {"from": "gpt", "value": "c", "weight": 1}]})"),
            std::vector<std::size_t>{2});
}

TEST(Marks, ThatCannotBeKeptAreRefused) {
  const auto answer = [](const std::string& mark) {
    return refusal(R"({"messages": [{"role": "assistant", "content": "a", )" + mark + "}]}");
  };
  EXPECT_EQ(answer(R"("weight": 0.5)"),
            "c:7: messages[0]: \"weight\" must be 0, 1, true or false: an answer is trained or it "
            "is not; correct it (0.5)");
  EXPECT_NE(answer(R"("loss_mask": [0, 1])").find("(["), std::string::npos);
  EXPECT_NE(answer(R"("train": "yes")").find("(yes)"), std::string::npos);
  EXPECT_EQ(answer(R"("weight": 1, "train": false)"),
            "c:7: messages[0]: \"weight\" and \"train\" must say the same; remove one of them");
  const auto why = [](const std::string& message) {
    const std::string line = R"({"messages": [)" + message + "]}";
    return std::get<Conversation>(read(line)).untrainable;
  };
  EXPECT_EQ(why(R"({"role": "user", "content": "a", "train": true})"),
            "messages[0]: \"train\" asks to train a message that is no answer of the assistant; "
            "remove the field, and train everything with --train_on_inputs if you want to");
  EXPECT_NE(why(R"({"role": "assistant", "content": "a", "train_detail": [{"train": true}]})")
                .find("\"train_detail\" trains parts"),
            std::string::npos);
  EXPECT_NE(why(R"({"role": "assistant", "content": [{"type": "text", "text": "a", "train": 0}]})")
                .find("marks a part"),
            std::string::npos);
  EXPECT_EQ(why(R"({"role": "assistant", "content": "a", "weight": 1})"), "");
}

TEST(Tools, MayBeJsonAsText) {
  const auto tools = [](const std::string& given) {
    const Record record =
        read(R"({"messages": [{"role": "user", "content": "a"}], "tools": )" + given + "}");
    return jinja::to_json(std::get<Conversation>(record).tools, {});
  };
  const std::string read = R"([{"name": "f"}])";
  EXPECT_EQ(tools(R"([{"name": "f"}])"), read);
  EXPECT_EQ(tools(R"(["{\"name\": \"f\"}"])"), read);
  EXPECT_EQ(tools(R"("[{\"name\": \"f\"}]")"), read);
  EXPECT_EQ(tools(R"("[\"{\\\"name\\\": \\\"f\\\"}\"]")"), read);
  for (const char* none : {"[]", "\"[]\"", "\"\"", "null"}) EXPECT_EQ(tools(none), "null") << none;
}

TEST(Tools, OfOtherFormsAreRefused) {
  const auto with = [](const std::string& field) {
    return refusal(R"({"messages": [{"role": "user", "content": "a"}], )" + field + "}");
  };
  EXPECT_EQ(with(R"("tools": ["f"])"),
            "c:7: \"tools\": JSON is required; correct the JSON at byte 2");
  EXPECT_EQ(with(R"("tools": [3])"),
            "c:7: \"tools\" must be a list of objects, or of their JSON as text; correct it (an "
            "integer)");
  EXPECT_EQ(with(R"("functions": [{"name": "f"}])"),
            "c:7: \"functions\" is OpenAI's older form and is not read; write \"tools\", and "
            "\"tool_calls\" in messages");
}

TEST(Preferences, AreRefusedByName) {
  const auto said = [](const std::string& line) {
    return testing::message_of<core::UserError>(
        11, [&] { refuse_preferences(jinja::parse_json(line, "c:7"), "c:7"); });
  };
  for (const char* line : {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
                           R"({"conversations": [], "chosen": {"from": "gpt", "value": "b"}})",
                           R"({"chosen": [{"role": "user", "content": "b"}]})"}) {
    EXPECT_NE(said(line).find("preference data is not trained here, and \"chosen\""),
              std::string::npos)
        << line;
  }
  EXPECT_EQ(said(R"({"prompt": "a", "completion": "b", "label": false})"),
            "c:7: preference data is not trained here, and \"label\" says whether an answer is a "
            "good one; keep the lines where it is true, and remove the field (label=false)");
  EXPECT_NE(said(R"({"messages": [], "kto_tag": true})").find("kto_tag=true"), std::string::npos);
  EXPECT_NE(said(R"({"prompt": "a", "label": "False"})").find("label=false"), std::string::npos);
  const jinja::Value other =
      jinja::parse_json(R"({"label": 3, "chosen": null, "rejected": false})", "c");
  EXPECT_NO_THROW(refuse_preferences(other, "c"));
}

TEST(Record, NamesTheMessageAndTheFieldThatAreWrong) {
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": "a"}, {"role": "robot"}]})"),
            "c:7: messages[1]: a role must be assistant, developer, function, ipython, system, "
            "tool or user; correct it (role=\"robot\")");
  EXPECT_EQ(refusal(R"({"messages": [{"content": "a"}]})"),
            "c:7: messages[0]: a message must have the text \"role\"; add it");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user"}]})"),
            "c:7: messages[0]: a message must have \"content\" or \"tool_calls\"; add it "
            "(role=\"user\")");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": 3}]})"),
            "c:7: messages[0]: \"content\" must be text or a list of objects with a \"type\"; "
            "correct it (an integer, role=\"user\")");
  EXPECT_EQ(refusal(R"({"messages": []})"),
            "c:7: \"messages\" must be a list with messages; correct the line (a list)");
  EXPECT_EQ(refusal(R"({"messages": [1]})"),
            "c:7: messages[0]: a message must be an object; correct the line (an integer)");
  EXPECT_EQ(refusal(R"({"conversations": [{"from": "alien", "value": "a"}]})"),
            "c:7: conversations[0]: \"from\" must be human, gpt, system, tool or another name of "
            "theirs; correct it (from=\"alien\")");
  EXPECT_EQ(refusal(R"({"prompt": "a", "completion": 1})"),
            "c:7: \"completion\" must be text; correct the line (an integer)");
  EXPECT_EQ(refusal(R"({"instruction": "a", "output": 3})"),
            "c:7: \"output\" must be text; correct the line (an integer)");
  EXPECT_EQ(refusal(R"({"text": "a"})"),
            "c:7: \"messages\", \"conversations\", \"prompt\" with \"completion\", or "
            "\"instruction\" with \"output\" is required; add it");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": "a"}], "tools": "x"})"),
            "c:7: \"tools\": JSON is required; correct the JSON at byte 1");
}

}  // namespace
}  // namespace fm::chat
