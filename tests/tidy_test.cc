// The laws of CONTRIBUTING.md, applied to every file of the repository. This file is the one home
// of the include matrix, of the files that may name LibTorch, and of the caps on size.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/tidy/documents.h"
#include "tests/tidy/laws.h"
#include "tests/tidy/type_names.h"

namespace fm::tidy {

namespace {

namespace fs = std::filesystem;

const std::set<std::string> kBelowEngine = {"core",  "kernels",  "comm",       "machine",
                                            "text",  "pipeline", "offload",    "optim",
                                            "model", "zero",     "checkpoint", "observe"};

std::set<std::string> everything_below_cli() {
  std::set<std::string> folders = kBelowEngine;
  folders.insert({"engine", "device", "launch", "cli/flags", "cli/foreign", "cli/deepspeed"});
  return folders;
}

const Limits kLimits = {
    .function_lines = 70,
    .source_lines = 600,
    .header_lines = 200,
    .columns = 100,
    .may_include =
        {
            {"core", {}},
            {"core/files", {}},
            {"core/blackbox", {"core/files"}},
            {"kernels", {"core"}},
            {"kernels/pointwise", {}},
            {"kernels/gemm", {"kernels/pointwise"}},
            {"kernels/attention", {"kernels/gemm"}},
            {"kernels/variants", {"kernels/pointwise", "kernels/gemm", "kernels/attention"}},
            {"kernels/cuda",
             {"kernels/pointwise", "kernels/gemm", "kernels/attention", "kernels/variants"}},
            {"comm", {"core", "kernels"}},
            {"comm/wire", {}},
            {"comm/verbs", {"comm/wire"}},
            {"comm/shm", {"comm/wire", "comm/verbs"}},
            {"comm/levels", {"comm/wire", "comm/verbs", "comm/shm"}},
            {"comm/staged", {}},
            {"comm/nccl", {"comm/staged", "comm/wire"}},
            {"comm/meet", {"comm/wire", "comm/verbs", "comm/shm", "comm/levels"}},
            {"device", {"core", "kernels"}},
            {"device/fake", {}},
            {"device/cuda", {}},
            {"machine", {"core", "comm"}},
            {"text", {"core", "comm"}},
            {"text/jinja", {}},
            {"text/chat", {"text/jinja"}},
            {"text/data", {}},
            {"text/tokenizer", {}},
            {"text/prepare", {"text/chat", "text/data", "text/jinja", "text/tokenizer"}},
            {"observe", {"core"}},
            {"observe/blackbox", {}},
            {"observe/monitor", {}},
            {"observe/report", {}},
            {"optim", {"core", "kernels"}},
            {"pipeline", {"core"}},
            {"pipeline/schedules", {}},
            {"model", {"core", "kernels", "comm"}},
            {"model/families", {}},
            {"model/attention", {"model/families"}},
            {"model/units", {"model/families", "model/attention"}},
            {"offload", {"core", "pipeline"}},
            {"offload/disk", {}},
            {"zero", {"core", "kernels", "comm", "optim", "pipeline", "offload"}},
            {"checkpoint", {"core", "comm"}},
            {"engine", kBelowEngine},
            {"engine/plan", {}},
            {"engine/step", {"engine/plan"}},
            {"engine/state", {"engine/plan", "engine/step"}},
            {"engine/shown", {"engine/plan", "engine/step", "engine/state"}},
            {"engine/run", {"engine/plan", "engine/step", "engine/state", "engine/shown"}},
            {"engine/infer", {"engine/plan", "engine/step", "engine/state", "engine/shown"}},
            {"launch", {"core", "comm"}},
            {"cli", everything_below_cli()},
            {"cli/deepspeed", {}},
            {"cli/foreign", {"cli/deepspeed"}},
            {"cli/flags", {"cli/deepspeed", "cli/foreign"}},
        },
    .faces =
        {
            {"comm",
             {"comm/meet/launch_info.h", "comm/meet/whereabouts.h", "comm/meet/world.h",
              "comm/nccl/nccl.h", "comm/staged/staged.h", "comm/wire/watchdog.h"}},
            {"device", {"device/fake/fake_device.h"}},
            {"engine",
             {"engine/infer/generate.h", "engine/plan/batch_triad.h", "engine/plan/choose_rows.h",
              "engine/plan/device_cards.h", "engine/plan/run_model.h", "engine/plan/run_tokens.h",
              "engine/run/run_data.h", "engine/run/run_text.h", "engine/run/trainer.h",
              "engine/shown/folder_notes.h", "engine/shown/grace.h", "engine/shown/plan.h",
              "engine/shown/plan_drives.h", "engine/state/export_checkpoint.h",
              "engine/step/rank_device.h"}},
            {"model", {"kernels/attention/attention.h", "model/units/lora.h"}},
            {"observe",
             {"observe/blackbox/crash_report.h", "observe/blackbox/divergence.h",
              "observe/blackbox/ring_file.h", "observe/monitor/monitor.h",
              "observe/report/comparison.h", "observe/report/metrics.h", "observe/report/page.h",
              "observe/report/pipe_picture.h", "observe/report/summary.h",
              "observe/report/trace_step.h"}},
            {"text",
             {"text/chat/answers.h", "text/chat/conversation.h", "text/chat/model_folder.h",
              "text/data/array_lines.h", "text/data/batch_stream.h", "text/data/data_paths.h",
              "text/data/sample_source.h", "text/jinja/code_points.h", "text/jinja/json_text.h",
              "text/prepare/answer_rows.h", "text/prepare/extended_folder.h",
              "text/prepare/line_batches.h", "text/prepare/text_recipe.h",
              "text/prepare/write_tokens.h", "text/tokenizer/extra_tokens.h",
              "text/tokenizer/tokenizer.h"}},
        },
    .halls = {"text", "observe"},
    .may_name_torch = {"comm/meet/tcp_store_torch.cc"},
    // The heap of a process; the fault registry; the one world of a process (MPI_Init allows only
    // one); who records a thread's trace, which kernels at the bottom must know; what a thread's
    // rendering may still cost, which every operation on values counts; what the handler of a
    // signal may read; the card that CUDA has set for a thread; where cuDNN's front end looks for
    // its functions.
    .may_have_state = {"core/buffer.cc", "core/fault.cc", "comm/meet/world.cc", "core/trace.h",
                       "text/jinja/work_limit.h", "core/files/cut_guard.cc",
                       "device/cuda/cuda_queue.cc", "device/cuda/cudnn.cc"},
    // The faults `exit` and `kill`; a lost peer, while main waits inside a library; a child that
    // becomes no program.
    .may_end_process = {"core/fault.cc", "core/process.cc", "comm/meet/world.cc",
                        "core/children.cc"},
    .know_no_family = {"checkpoint", "cli", "comm", "core", "engine", "kernels", "machine",
                       "observe", "offload", "optim", "pipeline", "text/chat", "text/data",
                       "text/jinja", "text/prepare", "zero"},
    .families = {"llama",    "mistral", "ministral",  "qwen2",    "qwen3",   "phi3",
                 "gemma",    "olmo2",   "olmo3",      "smollm3",  "granite", "glm4",
                 "seed_oss", "exaone4", "starcoder2", "stablelm", "cohere",  "falcon",
                 "gpt_neox", "gptj",    "gpt2"},
    .declare_kernels = {"kernels/attention/attention.h", "kernels/attention/attention_cached.h",
                        "kernels/attention/partial_softmax.h", "kernels/dropout.h",
                        "kernels/gemm/gemm.h", "kernels/pointwise/activations.h",
                        "kernels/pointwise/biases.h", "kernels/pointwise/cross_entropy.h",
                        "kernels/pointwise/elements.h", "kernels/pointwise/heads.h",
                        "kernels/pointwise/layernorm.h", "kernels/pointwise/moves.h",
                        "kernels/pointwise/muon.h", "kernels/pointwise/optimizers.h",
                        "kernels/pointwise/rmsnorm.h", "kernels/pointwise/rope.h",
                        "kernels/pointwise/split_norm.h", "kernels/pointwise/sums.h",
                        "kernels/pointwise/swiglu.h"},
    .library_prefixes = {"nlohmann/", "spdlog/", "fmt/", "ATen/", "torch/", "c10/", "dnnl", "mpi.h",
                         "cublasLt", "cuda_", "nccl", "liburing"},
    .stand_for_libraries = {"comm/nccl/nccl_library.h", "comm/wire/late_mpi.h",
                            "device/cuda/cuda_call.h", "device/cuda/cuda_queue.h",
                            "kernels/cuda/launch.h", "tests/on_device/on_card.h"},
};

// Sources that are declared in a header of another name, and why.
const std::map<std::string, std::string> kBehindAnotherHeader = {
    // A block of the JSON each.
    {"cli/deepspeed/ds_between_hosts.cc", "cli/deepspeed/ds_config.h"},
    {"cli/deepspeed/ds_optimizer.cc", "cli/deepspeed/ds_config.h"},
    {"cli/deepspeed/ds_scheduler.cc", "cli/deepspeed/ds_config.h"},
    {"cli/deepspeed/config_text.cc", "cli/deepspeed/hjson.h"},
    {"cli/deepspeed/decay_style.cc", "cli/deepspeed/trainer_arguments.h"},
    // The names of one program each.
    {"cli/foreign/axolotl_keys.cc", "cli/foreign/foreign_keys.h"},
    {"cli/foreign/factory_keys.cc", "cli/foreign/foreign_keys.h"},
    {"cli/foreign/parallel_keys.cc", "cli/foreign/foreign_keys.h"},
    {"cli/foreign/trainer_keys.cc", "cli/foreign/foreign_keys.h"},
    // CUDA devices and their twin.
    {"device/cuda/open_cuda.cc", "device/cuda.h"},
    {"device/no_cuda.cc", "device/cuda.h"},
    {"device/cuda/no_cudnn.cc", "device/cuda/cudnn.h"},
    {"cli/no_card_link.cc", "cli/card_link.h"},
    // One way each to be a world, of what the header offers.
    {"comm/meet/thread_world.cc", "comm/meet/world.h"},
    {"comm/meet/tcp_store_torch.cc", "comm/meet/rendezvous.h"},
    {"comm/wire/mpi_fabric.cc", "comm/wire/fabrics.h"},
    // Alternatives among which a table chooses; most are compiled once per instruction set.
    {"kernels/attention/forward.cc", "kernels/attention/paths.h"},
    {"kernels/attention/backward.cc", "kernels/attention/paths.h"},
    {"kernels/attention/amx_forward.cc", "kernels/attention/paths.h"},
    {"kernels/attention/amx_backward.cc", "kernels/attention/paths.h"},
    {"kernels/gemm/amx.cc", "kernels/gemm/libraries.h"},
    {"kernels/gemm/converted.cc", "kernels/gemm/libraries.h"},
    {"kernels/gemm/onednn.cc", "kernels/gemm/libraries.h"},
    {"kernels/gemm/packed.cc", "kernels/gemm/libraries.h"},
    {"kernels/gemm/packed_product.cc", "kernels/gemm/libraries.h"},
    {"kernels/gemm/plain.cc", "kernels/gemm/libraries.h"},
    {"kernels/gemm/few_rows_tile.cc", "kernels/gemm/few_rows.h"},
    {"kernels/variants/candidates_baseline.cc", "kernels/variants/variant.h"},
    {"kernels/variants/candidates_x86.cc", "kernels/variants/variant.h"},
    {"kernels/variants/variant_table.cc", "kernels/variants/variant.h"},
    {"kernels/variants/dispatch_elements.cc", "kernels/variants/dispatch.h"},
    {"kernels/variants/dispatch_fused.cc", "kernels/variants/dispatch.h"},
    {"kernels/variants/dispatch_products.cc", "kernels/variants/dispatch.h"},
    {"device/fake/fake_products.cc", "device/fake/fake_kernels.h"},
    {"device/fake/no_products.cc", "device/fake/fake_kernels.h"},
    // What a store on drives is, behind the store that others see; two ways to talk to the system.
    {"offload/disk/disk_problems.cc", "offload/disk_store.h"},
    {"offload/disk/measure_rates.cc", "offload/disk_store.h"},
    {"offload/disk/open_disk.cc", "offload/disk_store.h"},
    {"offload/disk/no_uring.cc", "offload/disk/disk_engine.h"},
    {"offload/disk/thread_engine.cc", "offload/disk/disk_engine.h"},
    {"offload/disk/uring_engine.cc", "offload/disk/disk_engine.h"},
    // More than 600 lines together.
    {"engine/step/speculative_steps.cc", "engine/step/step_runtime.h"},
    {"engine/step/tile_steps.cc", "engine/step/step_runtime.h"},
    {"model/units/block_backward.cc", "model/units/block.h"},
    // A table of its own: the schedules of Hugging Face's Trainer.
    {"optim/trainer_schedules.cc", "optim/lr_schedule.h"},
    // Parts that know a format, behind what opens any.
    {"text/data/jsonl.cc", "text/data/documents.h"},
    {"text/data/jsonl_fields.cc", "text/data/documents.h"},
    {"text/data/open_source.cc", "text/data/sample_source.h"},
};

const DocumentLimits kDocumentLimits = {.columns = 100, .paragraph_words = 90};
// First folders of paths that a build or a run makes.
const std::set<std::string> kMade = {"build", "output", "demo"};
// Reports of measurements are written by benchmarks/compare.py and stay as they were written.
const std::string kReports = "benchmarks/reports/";

const fs::path kRoot = FM_SOURCE_ROOT;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool is_source(const fs::path& path) {
  const std::string suffix = path.extension().string();
  return suffix == ".cc" || suffix == ".h" || suffix == ".cu" || suffix == ".hpp";
}

std::vector<std::string> code_folders() {
  std::vector<std::string> folders = {"tests", "benchmarks"};
  for (const auto& [folder, unused] : kLimits.may_include) {
    if (folder.find('/') == folder.npos) folders.push_back(folder);
  }
  return folders;
}

// Paths relative to the root, sorted.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  if (!fs::exists(kRoot / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
    if (entry.is_regular_file())
      files.push_back(fs::relative(entry.path(), kRoot).generic_string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Every Markdown file of the repository.
std::vector<std::string> documents() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".md")) files.push_back(name);
    if (!entry.is_directory() || name.starts_with('.') || name.starts_with("build")) continue;
    if (kMade.contains(name)) continue;
    for (const std::string& path : files_below(name)) {
      if (path.ends_with(".md") && !path.starts_with(kReports)) files.push_back(path);
    }
  }
  return files;
}

// A path of a text at `path`, from the root or from the text's own folder.
bool exists_beside(const std::string& path, const std::string& named) {
  return fs::exists(kRoot / named) || fs::exists((kRoot / path).parent_path() / named);
}

void report(const std::string& path, const Findings& findings) {
  for (const Finding& finding : findings) {
    ADD_FAILURE() << path << ":" << finding.line << ": " << finding.law;
  }
}

TEST(Tidy, EverySourceObeysTheLaws) {
  int seen = 0;
  for (const std::string& folder : code_folders()) {
    for (const std::string& path : files_below(folder)) {
      if (!is_source(path)) continue;
      ++seen;
      const Source source(path, read_text(kRoot / path));
      report(path, all_laws(source, kLimits));
    }
  }
  EXPECT_GT(seen, 30) << "the walk must find the sources below " << kRoot;
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += "\n  " + name;
  return text;
}

// A name stands for two things at most, so that a reader who searches for it finds what is meant.
// Tests and benchmarks may use the names again.
TEST(Tidy, ATypeNameIsDeclaredForAtMostTwoThings) {
  Things things;
  for (const auto& [folder, unused] : kLimits.may_include) {
    if (folder.find('/') != folder.npos) continue;
    for (const std::string& path : files_below(folder)) {
      if (!is_source(path)) continue;
      const Source source(path, read_text(kRoot / path));
      for (const TypeDefinition& type : types_in(source)) things[type.name].insert(type.full_name);
    }
  }
  EXPECT_GT(things.size(), 300U);
  for (const auto& [name, meanings] : shared_names(things, 2)) {
    ADD_FAILURE() << "a type name is declared for at most two things: " << name << listed(meanings);
  }
}

TEST(Tidy, AHeaderNameIsThatOfAtMostTwoHeaders) {
  Things headers;
  for (const auto& [folder, unused] : kLimits.may_include) {
    if (folder.find('/') != folder.npos) continue;
    for (const std::string& path : files_below(folder)) {
      if (path.ends_with(".h")) headers[fs::path(path).filename()].insert(path);
    }
  }
  EXPECT_GT(headers.size(), 100U);
  for (const auto& [name, paths] : shared_names(headers, 2)) {
    ADD_FAILURE() << "a header's name is that of at most two headers: " << name << listed(paths);
  }
}

TEST(Tidy, ASourceHasItsHeader) {
  std::set<std::string> files;
  for (const auto& [folder, unused] : kLimits.may_include) {
    for (const std::string& path : files_below(folder)) files.insert(path);
  }
  EXPECT_GT(files.size(), 500U);
  for (const std::string& broken : without_header(files, kBehindAnotherHeader)) {
    ADD_FAILURE() << broken;
  }
}

TEST(Tidy, EverySourceIsInTheBuild) {
  std::map<std::string, std::vector<std::string>> files_of;  // folder with a list -> files below
  for (const std::string& folder : code_folders()) {
    for (const std::string& path : files_below(folder)) {
      fs::path lister = fs::path(path).parent_path();  // a wing's files are in its folder's list
      while (!fs::exists(kRoot / lister / "CMakeLists.txt")) lister = lister.parent_path();
      files_of[lister.generic_string()].push_back(
          fs::path(path).lexically_relative(lister).generic_string());
    }
  }
  for (const auto& [folder, files] : files_of) {
    std::string lists = read_text(kRoot / folder / "CMakeLists.txt");
    if (folder.starts_with("tests")) lists += read_text(kRoot / "tests/tidy.cmake");
    for (const std::string& file : not_built(files, lists)) {
      ADD_FAILURE() << folder << "/" << file << " is named by no CMakeLists.txt";
    }
  }
}

TEST(Tidy, NoFileNamesAPlace) {
  const std::set<std::string> kText = {".cc",   ".h",  ".cu",  ".py",   ".sh",
                                       ".json", ".md", ".txt", ".cmake"};
  std::vector<std::string> files = {"quickstart.sh", "test.sh", ".ci/run", "CMakeLists.txt"};
  std::vector<std::string> folders = code_folders();
  folders.insert(folders.end(), {"configs", "scripts", "cmake"});
  for (const std::string& folder : folders) {
    for (const std::string& path : files_below(folder)) {
      if (kText.contains(fs::path(path).extension().string())) files.push_back(path);
    }
  }
  for (const std::string& path : files) {
    const std::string text = read_text(kRoot / path);
    EXPECT_FALSE(text.empty() && !path.ends_with("CMakeLists.txt")) << path << " must exist";
    report(path, no_places(text));
  }
}

TEST(Tidy, EveryDocumentIsShortAndNamesWhatExists) {
  const std::vector<std::string> files = documents();
  EXPECT_GE(files.size(), 10U) << "the walk must find the documents below " << kRoot;
  for (const std::string& path : files) {
    const std::string text = read_text(kRoot / path);
    report(path, document_lengths(text, kDocumentLimits));
    report(path, no_places(text));
    report(path, named_paths(text, kMade,
                             [&](const std::string& named) { return exists_beside(path, named); }));
  }
}

TEST(Tidy, TheFrontDoorIsShort) {
  const auto lines = [](const char* path) {
    const std::string text = read_text(kRoot / path);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_LE(lines("README.md"), 120);
  EXPECT_LE(lines("ARCHITECTURE.md"), 200);
}

TEST(Tidy, SourcesCiteDocumentsThatExist) {
  int seen = 0;
  for (const std::string& folder : code_folders()) {
    for (const std::string& path : files_below(folder)) {
      if (!is_source(path) || path.starts_with("tests/tidy/")) continue;
      for (const Citation& at : cited_documents(read_text(kRoot / path))) {
        ++seen;
        const std::string where = path + ":" + std::to_string(at.line) + ": " + at.document;
        EXPECT_TRUE(exists_beside(path, at.document)) << where;
        if (at.section.empty()) continue;
        EXPECT_TRUE(has_heading(read_text(kRoot / at.document), at.section))
            << where << " has no section \"" << at.section << '"';
      }
    }
  }
  EXPECT_GT(seen, 5) << "comments cite documents as (docs/numbers.md, \"Order of sums\")";
}

// Starting, placing and restarting belong to the engines that exist.
TEST(Tidy, TheRoomOfLaunchersIsSmall) {
  int lines = 0;
  for (const std::string& path : files_below("launch")) {
    std::istringstream text(read_text(kRoot / path));
    for (std::string line; std::getline(text, line);) {
      const std::size_t begin = line.find_first_not_of(' ');
      lines += begin != line.npos && line.compare(begin, 2, "//") != 0 ? 1 : 0;
    }
  }
  EXPECT_GT(lines, 500);
  EXPECT_LE(lines, 1500) << "lines of code in launch/, without comments and blank ones";
}

TEST(Tidy, FoldersAndWingsIncludeNoneInACircle) {
  EXPECT_EQ(circle_in(kLimits.may_include), std::vector<std::string>{});
}

// Every folder with code is a row of the matrix, so that a new folder needs a decision.
TEST(Tidy, NoFolderOfCodeIsOutsideTheMatrix) {
  const std::vector<std::string> known = code_folders();
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || !fs::exists(entry.path() / "CMakeLists.txt")) continue;
    if (name.starts_with("build")) continue;
    EXPECT_NE(std::find(known.begin(), known.end(), name), known.end()) << name;
  }
}

}  // namespace

}  // namespace fm::tidy
