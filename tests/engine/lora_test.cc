// A run that trains adapters: what it keeps, saves, exports and goes on from.
#include "model/units/lora.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "engine/state/adapter_weights.h"
#include "engine/state/adapters.h"
#include "engine/state/export_checkpoint.h"
#include "engine/state/run_facts.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;

class LoraRun : public TrainerCase {
 protected:
  // Starts from an exported folder, as from any.
  TrainOptions lora_options(const std::string& output, std::int64_t steps) {
    const fs::path base = folder() / "base" / "hf";
    if (!fs::exists(base)) {
      EXPECT_EQ(run(options("base", 1)), 0);
    }
    TrainOptions out = options(output, steps);
    out.model_config = "";
    out.init_ckpt = base.string();
    out.lora.r = 3;
    out.lora.alpha = 6.0;
    out.lora.dropout = 0.2;
    out.lora.targets = {"q_proj", "down_proj"};
    return out;
  }
  static fs::path file_of(const TrainOptions& options, const char* name) {
    return fs::path(options.output_dir) / name;
  }
  // A whole tensor of a file.
  static std::vector<float> read(const fs::path& path, const std::string& name) {
    const checkpoint::TensorFile file(path.string());
    const checkpoint::StoredTensor* const tensor = file.find(name);
    if (tensor == nullptr) return {};
    std::int64_t count = 1;
    for (const std::int64_t size : tensor->shape) count *= size;
    std::vector<float> out(static_cast<std::size_t>(count));
    file.read(core::slice_in_memory(name, tensor->shape, core::Elements(0), out.data(),
                                    core::Elements(count)));
    return out;
  }
};

// W7's rule: 2 bytes per frozen parameter, the adapters' own state beside it.
TEST_F(LoraRun, StatesTakeTwoBytesPerFrozenParameter) {
  TrainOptions options = lora_options("run", 1);
  options.element = core::DType::kBF16;
  std::ofstream(folder() / "wide.json") << R"({"model_type": "llama", "hidden_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4,
    "intermediate_size": 1536, "vocab_size": 4096, "max_position_embeddings": 64,
    "tie_word_embeddings": false})";
  options.init_ckpt = "";
  options.model_config = (folder() / "wide.json").string();
  const model::OpenedModel opened = open_run_model(options);
  // q: 3 (512 + 512), down: 3 (1536 + 512), in two layers
  EXPECT_EQ(trained_of(opened), 2 * 3 * (1024 + 2048));
  const double base = parameters_of(opened) - trained_of(opened);
  for (const int zero_stage : {0, 2, 3}) {
    options.zero_stage = zero_stage;
    const MemoryForecast memory = make_run_plan(options, opened.model, {1}).memory(0);
    const core::Bytes states = memory.params + memory.grads + memory.optimizer;
    EXPECT_LE(static_cast<double>(states.count()), 2.2 * base + 18.0 * trained_of(opened));
  }
}

TEST_F(LoraRun, ResumesAtAnotherStageAndSizeBitForBit) {
  const TrainOptions whole = lora_options("whole", 6);
  ASSERT_EQ(run(whole), 0);
  const TrainOptions part = run_in_parts(whole, comm::Between::kSharedMemory);
  for (int step = 1; step <= 6; ++step) {
    EXPECT_EQ(metrics(whole).at(step).loss, metrics(part).at(step).loss) << "step " << step;
  }
  for (const char* name : {"adapter/adapter_model.safetensors", "hf/model.safetensors"}) {
    const checkpoint::TensorFile file(file_of(whole, name).string());
    for (const checkpoint::StoredTensor& tensor : file.header().tensors) {
      EXPECT_EQ(read(file_of(whole, name), tensor.name), read(file_of(part, name), tensor.name))
          << tensor.name;
    }
  }
  TrainOptions other = part;
  other.train_steps = 7;
  other.lora.alpha = 7.0;
  expect_error(core::ExitCode::kConfigError, "LoRA", [&] { run(other, 4); });
}

// hf holds W + 6 / 3 B A, everything else is the base's.
TEST_F(LoraRun, ExportsTheAdapterAndTheMergedModel) {
  TrainOptions options = lora_options("run", 3);
  options.zero_stage = 3;
  ASSERT_EQ(run(options, 2), 0);
  const fs::path adapter = file_of(options, "adapter/adapter_model.safetensors");
  const fs::path merged = file_of(options, "hf/model.safetensors");
  const fs::path base = fs::path(options.init_ckpt) / "model.safetensors";
  const checkpoint::TensorFile all(merged.string());
  EXPECT_EQ(all.header().tensors.size(),
            checkpoint::TensorFile(base.string()).header().tensors.size());
  EXPECT_EQ(checkpoint::TensorFile(adapter.string()).header().tensors.size(), 2U * 2 * 5);
  for (const checkpoint::StoredTensor& tensor : all.header().tensors) {
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    const auto a = read(adapter, model::adapter_name(module, model::LoraFactor::kA));
    const auto b = read(adapter, model::adapter_name(module, model::LoraFactor::kB));
    std::vector<float> expected = read(base, tensor.name);
    const bool adapted = module.ends_with("q_proj") || module.ends_with("down_proj");
    ASSERT_EQ(a.empty(), !adapted) << tensor.name;
    const std::vector<float> got = read(merged, tensor.name);
    if (!adapted) {
      EXPECT_EQ(got, expected) << tensor.name;
      continue;
    }
    const std::size_t in = a.size() / 3;
    double largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double delta = 0.0;
      for (std::size_t k = 0; k < 3; ++k) {
        delta += double{b[i / in * 3 + k]} * double{a[k * in + i % in]};
      }
      ASSERT_NEAR(got[i], expected[i] + 2.0 * delta, 1e-7) << tensor.name;
      largest = std::max(largest, std::abs(delta));
    }
    EXPECT_GT(largest, 1e-4) << tensor.name;
  }
}

// fmengine-export of a checkpoint: what the run exports, adapters beside it.
TEST_F(LoraRun, ACheckpointBecomesMergedWeightsAndAdapters) {
  TrainOptions options = lora_options("run", 2);
  options.lora.rslora = true;
  options.lora.modules_to_save = {"norm"};
  ASSERT_EQ(run(options, 2), 0);
  const fs::path out = folder() / "out";
  export_checkpoint({.checkpoint = options.output_dir, .out = out.string()});
  for (const auto& [exported, of_run] :
       {std::pair("model.safetensors", "hf/model.safetensors"),
        {"config.json", "hf/config.json"},
        {"adapter/adapter_model.safetensors", "adapter/adapter_model.safetensors"},
        {"adapter/adapter_config.json", "adapter/adapter_config.json"}}) {
    EXPECT_EQ(content(out / exported), content(file_of(options, of_run))) << exported;
  }
  // Again: a folder with adapters is an older export.
  export_checkpoint({.checkpoint = options.output_dir, .out = out.string(), .dtype = "bf16"});
  EXPECT_TRUE(fs::exists(out / "adapter" / "adapter_model.safetensors"));
}

// As peft and TRL save them: whoever gives the adapters alone has the tokenizer of the run.
TEST_F(LoraRun, AdaptersHaveTheTokenizerAndTheChatTemplateBesideThem) {
  TrainOptions options = lora_options("run", 1);
  std::ofstream(fs::path(options.init_ckpt) / "tokenizer.json") << "{\"a\": 1}";
  std::ofstream(fs::path(options.init_ckpt) / "tokenizer_config.json") << "{\"b\": 2}";
  options.chat_template = (folder() / "chat.jinja").string();
  std::ofstream(options.chat_template) << "{{ messages }}";
  ASSERT_EQ(run(options), 0);
  const fs::path out = folder() / "out";
  export_checkpoint({.checkpoint = options.output_dir, .out = out.string()});
  for (const fs::path& adapter : {file_of(options, "adapter"), out / "adapter"}) {
    EXPECT_EQ(content(adapter / "tokenizer.json"), "{\"a\": 1}");
    EXPECT_EQ(content(adapter / "tokenizer_config.json"), "{\"b\": 2}");
    EXPECT_EQ(content(adapter / "chat_template.jinja"), "{{ messages }}");
  }
  fs::remove(options.chat_template);
  const std::string told =
      export_checkpoint({.checkpoint = options.output_dir, .out = (folder() / "later").string()});
  EXPECT_TRUE(
      told.ends_with(core::concat("\nwithout the run's chat template, which is gone; copy it "
                                  "into the folder (",
                                  options.chat_template, ")")))
      << told;
}

TEST_F(LoraRun, BeginsFromAPeftFolder) {
  const TrainOptions first = lora_options("first", 2);
  ASSERT_EQ(run(first), 0);
  TrainOptions second = lora_options("second", 1);
  second.lora.start = adapter_folder(first).string();
  second.optimizer.lr = 0.0;
  second.optimizer.weight_decay = 0.0;
  ASSERT_EQ(run(second), 0);
  for (const char* name : {"adapter/adapter_model.safetensors", "hf/model.safetensors"}) {
    const checkpoint::TensorFile file(file_of(first, name).string());
    for (const checkpoint::StoredTensor& tensor : file.header().tensors) {
      EXPECT_EQ(read(file_of(first, name), tensor.name), read(file_of(second, name), tensor.name));
    }
  }
  TrainOptions same = second;
  same.output_dir = first.output_dir;
  same.resume = checkpoint::Resume::kNever;
  expect_error(core::ExitCode::kConfigError, "exports to", [&] { run(same); });
  TrainOptions other = lora_options("third", 1);
  other.lora = first.lora;
  other.lora.targets = {"q_proj"};
  other.lora.start = second.lora.start;
  expect_error(core::ExitCode::kDataError, "has none in", [&] { run(other); });
}

// What generation adds to the base is what an export merges into it.
TEST_F(LoraRun, AddsAPeftFolderToTheWeightsOfItsBase) {
  TrainOptions options = lora_options("run", 3);
  options.lora.modules_to_save = {"norm"};
  options.optimizer.lr = 1e-2;
  ASSERT_EQ(run(options), 0);
  LoraOptions lora = options.lora;
  lora.start = adapter_folder(options).string();
  const fs::path base(options.init_ckpt);
  const model::OpenedModel opened = model::open_model(base / "config.json", {});
  const AdapterWeights adapters(lora, opened);
  const AdapterWeights none({}, opened);
  int changed = 0;
  for (int unit = 0; unit < opened.model.unit_count(); ++unit) {
    for (const core::ParamEntry& entry : opened.model.table(unit).entries()) {
      std::vector<float> weight = read(base / "model.safetensors", entry.name);
      const std::vector<float> before = weight;
      none.add_to(entry, weight);
      ASSERT_EQ(weight, before) << entry.name;
      adapters.add_to(entry, weight);
      const std::vector<float> merged = read(file_of(options, "hf/model.safetensors"), entry.name);
      ASSERT_EQ(weight.size(), merged.size());
      for (std::size_t i = 0; i < weight.size(); ++i) {
        ASSERT_NEAR(weight[i], merged[i], 1e-7) << entry.name;
      }
      changed += weight != before ? 1 : 0;
    }
  }
  EXPECT_EQ(changed,
            5 * (2 + 2) + 1);  // q_proj, down_proj and two norms per block, and the last norm
  const auto refused = [&](const char* part, const LoraOptions& other) {
    expect_error(core::ExitCode::kDataError, part, [&] { AdapterWeights(other, opened); });
  };
  LoraOptions other = lora;
  other.targets = {"q_proj"};
  refused("has none in", other);
  other.targets = {"q_proj", "down_proj", "up_proj"};
  refused("a tensor is missing", other);
}

TEST_F(LoraRun, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](const char* part, const std::function<void(TrainOptions&)>& change) {
    TrainOptions options = lora_options("run", 1);
    change(options);
    expect_error(core::ExitCode::kConfigError, part, [&] { open_run_model(options); });
  };
  refused("do not go together", [](TrainOptions& o) { o.freeze = "mlp"; });
  refused("must name linear layers", [](TrainOptions& o) { o.lora.targets = {"lm_head"}; });
  refused("must name modules", [](TrainOptions& o) { o.lora.modules_to_save = {"score"}; });
  refused("two matrices of one",
          [](TrainOptions& o) { o.lora.modules_to_save = {"embed_tokens"}; });
}

}  // namespace
}  // namespace fm::engine
