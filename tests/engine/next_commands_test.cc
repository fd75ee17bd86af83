#include "engine/shown/next_commands.h"

#include <gtest/gtest.h>

#include <fstream>

#include "trainer_case.h"

namespace fm::engine {
namespace {

using NextCommands = TrainerCase;

TEST_F(NextCommands, CanBePastedIntoAShell) {
  TrainOptions options;
  options.output_dir = "my run";
  options.data_path = {folder() / "text.jsonl"};
  options.init_ckpt = folder() / "model";
  std::filesystem::create_directories(folder() / "model");
  std::ofstream(folder() / "model" / "tokenizer.json") << "{}";
  std::ofstream(options.data_path[0]) << "{\"text\": \"of \\\"messages\\\"\"}\n";
  RunContext context;
  context.programs = "build/";
  const std::vector<std::string> text = next_commands(options, context);
  ASSERT_EQ(text.size(), 2U);
  EXPECT_EQ(text[0], "build/fmengine-generate --ckpt 'my run/hf' --prompt \"Once upon a time\"");
  EXPECT_EQ(text[1], "build/fmengine-report 'my run'");
}

TEST_F(NextCommands, OfChatsIsAChat) {
  TrainOptions options;
  for (const char* line :
       {R"({"messages": [{"role": "user", "content": "a"}]})", R"([{"conversations": []}])"}) {
    options.data_path = {folder() / "chat.jsonl"};
    std::ofstream(options.data_path[0]) << line << "\n";
    EXPECT_TRUE(begins_with_chat(options)) << line;
  }
  options.data_path = {folder() / "none.jsonl"};
  EXPECT_FALSE(begins_with_chat(options));
}

}  // namespace
}  // namespace fm::engine
