// A run goes on with the hosts that are left, and takes back those that return: 8 samples a step on
// 3 hosts, on 2 and on 3 again, with the same files and the bits of one process.
#include "core/check.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"
#include "tests/system/text_files.h"

namespace fm::system {
namespace {

struct Kind {
  const char* name;
  int zero_stage;
  int pipe_ranks;
  bool packs = false;  // documents of ids into rows, instead of rows
  std::vector<std::string> more = {};
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"Zero3", 3, 1},
      {"Zero1Pipeline", 1, 2},
      {"Zero2Documents", 2, 1, true, {"--packing", "best_fit", "--document_attention"}},
      {"Zero0Lora", 0, 1, false, {"--lora_r", "4"}},
  };
  return kKinds;
}

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class FewerHosts : public SystemCase, public testing::WithParamInterface<Kind> {
 protected:
  SmallRun run_to(const char* output, int steps) const {
    const std::string config =
        write_file(folder() / "eight.json",
                   core::concat(R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1,
            "communication_order": "canonical", "gradient_clipping": 0.5,
            "zero_optimization": {"stage": )",
                                GetParam().zero_stage,
                                R"(}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}})"));
    SmallRun run{.config = config,
                 .model = small_model(folder()),
                 .data = GetParam().packs ? documents() : small_tokens(folder(), 64),
                 .output = folder() / output,
                 .steps = steps,
                 .save_steps = 2,
                 .more = GetParam().more};
    return run;
  }
  // Of 3 to 31 ids each.
  std::string documents() const {
    std::string text;
    for (int document = 0; document < 150; ++document) {
      text += R"({"input_ids": [1)";
      for (int at = 0; at < 2 + 7 * document % 29; ++at) {
        text += core::concat(", ", 2 + (31 * document + 17 * at) % 260);
      }
      text += "]}\n";
    }
    return write_file(folder() / "documents.jsonl", text);
  }
  Ended on_hosts(int count, int steps) {
    SmallRun run = run_to("dealt", steps);
    const int pipe = GetParam().pipe_ranks;
    run.more.insert(run.more.end(), {"--pipe_parallel_size", std::to_string(pipe)});
    std::vector<std::string> hosts;
    for (int rank = 0; rank < count * pipe; ++rank) {
      hosts.push_back(std::string(1, static_cast<char>('a' + rank / pipe)));
    }
    return run_well({.starter = Starter::kByHand,
                     .ranks = count * pipe,
                     .words = words_of(run),
                     .variables = {},
                     .hosts = hosts});
  }
  std::string export_of(const char* output) const {
    const std::filesystem::path made = folder() / output;
    return std::filesystem::exists(made / "adapter")
               ? content_of(made / "adapter" / "adapter_model.safetensors")
               : content_of(made / "hf" / "model.safetensors");
  }
};

TEST_P(FewerHosts, GoOnWithTheBitsOfOneProcess) {
  run_well({.starter = Starter::kAlone, .words = words_of(run_to("alone", 6)), .variables = {}});
  const std::string shares = "8 samples = 1 per micro-batch x 3, 3, 2 on 3 data ranks";
  EXPECT_EQ(occurrences(unwrapped(on_hosts(3, 2).out), shares), 1);
  EXPECT_EQ(occurrences(unwrapped(on_hosts(2, 4).out), "4 accumulation x 2 data ranks"), 1);
  const Ended last = on_hosts(3, 6);
  EXPECT_EQ(occurrences(last.err, "other numbers than it was saved with"), 0) << last.err;
  EXPECT_EQ(first_difference(steps_in(folder() / "alone"), steps_in(folder() / "dealt"), 6), "");
  EXPECT_GT(export_of("alone").size(), 5'000U);
  EXPECT_TRUE(export_of("alone") == export_of("dealt")) << "the exported weights differ";
}

INSTANTIATE_TEST_SUITE_P(Named, FewerHosts, testing::ValuesIn(kinds()),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace fm::system
