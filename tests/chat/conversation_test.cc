#include "chat/conversation.h"

#include <gtest/gtest.h>

#include "chat/json_text.h"
#include "tests/data/scratch_folder.h"

namespace fm::chat {
namespace {

Record read(const std::string& line) { return read_record(parse_json(line, "c:7"), "c:7"); }

std::string messages_of(const std::string& line) {
  return to_json(make_list(std::get<Conversation>(read(line)).messages), {});
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

TEST(Record, IsRecognizedByItsFields) {
  EXPECT_TRUE(is_record(parse_json(R"({"messages": []})", "c")));
  EXPECT_TRUE(is_record(parse_json(R"({"prompt": "", "completion": ""})", "c")));
  EXPECT_FALSE(is_record(parse_json(R"({"text": "a", "prompt": "b"})", "c")));
  EXPECT_FALSE(is_record(parse_json("[1]", "c")));
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
  EXPECT_EQ(refusal(R"({"instruction": "a", "input": "b"})"),
            "c:7: \"output\" must be text; correct the line (it is missing)");
  EXPECT_EQ(refusal(R"({"text": "a"})"),
            "c:7: \"messages\", \"conversations\", \"prompt\" with \"completion\", or "
            "\"instruction\" with \"output\" is required; add it");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": "a"}], "tools": "x"})"),
            "c:7: \"tools\": JSON is required; correct the JSON at byte 1");
}

}  // namespace
}  // namespace fm::chat
