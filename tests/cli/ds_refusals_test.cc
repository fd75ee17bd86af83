// Every key that is refused, with a value that asks for what is not there. The list stands here a
// second time: a row that becomes "ignored" by mistake would drop what the user asked for.
#include <set>

#include "cli/deepspeed/ds_config_keys.h"
#include "tests/cli/read_ds.h"

namespace fm::cli {
namespace {

struct Asked {
  const char* path;
  const char* value;
};

constexpr Asked kRefused[] = {
    {"optimizer.params.amsgrad", "true"},
    {"optimizer.params.maximize", "true"},
    {"optimizer.params.max_grad_norm", "1.0"},
    {"optimizer.params.fp32_optimizer_states", "false"},
    {"scheduler.params.last_batch_iteration", "7"},
    {"gradient_allreduce_op", "\"sum\""},
    {"managed_gradient_accumulation", "false"},
    {"eigenvalue", "{\"enabled\": true}"},
    {"quantize_training", "{\"enabled\": true}"},
    {"compression_training", "{\"layer_reduction\": {\"enabled\": true}}"},
    {"sparse_attention", "{\"mode\": \"fixed\"}"},
    {"weight_quantization", "{\"quantize_weight\": 1}"},
    {"hybrid_engine", "{\"enabled\": true}"},
    {"expert_parallel", "{\"enabled\": true}"},
    {"elasticity.enabled", "true"},
    {"data_efficiency.enabled", "true"},
    {"curriculum_learning.enabled", "true"},
    {"zero_optimization.legacy_stage1", "true"},
    {"zero_optimization.zero_quantized_nontrainable_weights", "true"},
    {"zero_optimization.zeropp_loco_param", "{\"err_beta\": 0.8}"},
    {"aio.use_gds", "true"},
    {"zero_optimization.zenflow", "{\"topk_ratio\": 0.1}"},
};

// Overridden by --precision fp32.
constexpr Asked kNarrow[] = {
    {"fp16.fp16_master_weights_and_grads", "true"},
    {"bf16.bf16_master_weights_and_grads", "true"},
    {"bf16.bf16_optimizer_states", "true"},
    {"bfloat16.bf16_master_weights_and_grads", "true"},
    {"bfloat16.bf16_optimizer_states", "true"},
    {"data_types.buffer_dtype", "\"bf16\""},
    {"torch_autocast.enabled", "true"},
    {"amp", "{\"enabled\": true}"},
};

// {"a": {"b": value}}; params stand beside a type that takes them.
std::string json_of(const Asked& asked) {
  const std::vector<std::string> keys = core::split(asked.path, '.');
  std::string json = asked.value;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    json = "{\"" + *key + "\": " + json + "}";
    if (*key != "params") continue;
    const bool optimizer = keys.front() == "optimizer";
    json.replace(0, 1, optimizer ? "{\"type\": \"AdamW\", " : "{\"type\": \"WarmupLR\", ");
    const std::size_t inside = json.rfind('{') + 1;
    if (optimizer) json.insert(inside, "\"torch_adam\": true, ");
  }
  return json;
}

TEST(DsRefusals, EveryRefusedKeyIsRefusedByName) {
  for (const Asked& asked : kRefused) {
    for (const PrecisionFlag precision : {PrecisionFlag(), PrecisionFlag(core::DType::kF32)}) {
      const std::string said = refusal(json_of(asked), precision);
      EXPECT_TRUE(said.starts_with("t.json:1 ")) << said;
      EXPECT_TRUE(holds(said, asked.path));
    }
  }
}

TEST(DsRefusals, EveryNarrowNumberIsRefusedUnlessFp32IsForced) {
  for (const Asked& asked : kNarrow) {
    const std::string said = refusal(json_of(asked));
    EXPECT_TRUE(said.starts_with("t.json:1 ")) << said;
    EXPECT_TRUE(holds(said, asked.path));
    EXPECT_TRUE(holds(notes(json_of(asked), core::DType::kF32),
                      std::string("--precision fp32 overrides ") + asked.path));
  }
}

TEST(DsRefusals, TheListIsWhole) {
  std::set<std::string> listed;
  for (const Asked& asked : kRefused) listed.insert(asked.path);
  for (const Asked& asked : kNarrow) listed.insert(asked.path);
  for (const KeyRow& row : ds_config_keys()) {
    const bool refused = row.verdict == Verdict::kRefused || row.verdict == Verdict::kPrecision;
    EXPECT_EQ(refused, listed.contains(std::string(row.path))) << row.path;
  }
}

// As DeepSpeed 0.19.6, whose classes (pydantic's) and checks refuse each of these values.
TEST(DsRefusals, KeysWithoutEffectHaveTheTypesOfDeepSpeed) {
  const std::pair<Asked, const char*> wrong[] = {
      {{"checkpoint.tag_validation", "\"maybe\""}, "one of \"ignore\", \"warn\", \"fail\""},
      {{"checkpoint.tag_validation", "3"}, "one of \"ignore\""},
      {{"checkpoint.parallel_write.pipeline_stage", "\"perhaps\""}, "true or false"},
      {{"comms_logger.prof_ops", "\"all\""}, "a list [...]"},
      {{"comms_logger.verbose", "\"much\""}, "true or false"},
      {{"comms_logger.debug", "2"}, "true or false"},
      {{"timers.throughput.synchronized", "\"never\""}, "true or false"},
      {{"compile.passes", "[\"z2\"]"}, "a list of some of \"z1\", \"z3\""},
      {{"compile.deepcompile", "\"deep\""}, "true or false"},
      {{"compile.free_activation_threshold", "\"10M\""}, "a whole number"},
      {{"zero_optimization.offload_optimizer.buffer_count", "-1"}, "not negative"},
      {{"zero_optimization.offload_optimizer.ratio", "1.5"}, "a number from 0 to 1"},
      {{"zero_optimization.offload_optimizer.ratio", "\"half\""}, "a number from 0 to 1"},
      {{"zero_optimization.offload_optimizer.nvme_path", "5"}, "a text"},
      {{"zero_optimization.offload_param.pin_memory", "\"pinned\""}, "true or false"},
      {{"zero_optimization.offload_param.max_in_cpu", "1.5"}, "a whole number"},
      {{"aio.queue_depth", "\"deep\""}, "a whole number"},
      {{"aio.overlap_events", "\"often\""}, "true or false"},
      {{"zero_optimization.leaf_module.names", "5"}, "a list of texts"},
      {{"checkpoint.writer.type", "\"slow\""}, "one of \"mock\", \"python\", \"fast\""},
      {{"tensor_parallel.partition_config", "\"mine\""}, "a block"},
      {{"tensor_parallel.preset_model", "3"}, "a text"},
      {{"tensor_parallel.tp.tp_grain_size", "\"small\""}, "a whole number"},
      {{"zero_optimization.leaf_module.classes", "[1]"}, "a list of texts"},
      {{"tensor_parallel.tp_overlap_comm", "\"soon\""}, "true or false"},
      {{"torch_autocast.lower_precision_safe_modules", "[1]"}, "a list of texts"},
      {{"torch_autocast.dtype", "\"bf8\""}, "one of \"torch.float16\""}};
  for (const auto& [asked, named] : wrong) {
    const std::string said = refusal(json_of(asked));
    EXPECT_TRUE(said.starts_with(std::string("t.json:1 ") + asked.path + " must be ")) << said;
    EXPECT_TRUE(holds(said, named));
  }
  constexpr Asked kRight[] = {
      {"checkpoint.tag_validation", "\"Warn\""},
      {"checkpoint.parallel_write.pipeline_stage", "true"},
      {"comms_logger.prof_ops", "[\"all_reduce\"]"},
      {"comms_logger.verbose", "\"yes\""},
      {"compile.passes", "[\"z1\", \"autotp\"]"},
      {"zero_optimization.offload_optimizer.ratio", "1"},
      {"zero_optimization.offload_optimizer.nvme_path", "null"},
      {"zero_optimization.offload_param.max_in_cpu", "1e9"},
      {"zero_optimization.leaf_module.names", "[]"},
      {"zero_optimization.leaf_module.names", "\"mlp\""},
      {"checkpoint.writer", "{\"type\": \"Fast\", \"io_buffer_size\": 64e6}"},
      {"aio.block_size", "262144"},
      {"torch_autocast.dtype", "\"torch.bfloat16\""}};
  for (const Asked& asked : kRight) EXPECT_EQ(refusal(json_of(asked)), "accepted") << asked.path;
}

TEST(DsRefusals, ATypeOfBuffersIsNotSaidToBeSupported) {
  for (const char* type : {"\"bf16\"", "\"fp16\"", "\"half\""}) {
    const std::string said = refusal(json_of({"data_types.buffer_dtype", type}));
    EXPECT_TRUE(holds(said, "buffers, such as the tables of RoPE, are always fp32")) << said;
    EXPECT_EQ(said.find("supported"), std::string::npos) << said;
  }
  EXPECT_EQ(refusal(json_of({"data_types.buffer_dtype", "\"float32\""})), "accepted");
}

}  // namespace
}  // namespace fm::cli
