// Blocks offload_optimizer, offload_param and aio, and the flags that say the same.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/read_ds.h"
#include "tests/cli/train_words.h"

namespace fm::cli {
namespace {

using core::Tier;
using Paths = std::vector<std::string>;

std::string with_zero(const std::string& blocks, int zero_stage = 3) {
  return core::concat("{\"zero_optimization\": {\"stage\": ", zero_stage, ",\n", blocks, "}}");
}
std::string optimizer(const std::string& keys) {
  return core::concat(R"("offload_optimizer": {"device": "nvme", "nvme_path": "/none/a")",
                      keys.empty() ? "" : ",\n", keys, "}");
}
std::string params(const std::string& keys) {
  return core::concat(R"("offload_param": {"device": "nvme", "nvme_path": "/none/b")",
                      keys.empty() ? "" : ",\n", keys, "}");
}

TEST(DsOffload, NothingSleepsWhereNobodySaysIt) {
  for (const char* json :
       {"{}", R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "none",
                  "nvme_path": "/none/a", "max_in_cpu": 7}, "offload_optimizer": null}})",
        R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "auto"}}})"}) {
    const engine::OffloadOptions offload = read(json).offload;
    EXPECT_EQ(offload.optimizer, Tier::kDevice) << json;
    EXPECT_EQ(offload.params, Tier::kDevice) << json;
    EXPECT_TRUE(offload.optimizer_paths.empty() && offload.param_paths.empty()) << json;
  }
}

// deepspeed/runtime/zero/offload_config.py and swap_tensor/aio_config.py; reads ahead and writes
// behind are on here.
TEST(DsOffload, DefaultsAreDeepSpeeds) {
  const engine::OffloadOptions offload =
      read(with_zero(optimizer("") + ",\n" + params(""))).offload;
  EXPECT_EQ(offload.optimizer, Tier::kNvme);
  EXPECT_EQ(offload.params, Tier::kNvme);
  EXPECT_EQ(offload.optimizer_paths, Paths{"/none/a"});
  EXPECT_EQ(offload.param_paths, Paths{"/none/b"});
  EXPECT_EQ(offload.optimizer_buffers, 4);
  EXPECT_EQ(offload.param_buffers, 5);
  EXPECT_EQ(offload.params_in_host, 1'000'000'000);
  EXPECT_EQ(offload.ratio, 1.0);
  EXPECT_TRUE(offload.pin_memory && offload.reads_ahead && offload.writes_behind);
  EXPECT_EQ(offload.disk.block_bytes, 1'048'576);
  EXPECT_EQ(offload.disk.queue_depth, 8);
  EXPECT_EQ(offload.disk.threads, 1);
}

TEST(DsOffload, EveryKeyReachesItsOption) {
  const std::string json =
      R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "NVMe",
         "nvme_path": "/none/a,/none/b",
         "buffer_count": 6, "pin_memory": false, "pipeline_read": false, "pipeline_write": false},)"
      R"("offload_param": {"device": "nvme", "nvme_path": "/none/c", "buffer_count": 3,
         "max_in_cpu": 2e6}},
          "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 4,
            "single_submit": false, "overlap_events": true, "use_gds": false}})";
  const engine::OffloadOptions offload = read(json).offload;
  EXPECT_EQ(offload.optimizer_paths, (Paths{"/none/a", "/none/b"}));
  EXPECT_EQ(offload.param_paths, Paths{"/none/c"});
  EXPECT_EQ(offload.optimizer_buffers, 6);
  EXPECT_EQ(offload.param_buffers, 3);
  EXPECT_EQ(offload.params_in_host, 2'000'000);
  EXPECT_FALSE(offload.pin_memory || offload.reads_ahead || offload.writes_behind);
  EXPECT_EQ(offload.disk.block_bytes, 262'144);
  EXPECT_EQ(offload.disk.queue_depth, 32);
  EXPECT_EQ(offload.disk.threads, 4);
  EXPECT_TRUE(holds(notes(json), "pipeline_read false: every update waits for the disk"));
  EXPECT_TRUE(holds(notes(json), "offload_param.buffer_count has no effect"));
}

TEST(DsOffload, TheCpuIsATierBesideADevice) {
  engine::TrainOptions options;
  options.device.kind = engine::DeviceKind::kFake;
  const std::string json = with_zero(
      R"("offload_optimizer": {"device": "cpu", "ratio": 0.5, "buffer_count": 7},
         "offload_param": {"device": "cpu"})");
  apply_ds_config({json, "t.json"}, {}, {}, options);
  EXPECT_EQ(options.offload.optimizer, Tier::kHost);
  EXPECT_EQ(options.offload.params, Tier::kHost);
  EXPECT_EQ(options.offload.ratio, 0.5);
  EXPECT_EQ(options.offload.optimizer_buffers, 7);
  const std::string said = core::join(options.notes, "\n");
  EXPECT_FALSE(holds(said, "in host memory already"));
  EXPECT_FALSE(holds(said, "parameters stay on the device"));
  // Parameters are cut with ZeRO 3 alone.
  engine::TrainOptions whole;
  whole.device.kind = engine::DeviceKind::kFake;
  const std::string two =
      with_zero(R"("offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"})", 2);
  apply_ds_config({two, "t.json"}, {}, {}, whole);
  EXPECT_EQ(whole.offload.optimizer, Tier::kHost);
  EXPECT_EQ(whole.offload.params, Tier::kDevice);
  EXPECT_TRUE(holds(core::join(whole.notes, "\n"), "parameters stay on the device"));
}

TEST(DsOffload, OldKeysMeanTheCpu) {
  const engine::OffloadOptions offload =
      read(with_zero(R"("cpu_offload": true, "cpu_offload_param": true)")).offload;
  EXPECT_EQ(offload.optimizer, Tier::kHost);
  EXPECT_EQ(offload.params, Tier::kHost);
}

TEST(DsOffload, WhatCannotBeIsRefusedWithTheLine) {
  const std::pair<std::string, const char*> refused[] = {
      {with_zero(R"("offload_optimizer": {"device": "nvme"})"),
       "t.json:2 zero_optimization.offload_optimizer.nvme_path is required with device \"nvme\""},
      {with_zero(optimizer(""), 0), "offload_optimizer to nvme needs ZeRO 1, 2 or 3"},
      {with_zero(params(""), 2), "offload_param to nvme needs ZeRO 3"},
      {with_zero(R"("offload_optimizer": {"device": "cpu", "ratio": 0.5})", 2),
       "Partial offloading only supported for ZeRO Stage 3"},
      {with_zero(optimizer("\"ratio\": 0.5")),
       "t.json:3 zero_optimization.offload_optimizer.ratio "
       "below 1 keeps a part on the device"},
      {with_zero(optimizer("\"buffer_count\": 1")),
       "t.json:3 zero_optimization.offload_optimizer.buffer_count must be 2 to 65536"},
      {with_zero(R"("offload_param": {"device": "nvme", "nvme_path": "/none/a,,/none/b"})"),
       "remove the empty one"},
      {with_zero(R"("offload_param": {"device": "nvme", "nvme_path": "/none/a,/none/a"})"),
       "must name each folder once"},
      {with_zero(R"("offload_param": {"device": "nvme", "nvme_path": "/proc/self/maps"})"),
       "/proc/self/maps is a file)"}};
  for (const auto& [json, named] : refused) EXPECT_TRUE(holds(refusal(json), named)) << json;
}

TEST(DsOffload, TheDiskHasLimits) {
  const auto with_aio = [](const std::string& aio) {
    return "{\"zero_optimization\": {\"stage\": 3, " + optimizer("") + "},\n\"aio\": {" + aio +
           "}}";
  };
  EXPECT_EQ(refusal(with_aio("\"block_size\": 4096, \"queue_depth\": 1")), "accepted");
  for (const char* aio :
       {"\"block_size\": 5000", "\"block_size\": 0", "\"queue_depth\": 0",
        "\"intra_op_parallelism\": 0", "\"thread_count\": -1", "\"queue_depth\": 1025"}) {
    EXPECT_TRUE(refusal(with_aio(aio)).starts_with("t.json:2 aio.")) << aio;
  }
  EXPECT_TRUE(holds(refusal(with_aio("\"thread_count\": 65")), "aio.thread_count must be 1 to 64"));
  EXPECT_TRUE(holds(notes(with_aio("\"single_submit\": true")), "ignored aio.single_submit: "));
  EXPECT_TRUE(holds(notes("{\"aio\": {\"queue_depth\": 4, \"block_size\": 8192}}"),
                    "ignored aio.queue_depth, aio.block_size: nothing sleeps on NVMe"));
}

TEST(DsOffload, KeysWithoutEffectAreNotedWhereSomethingSleeps) {
  EXPECT_TRUE(holds(notes(with_zero(optimizer("\"fast_init\": true, \"super_offload\": true"))),
                    "offload_optimizer.super_offload: a unit is updated"));
  EXPECT_TRUE(holds(notes(with_zero(params("\"buffer_size\": 5"))), "offload_param.buffer_size: "));
  EXPECT_FALSE(holds(notes(with_zero(R"("offload_param": {"device": "none", "buffer_size": 5})")),
                     "buffer_size"));
}

engine::OffloadOptions of_words(Words words, const std::string& json) {
  if (!json.empty()) {
    const std::string path = ::testing::TempDir() + "ds_offload_flags.json";
    std::ofstream(path) << json;
    words.insert(words.end(), {"--deepspeed_config", path});
  }
  return parse(words).options.offload;
}

TEST(DsOffload, FlagsSayTheSame) {
  const Words to_nvme = {"--offload_optimizer", "nvme",           "--offload_param", "NVMe",
                         "--nvme_path",         "/none/a,/none/b"};
  const engine::OffloadOptions offload = of_words(to_nvme, with_zero("\"overlap_comm\": true"));
  EXPECT_EQ(offload.optimizer, Tier::kNvme);
  EXPECT_EQ(offload.params, Tier::kNvme);
  EXPECT_EQ(offload.optimizer_paths, (Paths{"/none/a", "/none/b"}));
  EXPECT_EQ(offload.param_paths, (Paths{"/none/a", "/none/b"}));
  EXPECT_EQ(of_words({"--offload_optimizer", "cpu"}, "").optimizer, Tier::kHost);
  const auto refused = [&](const Words& words, const std::string& json) {
    return refusal_of([&] { of_words(words, json); });
  };
  EXPECT_EQ(refused({"--offload_optimizer", "nvme"}, with_zero(optimizer(""))), "accepted");
  EXPECT_TRUE(holds(refused({"--offload_optimizer", "cpu"}, with_zero(optimizer(""))),
                    "--offload_optimizer must be what the JSON says"));
  EXPECT_TRUE(holds(refused({"--nvme_path", "/none/b"}, with_zero(optimizer(""))),
                    "--nvme_path must be what the JSON says"));
  EXPECT_TRUE(holds(refused({"--nvme_path", "/none/b"}, ""), "--nvme_path belongs to"));
  EXPECT_TRUE(holds(refused({"--offload_param", "disk"}, ""), "none, cpu, nvme"));
  EXPECT_TRUE(holds(refused({"--offload_optimizer", "nvme"}, with_zero("\"overlap_comm\": true")),
                    "nvme_path is required"));
}

}  // namespace
}  // namespace fm::cli
