#include <gtest/gtest.h>

#include <fstream>

#include "cli/flags/arguments.h"
#include "core/text.h"
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
  EXPECT_EQ(bytes(".5G"), 500'000'000);
  EXPECT_EQ(bytes("1_000M"), 1'000'000'000);
  for (const char* wrong : {"much", "G", "-5G", "64X", "64Gib2", "0", "inf", "nanG"}) {
    const std::string said = refusal_of([&] {
      parse_command(Words{"--plan", "--model_config=c", std::string("--host_memory=") + wrong});
    });
    EXPECT_TRUE(holds(said, "--host_memory must be a size, as 64G or 512Gi")) << wrong;
  }
  const Words train{"--model_config=c", "--data_path=d", "--host_memory", "64G"};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(train); }), "belong to --plan"));
}

TEST(PlanFlags, DrivesOfAPlanHaveARateAndALife) {
  const auto plan = [](const Words& more) {
    Words words{"--plan", "--model_config=c"};
    words.insert(words.end(), more.begin(), more.end());
    return parse_command(words);
  };
  const Command command = plan({"--nvme_rate", "6.5,4", "--nvme_endurance=600"});
  EXPECT_EQ(command.nvme_rate->read, 6.5e9);
  EXPECT_EQ(command.nvme_rate->write, 4e9);
  EXPECT_EQ(command.nvme_endurance, 6e14);
  EXPECT_FALSE(plan({}).nvme_rate);
  for (const char* wrong : {"", "6", "6,", "0,4", "6,4,3", "fast,slow"}) {
    EXPECT_TRUE(holds(refusal_of([&] { plan({std::string("--nvme_rate=") + wrong}); }),
                      "--nvme_rate must be two numbers above 0"))
        << wrong;
  }
  EXPECT_TRUE(holds(refusal_of([&] { plan({"--nvme_endurance=0"}); }), "--nvme_endurance"));
  const Words train{"--model_config=c", "--data_path=d", "--nvme_rate", "6,4"};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(train); }), "belong to --plan"));
}

TEST(PlanFlags, ADeviceOfAPlanHasMemoryAndAName) {
  const Words plan{"--plan", "--model_config=c", "--device", "cuda", "--device_memory",
                   "80G",    "--device_card",    "H100"};
  const Command command = parse_command(plan);
  EXPECT_EQ(command.device_memory.value().count(), 80'000'000'000);
  EXPECT_EQ(command.device_card, "H100");
  EXPECT_EQ(command.options.device.kind, engine::DeviceKind::kCuda);
  const Words train{"--model_config=c", "--data_path=d", "--device_memory", "80G"};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(train); }), "belong to --plan"));
}

TEST(PlanFlags, ADeviceMayHaveANumber) {
  const auto device = [](const char* word) {
    return parse_command(Words{"--model_config=c", "--data_path=d", "--device", word})
        .options.device;
  };
  EXPECT_EQ(device("cuda").number, -1);
  EXPECT_EQ(device("cuda:0").number, 0);
  EXPECT_EQ(device("cuda:11").number, 11);
  EXPECT_EQ(device("auto").kind, engine::DeviceKind::kAuto);
  EXPECT_EQ(device("cpu").kind, engine::DeviceKind::kCpu);
  for (const char* wrong : {"cuda:", "cuda:x", "cuda:-1", "cuda:1000", "cuda:1 "}) {
    EXPECT_TRUE(holds(refusal_of([&] { device(wrong); }), "--device cuda:N must give the number"))
        << wrong;
  }
  EXPECT_TRUE(holds(refusal_of([&] { device("npu"); }), "--device must be one of"));
}

TEST(PlanFlags, AGpuIsACudaDevice) {
  const auto device = [](const char* word) {
    return parse_command(Words{"--model_config=c", "--data_path=d", "--device", word})
        .options.device;
  };
  EXPECT_EQ(device("gpu").kind, engine::DeviceKind::kCuda);
  EXPECT_EQ(device("gpu").number, -1);
  EXPECT_EQ(device("gpu:3").kind, engine::DeviceKind::kCuda);
  EXPECT_EQ(device("gpu:3").number, 3);
  EXPECT_TRUE(holds(refusal_of([&] { device("gpu:x"); }), "must give the number of a GPU"));
}

TEST(PlanFlags, APictureBelongsToAPlan) {
  const Words plan{"--plan", "--model_config=c", "--svg", "plan.svg", "--trace", "t.json"};
  EXPECT_EQ(parse_command(plan).svg, "plan.svg");
  const Words train{"--model_config=c", "--data_path=d", "--svg", "plan.svg"};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(train); }), "--svg belongs to --plan"));
  const Words nameless{"--plan", "--model_config=c", "--svg="};
  EXPECT_TRUE(holds(refusal_of([&] { parse_command(nameless); }), "names a file"));
}

TEST(PlanFlags, AScheduleAloneNeedsTimesAndMicrosAndNoModel) {
  const Command command =
      parse_command(Words{"--plan", "--plan_times=1,2,3,0.5", "--micros", "8", "--schedule=zb-v",
                          "--pipe_parallel_size=4", "--csv=a.csv", "--csv_messages=b.csv"});
  EXPECT_EQ(command.micros, 8);
  EXPECT_EQ(command.options.plan_times->input, 2.0);
  EXPECT_EQ(command.options.plan_times->comm, 0.5);
  EXPECT_EQ(command.options.schedule->name, "zb-v");
  EXPECT_EQ(command.csv, "a.csv");
  EXPECT_EQ(command.csv_messages, "b.csv");
  const auto said = [](Words words) { return refusal_of([&] { parse_command(words); }); };
  EXPECT_TRUE(holds(said({"--plan", "--plan_times=1,1,1,0"}), "needs --micros"));
  EXPECT_TRUE(holds(said({"--plan", "--micros=2"}), "belongs to a plan of a schedule alone"));
  EXPECT_TRUE(holds(said({"--plan", "--model_config=c", "--micros=2", "--plan_times=1,1,1,0"}),
                    "gradient_accumulation_steps says it"));
  EXPECT_TRUE(holds(said({"--model_config=c", "--data_path=d", "--csv=a"}), "belongs to --plan"));
  for (const char* wrong : {"1,1,1", "1,1,1,0,0", "0,1,1,0", "1,1,1,-1", "1,x,1,0", "inf,1,1,0"}) {
    EXPECT_TRUE(holds(said({"--plan", "--micros=2", std::string("--plan_times=") + wrong}),
                      "--plan_times must be four numbers T_F,T_I,T_W,T_comm"))
        << wrong;
  }
}

// One block in one step: 20 forward, 10 + 30 backward, 5 for the loss.
TEST(PlanFlags, TimesOfATraceAreThoseOfUnits) {
  const std::string path = testing::TempDir() + "plan_times.json";
  const auto said = [&](const std::string& text) -> std::string {
    std::ofstream(path) << text;
    try {
      parse_command(Words{"--plan", "--model_config=c", "--plan_times", path});
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), core::ExitCode::kDataError);
      return error.what();
    }
    return "";
  };
  const auto event = [](const char* name, const char* category, const char* rest) {
    return core::concat(R"({"ph": "X", "pid": 0, "name": ")", name, R"(", "cat": ")", category,
                        R"(", )", rest, "}");
  };
  const std::string step = event("step", "step", R"("ts": 0, "dur": 99, "args": {"step": 1})");
  const std::string rest = core::join(
      std::vector<std::string>{
          event("forward", "instruction", R"("ts": 0, "dur": 20, "args": {"micro": 0, "unit": 1})"),
          event("loss", "instruction", R"("ts": 20, "dur": 5, "args": {"micro": 0})"),
          event("backward_input", "part",
                R"("ts": 25, "dur": 10, "args": {"micro": 0, "unit": 1})"),
          event("backward_weight", "part",
                R"("ts": 35, "dur": 30, "args": {"micro": 0, "unit": 1})")},
      ", ");
  ASSERT_EQ(said("[" + step + ", " + rest + "]"), "");
  for (const char* action : {"--plan", "--data_path=d"}) {
    const Command command = parse_command(Words{action, "--model_config=c", "--plan_times", path});
    EXPECT_EQ(command.options.unit_times->block.forward, 20.0);
    EXPECT_EQ(command.options.unit_times->block.input, 10.0);
    EXPECT_EQ(command.options.unit_times->block.weight, 30.0);
    EXPECT_EQ(command.options.unit_times->head, 5.0);
    EXPECT_EQ(command.options.unit_times->message, 0.0);
    EXPECT_EQ(command.options.plan_times->weight, 30.0);
  }
  EXPECT_TRUE(holds(said("no JSON"), "a trace must be JSON"));
  EXPECT_TRUE(holds(said("{}"), "a step of every rank"));
  EXPECT_TRUE(holds(said("[" + step + "]"), "no forward of a block"));
  EXPECT_TRUE(holds(said("[" + step + "]"), path));
}

TEST(PipelineFlags, CellsOfAFileThatPlaceGathersAreNoted) {
  const auto notes_of = [](const char* name, const char* rows) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << rows;
    const Words words{"--plan", "--model_config=c", "--schedule", path};
    return core::join(parse_command(words).options.notes, "\n");
  };
  EXPECT_TRUE(holds(notes_of("gathers.csv", "0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n"),
                    "gathers.csv: 3 cells UNSHARD, RESHARD or REDUCE_GRAD without effect"));
  EXPECT_FALSE(holds(notes_of("computes.csv", "0F0,0B0\n"), "UNSHARD"));
}

TEST(PipelineFlags, WinOverTheJsonAndNameWhatIsWrong) {
  const auto options = [](Words words) {
    words.insert(words.begin(), {"--plan", "--model_config=c"});
    return parse_command(words).options;
  };
  // {"pipeline": {"schedule": "zb-h1", "virtual_stages": 3, "partition_method": "uniform",
  //  "activation_limit": 2.5}}
  const std::string json =
      "--deepspeed_config=eyJwaXBlbGluZSI6IHsic2NoZWR1bGUiOiAiemItaDEiLCAidmlydHVhbF9zdGFnZXMiOiAz"
      "LCAicGFydGl0aW9uX21ldGhvZCI6ICJ1bmlmb3JtIiwgImFjdGl2YXRpb25fbGltaXQiOiAyLjV9fQ==";
  const engine::TrainOptions from_json = options({json});
  EXPECT_EQ(from_json.schedule->name, "zb-h1");
  EXPECT_EQ(from_json.virtual_stages, 3);
  EXPECT_EQ(name_of(from_json.partition), "uniform");
  EXPECT_EQ(from_json.activation_limit, 2.5);
  const engine::TrainOptions flags = options({json, "--schedule=V-Min", "--virtual_stages=2",
                                              "--partition_method=3,2", "--activation_limit=4"});
  EXPECT_EQ(flags.schedule->name, "v-min");
  EXPECT_EQ(flags.virtual_stages, 2);
  EXPECT_EQ(name_of(flags.partition), "3,2");
  EXPECT_EQ(flags.activation_limit, 4.0);
  EXPECT_TRUE(options({"--schedule=auto"}).auto_schedule);
  EXPECT_TRUE(holds(refusal_of([&] { options({"--schedule=zb-vv"}); }), "did you mean zb-v?"));
  EXPECT_TRUE(holds(refusal_of([&] { options({"--schedule=none.csv"}); }), "none.csv"));
  EXPECT_TRUE(holds(refusal_of([&] { options({"--partition_method=even"}); }), "type:REGEX"));
  // {"pipeline": {"partition": "uniform", "partition_method": "parameters"}}
  const std::string two =
      "--deepspeed_config=eyJwaXBlbGluZSI6IHsicGFydGl0aW9uIjogInVuaWZvcm0iLCAicGFydGl0"
      "aW9uX21ldGhvZCI6ICJwYXJhbWV0ZXJzIn19";
  EXPECT_TRUE(holds(refusal_of([&] { options({two}); }), "must agree; remove one"));
}

TEST(PipelineFlags, PostValidationIsAskedForByEitherName) {
  // {"pipeline": {"post_validation": true}}
  const std::string json =
      "--deepspeed_config=eyJwaXBlbGluZSI6IHsicG9zdF92YWxpZGF0aW9uIjogdHJ1ZX19";
  const auto asked = [](Words words) {
    words.insert(words.begin(), {"--plan", "--model_config=c"});
    return parse_command(words).options.post_validation;
  };
  EXPECT_FALSE(asked({}));
  EXPECT_TRUE(asked({json}));
  EXPECT_TRUE(asked({"--post_validation"}));
  EXPECT_FALSE(asked({json, "--post_validation=false"}));
}

}  // namespace
}  // namespace fm::cli
