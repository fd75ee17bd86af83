#include "engine/export_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/train_checkpoint.h"
#include "comm/meet/world.h"
#include "core/check.h"
#include "core/files.h"
#include "core/text.h"
#include "engine/progress_state.h"

namespace fm::engine {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Elements;

constexpr const char* kDTypes = "fp32, bf16, fp16 or as_init";

// A tensor of a file, in memory while somebody looks at it.
class StoredSource : public core::TensorSource {
 public:
  StoredSource(const checkpoint::SafetensorsFile& file, core::TensorSlice whole)
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
  const checkpoint::SafetensorsFile& file_;
  core::TensorSlice whole_;
  std::vector<float> numbers_;
};

using Files = std::vector<std::unique_ptr<checkpoint::SafetensorsFile>>;

Files weights_of(const fs::path& checkpoint) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename().string().starts_with("weights-")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  Files files;
  for (const fs::path& path : paths) {
    files.push_back(std::make_unique<checkpoint::SafetensorsFile>(path.string()));
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

DType dtype_of(const std::string& asked, const std::string& config_json) {
  std::string name = core::lower(asked);
  if (name == "as_init") {
    const auto config = nlohmann::json::parse(config_json);
    const char* const key = config.contains("dtype") ? "dtype" : "torch_dtype";
    name =
        config.contains(key) && config[key].is_string() ? config[key].get<std::string>() : "fp32";
  }
  if (name == "fp32" || name == "float32") return DType::kF32;
  if (name == "bf16" || name == "bfloat16") return DType::kBF16;
  if (name == "fp16" || name == "float16") return DType::kF16;
  FM_USER_CHECK(false, "--dtype must be ", kDTypes, "; correct it (", asked, ")");
}

void check_whole(const ExportOptions& options, const ProgressState& state) {
  if (state.run.model.empty()) return;  // of an older build
  const bool partial = nlohmann::json::parse(state.run.model).contains("frozen weights");
  FM_USER_CHECK(!partial,
                "a checkpoint of a run that trained a part of the parameters holds that part alone;"
                " start the run's command again: with nothing left to train it exports (",
                options.checkpoint, ")");
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
  FM_DATA_CHECK(file.problem.empty() && nlohmann::json::accept(file.text), options.model_config,
                ": a config.json is required; get the file again (", file.problem, ")");
  return file.text;
}

}  // namespace

std::string export_checkpoint(const ExportOptions& options) {
  std::string done;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const auto found = checkpoint::find_checkpoint(options.checkpoint, checkpoint::Resume::kPath,
                                                   options.checkpoint, world);
    FM_CHECK(found, "a path names a checkpoint, or finding it throws");
    const ProgressState state = progress_from_json(found->state_json);
    check_whole(options, state);
    checkpoint::ExportRequest request;
    request.folder = options.out;
    request.config_json = config_of(options, state);
    request.dtype = dtype_of(options.dtype, request.config_json);
    request.byte_tokenizer = state.exports.byte_tokenizer;
    if (fs::exists(state.exports.tokenizer_from)) {
      request.tokenizer_from = state.exports.tokenizer_from;
    }
    const Files files = weights_of(found->folder);
    add_tensors(files, request);
    checkpoint::export_hf_folder(request, world);
    done = core::concat("exported step ", found->step, " of ", found->folder.string(), " as ",
                        core::name_of(request.dtype), ": ", options.out);
  });
  return done;
}

}  // namespace fm::engine
