// Every key that is refused, with a value that asks for what is not there. The list stands here a
// second time: a row that becomes "ignored" by mistake would drop what the user asked for.
#include <set>

#include "cli/ds_config_keys.h"
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
    {"zero_optimization.zero_quantized_weights", "true"},
    {"zero_optimization.zero_quantized_nontrainable_weights", "true"},
    {"zero_optimization.zero_quantized_gradients", "true"},
    {"zero_optimization.zeropp_loco_param", "{\"err_beta\": 0.8}"},
    {"zero_optimization.offload_param.device", "\"nvme\""},
    {"zero_optimization.offload_optimizer.device", "\"nvme\""},
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

}  // namespace
}  // namespace fm::cli
