#include <gtest/gtest.h>

#include "cli/arguments.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

using Words = std::vector<std::string>;

TEST(PlanFlags, AHostOfAPlanHasMemoryAndCores) {
  const auto bytes = [](const char* words) {
    const Words all{"--plan", "--model_config=c", "--host_memory", words, "--host_cores", "32"};
    const Command command = parse_command(all);
    EXPECT_EQ(command.host_cores, 32);
    return command.host_memory.value().count();
  };
  EXPECT_EQ(bytes("64G"), 64'000'000'000);
  EXPECT_EQ(bytes("64GB"), 64'000'000'000);
  EXPECT_EQ(bytes("1.5Gi"), 1'610'612'736);
  EXPECT_EQ(bytes("512m"), 512'000'000);
  EXPECT_EQ(bytes("1000"), 1000);
  for (const char* wrong : {"much", "G", "-5G", "64X", "64Gib2", "0"}) {
    const std::string said = refusal_of([&] {
      parse_command(Words{"--plan", "--model_config=c", std::string("--host_memory=") + wrong});
    });
    EXPECT_TRUE(holds(said, "--host_memory must be a size, as 64G or 512Gi")) << wrong;
  }
  const Words train{"--model_config=c", "--data_path=d", "--host_memory", "64G"};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(train); }), "belong to --plan"));
}

TEST(PlanFlags, APictureBelongsToAPlan) {
  const Words plan{"--plan", "--model_config=c", "--svg", "plan.svg", "--trace", "t.json"};
  EXPECT_EQ(parse_command(plan).svg, "plan.svg");
  const Words train{"--model_config=c", "--data_path=d", "--svg", "plan.svg"};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(train); }), "--svg belongs to --plan"));
  const Words nameless{"--plan", "--model_config=c", "--svg="};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(nameless); }), "names a file"));
}

}  // namespace
}  // namespace fm::cli
