// Files of models: tokenizers, weights, configurations; and those of runs that are read again.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "checkpoint/hf_folder.h"
#include "checkpoint/manifest.h"
#include "cli/flags/arguments.h"
#include "cli/peft_folder.h"
#include "core/blackbox/black_box.h"
#include "core/crc32c.h"
#include "core/files/files.h"
#include "core/tensor_slice.h"
#include "engine/infer/model_text.h"
#include "engine/infer/sampling.h"
#include "engine/plan/part_start.h"
#include "engine/state/progress_state.h"
#include "launch/hostfile.h"
#include "model/opened_model.h"
#include "observe/blackbox/crash_report.h"
#include "observe/report/page.h"
#include "observe/report/trace_step.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "tests/checkpoint/torch_file_bytes.h"
#include "tests/faults/readers.h"
#include "tests/model/family_jsons.h"
#include "tests/text/data/scratch_folder.h"
#include "tests/text/prepare/small_tokenizer.h"
#include "tests/text/tokenizer/small_tokenizers.h"
#include "text/chat/model_folder.h"
#include "text/tokenizer/open_tokenizer.h"

namespace fm::faults {
namespace {

namespace fs = std::filesystem;

void use_tokenizer(const fs::path& folder) {
  const auto tokenizer = tokenizer::open_tokenizer(folder.string());
  std::string text = "hello  world<s> [x] a\u00E9b \u2581\u2581ab ba 1'LL\n\n\u4E2D \xFF abab";
  for (const int times : {1, 6}) {
    for (int at = 1; at < times; ++at) text += text;
    const std::vector<tokenizer::TokenId> ids = tokenizer->encode(text);
    tokenizer->decode(ids);
  }
  chat::read_chat_format(folder);
}

std::vector<std::vector<SeedFile>> tokenizer_jsons() {
  const std::string unigram =
      R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Nmt"},
        {"type": "Precompiled", "precompiled_charsmap": "CAAAAAAEAAACAAAAYQA="}]},
        "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true,
        "vocab": [["<unk>", 0], ["a", -1.5], ["b", -2], ["ab", -2.5], ["<0xC3>", -9]]}})";
  std::vector<std::vector<SeedFile>> seeds;
  for (const std::string& text :
       {std::string(tokenizer::kByteLevelJson), std::string(tokenizer::kMetaSpaceJson),
        prepare::small_tokenizer(), unigram}) {
    seeds.push_back({{"tokenizer.json", text, Kind::kJson}});
  }
  return seeds;
}

// One pattern in each place that takes one.
std::vector<std::vector<SeedFile>> pattern_jsons() {
  const std::string pattern = R"("pattern": {"Regex": "@pattern@"})";
  const std::string model =
      R"(, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, " ": 3}, "merges": []}})";
  std::vector<std::vector<SeedFile>> seeds;
  for (const std::string& part :
       {R"({"normalizer": {"type": "Replace", "content": "b", )" + pattern + "}",
        R"({"pre_tokenizer": {"type": "Split", "behavior": "Isolated", "invert": false, )" +
            pattern + "}",
        R"({"pre_tokenizer": {"type": "Split", "behavior": "Removed", "invert": true, )" + pattern +
            "}",
        R"({"decoder": {"type": "Replace", "content": "b", )" + pattern + "}"}) {
    seeds.push_back({{"tokenizer.json", part + model, Kind::kJson, true}});
  }
  return seeds;
}

void use_patterns(const fs::path& folder) {
  const auto tokenizer = tokenizer::open_tokenizer(folder.string());
  std::string text = "aab a\u00e9 b\n";
  for (const std::size_t size : {10, 3'000, 40'000}) {
    while (text.size() < size) text += text;
    tokenizer->decode(tokenizer->encode(text));
    tokenizer->encode(std::string(size, 'a') + "b");
  }
}

// Tensors "a" [2, 3] and "b" [4].
void read_weights(const fs::path& folder) {
  const checkpoint::HfFolder files(folder);
  std::vector<float> numbers(6);
  const auto read = [&](const char* name, std::vector<std::int64_t> shape, std::int64_t count) {
    if (!files.contains(name)) return;
    files.read(core::slice_in_memory(name, std::move(shape), core::Elements(0), numbers.data(),
                                     core::Elements(count)));
  };
  read("a", {2, 3}, 6);
  read("b", {4}, 4);
}

std::string safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})";
  return testing::file_of(header, 32);
}

std::string torch_file() {
  const std::vector<testing::SavedTensor> tensors = {{"a", "FloatStorage", "0", 0, {2, 3}, {3, 1}},
                                                     {"b", "BFloat16Storage", "1", 0, {4}, {1}}};
  return testing::zip_of({{"m/data.pkl", testing::pickle_of(tensors)},
                          {"m/data/0", std::string(64 * 4, '\0')},
                          {"m/data/1", std::string(64 * 2, '\0')},
                          {"m/version", "3\n"}});
}

std::vector<std::vector<SeedFile>> config_jsons() {
  std::vector<std::vector<SeedFile>> seeds;
  for (const model::FamilyJson& family : model::family_jsons()) {
    seeds.push_back({{"config.json", family.text, Kind::kJson}});
  }
  return seeds;
}

const std::string kDeepSpeed = R"({"train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": false},
  "gradient_accumulation_steps": 1, "gradient_clipping": 1.0, "steps_per_print": 10,
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "overlap_comm": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 5, "total_num_steps": 9}},
  "csv_monitor": {"enabled": false, "output_path": "x"}, "pipeline": {"stages": "auto"}})";

const std::string kAdapter = R"({"alpha_pattern": {}, "base_model_name_or_path": "/nowhere",
  "bias": "none", "init_lora_weights": true, "layers_pattern": null, "lora_alpha": 32,
  "lora_dropout": 0.05, "modules_to_save": ["lm_head"], "peft_type": "LORA", "r": 16,
  "target_modules": ["v_proj", "q_proj"], "use_dora": false, "use_rslora": true})";

const std::string kGeneration = R"({"do_sample": true, "temperature": 0.7, "top_k": 20,
  "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1, "eos_token_id": [1, 2], "num_beams": 1})";

const std::string kMetrics =
    R"({"start": {"time": 1700000000, "version": "0.1.0", "from_step": 0, "ranks": 2, )"
    R"("facts": {"lr": 0.1, "name": "<b>"}}})"
    "\n"
    R"({"step": 1, "samples": 12, "epoch": 0.5, "loss": 2.25, "lr": 1e-3, "grad_norm": 1.5, )"
    R"("tokens": 256, "phases": {"forward": 59.5, "data": 0.25}, "skipped": true, "eval_loss": 2})"
    "\n"
    R"({"step": 2, "loss": 3, "phases": {"forward": 9}, "tokens_per_second": 0.1, "time": 17e8})"
    "\n";

const std::string kTrace = R"({"traceEvents": [
{"name": "step", "cat": "step", "ph": "X", "pid": 0, "ts": 100, "dur": 100, "args": {"step": 4}},
{"name": "forward", "cat": "instruction", "ph": "X", "pid": 0, "ts": 110, "dur": 30,
 "args": {"micro": 0, "unit": 1}},
{"name": "backward", "cat": "instruction", "ph": "X", "pid": 0, "ts": 140, "dur": 50,
 "args": {"micro": 0, "unit": 1}},
{"name": "backward_input", "cat": "part", "ph": "X", "pid": 0, "ts": 140, "dur": 20,
 "args": {"micro": 0, "unit": 1}},
{"name": "backward_weight", "cat": "part", "ph": "X", "pid": 0, "ts": 160, "dur": 20,
 "args": {"micro": 0, "unit": 1}},
{"name": "loss", "cat": "instruction", "ph": "X", "pid": 0, "ts": 191, "dur": 5,
 "args": {"micro": 0, "unit": 2}},
{"name": "all_reduce", "cat": "collective", "ph": "X", "pid": 0, "ts": 150, "dur": 9}],
"otherData": {"prediction": {"schedule": "1f1b", "unit": "ms", "micros": 1, "data_ranks": 1,
"chunk_of_unit": [0, 0], "ranks": [[["forward", 0, 1, 0, 3], ["backward", 0, 1, 3, 9]]]}}})";

void make_page(const fs::path& folder) {
  const report::Metrics metrics = report::read_metrics((folder / "metrics.jsonl").string());
  const report::TraceStep trace = report::read_trace_step((folder / "trace.json").string());
  report::page(metrics, &trace, {.run = "r", .program = "p", .now = 1});
  report::unit_times(trace, "trace.json");
}

// The ring of a rank that waits, cut to few records: a file says how many it has.
std::string black_box(int rank) {
  constexpr std::uint32_t kRecords = 24;
  const testing::ScratchFolder scratch;
  core::BlackBox box(rank);
  box.name_ops({{"F", "forward"}, {"R", "reduce"}});
  box.name_units({"embedding", "layers.0", "head"});
  const int group = box.add_group("dp", {0, 1}, rank);
  box.keep_in(scratch.path() / "one.ring", {.run = "r", .world_rank = rank, .world_size = 2});
  for (int step = 1; step < 5; ++step) {
    box.begin_phase(core::RunPhase::kStep, step);
    box.begin_instruction(1, 0, 1);
    box.done(box.begin_verb({.verb = core::BoxVerb::kAllGather, .group = group}));
  }
  box.begin_verb({.verb = core::BoxVerb::kReceive, .group = group, .partner = 1 - rank});
  std::string file = testing::file_content(scratch.path() / "one.ring");
  std::memcpy(file.data() + offsetof(core::BoxHeader, records), &kRecords, sizeof(kRecords));
  return file.substr(0, core::kBoxRecordsAt + kRecords * sizeof(core::BoxWords));
}

void read_black_boxes(const fs::path& folder) {
  blackbox::RingFolder rings = blackbox::read_rings(folder, false);
  std::vector<blackbox::ProcessLife> lives;
  for (const blackbox::RingFile& ring : rings.rings) lives.push_back(blackbox::life_of(ring));
  const auto report = blackbox::crash_report(std::move(rings), std::move(lives));
  blackbox::report_text(report, 8);
  blackbox::report_json(report, 8);
}

constexpr const char* kSeal = ",\"crc32c\":\"";

// Without its last field, which seals it: damage that has a seal is read.
std::string manifest() {
  checkpoint::Manifest all;
  all.tag = "global_step4";
  all.step = 4;
  all.files = {{"a.safetensors", core::Bytes(80), core::Bytes(16)}};
  all.ranges = {{.offset = 16, .bytes = 64, .crc = 7}};
  all.state_bytes = core::Bytes(9);
  const std::string sealed = checkpoint::manifest_text(all);
  return sealed.substr(0, sealed.rfind(kSeal)) + "}";
}

void read_manifest(const fs::path& folder) {
  std::string text = testing::file_content(folder / "MANIFEST.json");
  if (text.ends_with('}')) {
    text.pop_back();
    text += kSeal + checkpoint::hex_of(core::crc32c(text)) + "\"}";
  }
  checkpoint::parse_manifest(text, "MANIFEST.json");
}

std::vector<Reader> tokenizer_readers() {
  const SeedFile vocab{"vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4})",
                       Kind::kJson};
  const SeedFile merges{"merges.txt", "#version: 0.2\na b\n\u0120 a\n", Kind::kText};
  const SeedFile config{"tokenizer_config.json",
                        R"({"tokenizer_class": "GPT2Tokenizer", "eos_token": {"content": "</s>",
    "lstrip": false}, "bos_token": "<s>", "unk_token": null, "add_bos_token": true,
    "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}", "legacy": false,
    "added_tokens_decoder": {"5": {"content": "</s>", "special": true}, "6": {"content": "<s>"}}})",
                        Kind::kJson};
  return {
      {"tokenizer.json", tokenizer_jsons(), use_tokenizer},
      {"patterns", pattern_jsons(), use_patterns, {}, Packed::kNot, true},
      {"tokenizer.model",
       {{{"tokenizer.model", tokenizer::small_model(1)}},
        {{"tokenizer.model", tokenizer::small_model(2)}, config}},
       use_tokenizer},
      {"vocab and merges", {{vocab, merges}, {vocab, merges, config}}, use_tokenizer},
      {"tokenizer_config.json",
       {{{"tokenizer.json", prepare::small_tokenizer(), Kind::kJson, true}, config}},
       use_tokenizer},
  };
}

// The built-in tokenizer of bytes, and a template.
std::vector<SeedFile> prompt_folder(const std::string& name, const std::string& text, Kind kind) {
  return {{"tokenizer.json", checkpoint::byte_tokenizer_json(), Kind::kJson, true},
          {"tokenizer_config.json", checkpoint::byte_tokenizer_config_json(), Kind::kJson, true},
          {"chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}",
           Kind::kTemplate, true},
          {name, text, kind}};
}

void read_prompt_file(const fs::path& folder) {
  const engine::ModelText text(folder, 300);
  for (const char* const name : {"prompts.jsonl", "prompts.txt"}) {
    if (!fs::exists(folder / name)) continue;
    engine::read_prompts({.path = (folder / name).string(), .most_ids = 128}, text);
  }
}

std::string text_in(const fs::path& file) {
  return core::read_small_file(file, core::kMostConfig).text;
}

std::vector<Reader> launch_readers() {
  return {{"hostfile",
           {{{"hosts", "w0 slots=2\n\n# none\nw1 slots=4 # big\n"}}},
           [](const fs::path& folder) { launch::hosts_in(text_in(folder / "hosts"), "hosts"); }},
          {".deepspeed_env",
           {{{"env", "# none\nA=1\nB=\"two words\"\nC='x'\n"}}},
           [](const fs::path& folder) { launch::variables_in(text_in(folder / "env"), "env"); }}};
}

}  // namespace

std::vector<Reader> model_readers() {
  const std::string index =
      R"({"metadata": {"total_size": 32}, "weight_map": {"a": "p-1.safetensors",)"
      R"( "b": "p-1.safetensors"}})";
  const auto path = [](const fs::path& folder, const char* name) {
    return (folder / name).string();
  };
  engine::ProgressState state;
  state.run.model = state.run.optimization = "{}";
  std::vector<Reader> all = tokenizer_readers();
  std::vector<Reader> more = {
      {"safetensors", {{{"model.safetensors", safetensors()}}}, read_weights},
      {"weight index",
       {{{"model.safetensors.index.json", index, Kind::kJson}, {"p-1.safetensors", safetensors()}}},
       read_weights},
      {"torch.save", {{{"pytorch_model.bin", torch_file()}}}, read_weights},
      {"config.json",
       config_jsons(),
       [](const fs::path& folder) { model::open_model(folder / "config.json", {}); },
       {25}},
      {"adapter_config.json",
       {{{"adapter_config.json", kAdapter, Kind::kJson}}},
       [](const fs::path& folder) { cli::read_adapter(folder.string()); }},
      {"generation_config.json",
       {{{"generation_config.json", kGeneration, Kind::kJson}}},
       [](const fs::path& folder) {
         engine::choose_sampling(folder, {});
         engine::end_ids(folder);
       }},
      {"prompts",
       {prompt_folder("prompts.jsonl",
                      "{\"prompt\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": "
                      "\"b\"}]}\n",
                      Kind::kJsonLines),
        prompt_folder("prompts.txt", "a word\nand \u00e9\n", Kind::kText)},
       read_prompt_file},
      {"metrics.jsonl and trace",
       {{{"metrics.jsonl", kMetrics, Kind::kJsonLines}, {"trace.json", kTrace, Kind::kJson}}},
       make_page},
      {"black boxes",
       {{{"rank00000.ring", black_box(0)}, {"rank00001.ring", black_box(1)}}},
       read_black_boxes},
      {"DeepSpeed JSON",
       {{{"ds.json", kDeepSpeed, Kind::kJson}}},
       [=](const fs::path& folder) {
         const std::vector<std::string> words = {"--deepspeed_config", path(folder, "ds.json"),
                                                 "--model_config",     "m.json",
                                                 "--data_path",        "d.jsonl"};
         cli::parse_command(words);
       }},
      {"manifest", {{{"MANIFEST.json", manifest(), Kind::kJson}}}, read_manifest, {12}},
      {"state.json",
       {{{"state.json", engine::to_json(state), Kind::kJson}}},
       [=](const fs::path& folder) {
         const std::string text = testing::file_content(folder / "state.json");
         engine::progress_from_json(text);
       },
       {12}},
  };
  std::ranges::move(more, std::back_inserter(all));
  std::ranges::move(launch_readers(), std::back_inserter(all));
  return all;
}

}  // namespace fm::faults
