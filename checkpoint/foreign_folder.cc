#include "checkpoint/foreign_folder.h"

#include <algorithm>
#include <vector>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

class Listing {
 public:
  explicit Listing(const fs::path& folder) : folder_(folder) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
         at.increment(error)) {
      names_.push_back(at->path().filename().string());
    }
  }
  bool has(const std::string& name) const {
    return std::ranges::find(names_, name) != names_.end();
  }
  // A file of the model that git-lfs has not fetched: a few lines of text that name its content.
  // Others may stay pointers: nobody reads them.
  std::string pointer() const {
    constexpr core::Bytes kMost(1024);  // of a pointer, by its specification
    for (const std::string& name : names_) {
      if (!is_read(name)) continue;
      const core::SmallFile file = core::read_small_file(folder_ / name, kMost);
      if (core::is_lfs_pointer(file.text)) return name;
    }
    return "";
  }
  // Of the folders checkpoint-N that Hugging Face's Trainer writes, the newest; "" without one.
  std::string last_checkpoint() const {
    std::string last;
    std::int64_t last_step = -1;
    for (const std::string& name : names_) {
      constexpr std::string_view kBegin = "checkpoint-";
      if (!name.starts_with(kBegin)) continue;
      const std::int64_t step = core::integer_of(name.substr(kBegin.size())).value_or(-1);
      if (step <= last_step) continue;
      last = name;
      last_step = step;
    }
    return last;
  }
  bool has_safetensors() const { return has(kWeightsFile) || has(kWeightsIndex); }
  // A whole model's weights in a form that we read.
  bool has_weights() const { return has_safetensors() || any("pytorch_model", ".bin"); }
  // A name that begins and ends so.
  bool any(const std::string& begin, const std::string& end) const {
    return std::ranges::any_of(names_, [&](const std::string& name) {
      return name.starts_with(begin) && name.ends_with(end);
    });
  }

 private:
  bool is_read(const std::string& name) const {
    if (name == "tokenizer.model") return !has("tokenizer.json");
    if (name.starts_with("pytorch_model") && name.ends_with(".bin")) return !has_safetensors();
    const bool part = name.starts_with("model-") && name.ends_with(".safetensors");
    return name == "tokenizer.json" || name == kWeightsFile || part;
  }

  fs::path folder_;
  std::vector<std::string> names_;
};

// "organisation/model" or "model", where no file or folder has such a path.
std::string hub_model(const std::string& name) {
  const bool path = name.empty() || name.front() == '/' || name.front() == '.' ||
                    name.front() == '~' || name.back() == '/' || std::ranges::count(name, '/') > 1;
  if (path) return "";
  return core::concat(name,
                      " is no folder; check the path, or, if it is a model of Hugging Face's ",
                      "hub, fetch it with hf download ", name, " --local-dir ",
                      name.substr(name.find('/') + 1), " and give that folder");
}

std::string foreign_file(const fs::path& file) {
  const std::string name = file.string();
  if (name.ends_with(".gguf")) {
    return core::concat(name,
                        " is a GGUF file, which is for inference; get the model as a Hugging ",
                        "Face folder of safetensors");
  }
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  return core::concat(name, " is a file, and a Hugging Face folder is required; give the folder ",
                      "with config.json and the weights: ", folder.string());
}

// A folder models--ORGANISATION--MODEL of the hub's cache has the model in snapshots/HASH.
std::string hub_cache(const fs::path& folder) {
  const core::SmallFile main = core::read_small_file(folder / "refs" / "main", core::Bytes(1024));
  fs::path snapshot = folder / "snapshots" / main.text.substr(0, main.text.find_first_of(" \r\n"));
  std::error_code error;
  if (main.text.empty() || !fs::is_directory(snapshot, error)) {
    snapshot = "";
    for (fs::directory_iterator at(folder / "snapshots", error), end; !error && at != end;
         at.increment(error)) {
      snapshot = std::max(snapshot, at->path());
    }
  }
  const std::string name = folder.string();
  if (snapshot.empty()) {
    return core::concat(
        name, " is a folder of the hub's cache without a snapshot; fetch the model ", "again");
  }
  return core::concat(
      name, " is a folder of the hub's cache; give the snapshot in it: ", snapshot.string());
}

}  // namespace

std::string foreign_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) return foreign_file(folder);
  if (!fs::exists(folder, error)) return hub_model(folder.string());
  const Listing here(folder);
  const std::string name = folder.string();
  if (here.has("snapshots") && (here.has("refs") || here.has("blobs"))) return hub_cache(folder);
  if (here.has("MANIFEST.json") && here.has("state.json")) {
    return core::concat(name, " is a checkpoint of fmengine; go on from it with --resume ", name,
                        ", or make a Hugging Face folder of it with fmengine-export ", name,
                        " FOLDER");
  }
  if (here.any("layer_", "-model_states.pt")) {
    return core::concat(name, " is a checkpoint of DeepSpeed's pipeline (layer_*.pt), as FMEngine ",
                        "writes it; convert it there to a Hugging Face folder of safetensors");
  }
  const bool states = here.any("mp_rank_", "_model_states.pt") ||
                      here.any("zero_pp_rank_", "_states.pt") ||
                      here.any("bf16_zero_pp_rank_", "_states.pt");
  const bool tagged = here.has("latest") && here.has("zero_to_fp32.py");
  if (states || tagged) {
    return core::concat(
        name, " is a DeepSpeed checkpoint; make weights of it with its own ", "zero_to_fp32.py ",
        tagged ? name : (folder / "..").lexically_normal().string(),
        " FOLDER --safe_serialization, and put the model's config.json beside them");
  }
  if (here.has("latest") && here.any("global_step", "")) {
    return core::concat(name, " is an output directory of fmengine; give its export, ", name,
                        "/hf, or go on with --output_dir ", name);
  }
  const std::string trainers = here.last_checkpoint();
  if (!here.has_weights() && !here.has("adapter_config.json") && !trainers.empty()) {
    return core::concat(name, " is an output directory of Hugging Face's Trainer without a final ",
                        "model; give a checkpoint in it: ", (folder / trainers).string());
  }
  if (!here.has_weights() && here.has("adapter_config.json")) {
    return core::concat(
        name, " is a PEFT adapter, not a whole model; give it as --adapter beside its base ",
        "model, or merge it into that first ",
        "(PeftModel.merge_and_unload(), then save_pretrained)");
  }
  if (!here.has_weights() && here.any("", ".gguf")) {
    return core::concat(name, " holds GGUF files, which are for inference; get the model as a ",
                        "Hugging Face folder of safetensors");
  }
  if (const std::string pointer = here.pointer(); !pointer.empty()) {
    return core::concat(name, " holds pointers of Git LFS instead of files (", pointer,
                        "); fetch these with git lfs pull there, or get the model again");
  }
  return "";
}

}  // namespace fm::checkpoint
