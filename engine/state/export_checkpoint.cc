#include "engine/state/export_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "comm/meet/world.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"
#include "engine/plan/export_dtype.h"
#include "engine/plan/part_start.h"
#include "engine/state/persistence.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Elements;

constexpr const char* kDTypes = "fp32, bf16, fp16 or as_init";

// A tensor of a file, in memory while somebody looks at it.
class StoredSource : public core::TensorSource {
 public:
  StoredSource(const checkpoint::TensorFile& file, core::TensorSlice whole)
      : file_(file), whole_(std::move(whole)) {}

  float* fetch(Elements first, Elements count) override {
    numbers_.resize(static_cast<std::size_t>(count.count()));
    file_.read(core::slice_in_memory(whole_.name, whole_.shape, first, numbers_.data(), count));
    return numbers_.data();
  }
  void drop(Elements /*first*/, Elements /*count*/, bool /*written*/) override {
    std::vector<float>().swap(numbers_);
  }

 private:
  const checkpoint::TensorFile& file_;
  core::TensorSlice whole_;
  std::vector<float> numbers_;
};

using Files = std::vector<std::unique_ptr<checkpoint::TensorFile>>;

Files weights_of(const fs::path& checkpoint) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename().string().starts_with("weights-")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Files files;
  for (const fs::path& path : paths) {
    files.push_back(std::make_unique<checkpoint::TensorFile>(path.string()));
  }
  return files;
}

void add_tensors(const Files& files, checkpoint::ExportRequest& request) {
  for (const auto& file : files) {
    for (const checkpoint::StoredTensor& tensor : file->header().tensors) {
      Elements count(1);
      for (const std::int64_t size : tensor.shape) count = count * size;
      core::TensorSlice slice =
          core::slice_in_memory(tensor.name, tensor.shape, Elements(0), nullptr, count);
      slice.source = std::make_shared<StoredSource>(*file, slice);
      request.tensors.push_back({tensor.name, tensor.shape});
      request.mine.push_back(std::move(slice));
    }
  }
}

DType dtype_of(const std::string& asked, const ExportFacts& about) {
  if (core::lower(asked) != "as_init") {
    const std::optional<DType> named = export_dtype_named(asked);
    FM_USER_CHECK(named, "--dtype must be ", kDTypes, "; correct it (", asked, ")");
    return *named;
  }
  const InitDType init = dtype_as_init(about.config_json, about.weights_from);
  FM_USER_CHECK(!init.lacks_weights,
                "--dtype as_init needs the weights that the run began with, as config.json does "
                "not say their type; put them back, or name a type with --dtype (",
                init.said, ")");
  FM_USER_CHECK(init.dtype,
                "--dtype as_init takes the type of the model's config.json, or of the weights that "
                "the run began with, which must be float32 (F32), bfloat16 (BF16) or float16 "
                "(F16); name a type with --dtype (",
                init.said, ")");
  return *init.dtype;
}

// The fingerprint of what the run did not train, "" where the checkpoint holds all weights.
std::string frozen_weights_of(const ProgressState& state) {
  if (state.run.model.empty()) return "";  // of an older build
  return nlohmann::json::parse(state.run.model).value("frozen weights", "");
}

// A checkpoint that holds the trained part alone: the rest is filled as the run filled it.
void export_part(const ExportOptions& options, const ProgressState& progress,
                 const checkpoint::FoundCheckpoint& found, const ExportTarget& target,
                 comm::Communicator& world) {
  FM_USER_CHECK(
      !progress.exports.start.empty(),
      "the checkpoint holds the part of the weights that was trained, and is of a build "
      "that did not say how the run began; start the run's command again, which exports (",
      options.checkpoint, ")");
  const TrainOptions run = options_of_start(progress.exports.start);
  const model::OpenedModel opened = open_run_model(run);
  const RunPlan plan = make_run_plan(run, opened.model, shape_of(run, world));
  core::Ledger ledger;
  RankState state(run, plan, opened.model, world, ledger);
  fill_state(run, opened, state);
  const std::string expected = frozen_weights_of(progress);
  const std::string seen = fingerprint_of_frozen(state);
  FM_USER_CHECK(seen == expected,
                "the weights that the run began with must be as they were; put them back (",
                run.init_ckpt.empty() ? run.model_config : run.init_ckpt, ", fingerprint ", seen,
                ", then ", expected, ")");
  load_weights(found, run, state);
  export_model(run, opened.facts, state, target);
}

std::string config_of(const ExportOptions& options, const ProgressState& state) {
  if (options.model_config.empty()) {
    FM_USER_CHECK(!state.exports.config_json.empty(),
                  "the checkpoint is of a build that kept no config.json; name the model's with "
                  "--model_config FILE (",
                  options.checkpoint, ")");
    return state.exports.config_json;
  }
  const core::SmallFile file = core::read_small_file(options.model_config, core::kMostConfig);
  FM_DATA_CHECK(
      file.problem.empty() && core::is_shallow(file.text) && nlohmann::json::accept(file.text),
      options.model_config, ": a config.json is required; get the file again (", file.problem, ")");
  return file.text;
}

// A checkpoint may outlive the files of its run. Returns what is told about those that are gone.
std::string drop_lost(ExportFacts& about) {
  std::string told;
  for (std::string* const path : {&about.tokenizer_from, &about.chat_template}) {
    if (path->empty() || fs::exists(*path)) continue;
    told += core::concat("\nwithout the run's ",
                         path == &about.tokenizer_from ? "tokenizer" : "chat template",
                         ", which is gone; copy it into the folder (", *path, ")");
    path->clear();
  }
  return told;
}

}  // namespace

std::string export_checkpoint(const ExportOptions& options) {
  checkpoint::check_export_folder(fs::absolute(fs::path(options.out) / "").parent_path());
  std::string done;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const auto found = checkpoint::find_checkpoint(options.checkpoint, checkpoint::Resume::kPath,
                                                   options.checkpoint, world);
    FM_CHECK(found, "a path names a checkpoint, or finding it throws");
    const ProgressState state = progress_from_json(found->state_json);
    checkpoint::ExportRequest request;
    request.folder = options.out;
    request.config_json = config_of(options, state);
    request.stop = options.stop;
    ExportFacts about = state.exports;
    about.config_json = request.config_json;
    request.dtype = dtype_of(options.dtype, about);
    const std::string lost = drop_lost(about);
    put_tokenizer(about, request);
    request.shards_like = about.weights_from;
    if (frozen_weights_of(state).empty()) {
      const Files files = weights_of(found->folder);
      add_tensors(files, request);
      put_in_whole(about, request);
      checkpoint::export_hf_folder(request, world);
    } else {
      const ExportTarget target{.hf = options.out,
                                .adapter = fs::path(options.out) / "adapter",
                                .about = about,
                                .dtype = request.dtype,
                                .stop = options.stop};
      export_part(options, state, *found, target, world);
    }
    done = core::concat("exported step ", found->step, " of ", found->folder.string(), " as ",
                        core::name_of(request.dtype), ": ", options.out, lost);
  });
  return done;
}

}  // namespace fm::engine
