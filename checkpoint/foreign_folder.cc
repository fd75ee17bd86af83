#include "checkpoint/foreign_folder.h"

#include <algorithm>
#include <vector>

#include "checkpoint/hf_folder.h"
#include "core/check.h"
#include "core/files/files.h"

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

}  // namespace

std::string foreign_folder(const fs::path& folder) {
  const Listing here(folder);
  const std::string name = folder.string();
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
