// Hugging Face folders out: what transformers' from_pretrained and peft load.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/output_fence.h"
#include "checkpoint/tensor_files.h"
#include "comm/communicator.h"
#include "core/files/file_texts.h"
#include "core/types.h"

namespace fm::checkpoint {

struct ExportRequest {
  // A model: config.json and model*.safetensors; an adapter of one, for peft: adapter_config.json
  // and adapter_model.safetensors.
  enum class Content : std::uint8_t { kModel, kAdapter };
  Content kind = Content::kModel;
  std::filesystem::path folder;               // made if missing; temporary name, then renamed
  std::string config_json;                    // its text; the dtype of a model's will be `dtype`
  std::vector<TensorSpec> tensors = {};       // all tensors in model order, tied ones once
  std::vector<core::TensorSlice> mine = {};   // what this rank writes
  std::filesystem::path tokenizer_from = {};  // copy its tokenizer files
  core::FileTexts tokenizer_texts = {};       // of files of that folder that get another text
  std::filesystem::path chat_template = {};   // instead of the tokenizer's chat_template.jinja
  bool byte_tokenizer = true;                 // where there are none to copy, write its files
  core::DType dtype = core::DType::kF32;      // of the stored weights: kF32, kBF16, kF16
  // A Hugging Face folder: a model with its tensors has its files. Elsewhere the limit counts.
  std::filesystem::path shards_like = {};
  core::Bytes shard_limit = core::Bytes(5'000'000'000);
  // Tensors of that folder that are copied as they are, into a file of their own.
  std::filesystem::path carried_from = {};
  struct Carried {
    std::string stored;  // there
    std::string name;    // here
  };
  std::vector<Carried> carried = {};  // the same on all ranks
  // One rank alone: whether the work shall end, asked between tensors.
  std::function<bool()> stop = {};
  OutputFence fence = {};  // of a run's own folder: asked before every write
};

// In every export: the list of its files. A folder that holds exactly these is ours to replace.
inline constexpr const char* kExportMarker = "fmengine_export.json";

// Throws UserError (10) where the name is taken by something else than an export of ours or an
// empty folder: a file, a link, a device, a folder that somebody added to.
void check_export_folder(const std::filesystem::path& folder);

// Collective. Writes what transformers' from_pretrained loads. An older export of ours in its place
// is deleted, anything else refused as by check_export_folder. Stopped, it leaves nothing and
// throws MachineError (75).
void export_hf_folder(const ExportRequest& request, comm::Communicator& world);

}  // namespace fm::checkpoint
