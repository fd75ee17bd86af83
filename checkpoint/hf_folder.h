// Hugging Face model folders: config.json, weights in one file or several with an index, and
// tokenizer files, those of the byte tokenizer among them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor_files.h"
#include "comm/communicator.h"

namespace fm::checkpoint {

// Where a folder has its weights: all in one file, or by an index of several.
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kWeightsIndex = "model.safetensors.index.json";

// Weights of a folder, opened and validated (every mapped file exists and holds its tensors).
// Errors are UserError (11) with the file's name.
class HfFolder {
 public:
  explicit HfFolder(const std::filesystem::path& folder);
  ~HfFolder();
  HfFolder(const HfFolder&) = delete;
  HfFolder& operator=(const HfFolder&) = delete;

  // From now on the tensor `stored`, which must be there, has another name.
  void rename(const std::string& stored, const std::string& name);
  // From now on `absent` reads `stored`, where the folder has only the latter.
  void stand_in(const std::string& stored, const std::string& absent);
  // From now on the tensor has `rows` rows where it has `stored` in the folder: each of the others
  // is their mean in fp64, summed in their order, as the mean of transformers'
  // resize_token_embeddings. A tensor of another shape is left as it is.
  void grow(const std::string& name, std::int64_t stored, std::int64_t rows);
  bool contains(const std::string& name) const;
  // Fills the slice, converting F32, F16, BF16 or F64 to fp32. The shape must match, and the
  // numbers of the slice must be finite.
  void read(const core::TensorSlice& slice) const;
  std::vector<std::string> names() const;
  // A tensor as it is stored; its bytes live as long as the folder.
  struct RawTensor {
    std::string dtype;  // of safetensors: "BF16"
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
  };
  RawTensor raw(const std::string& name) const;
  // Of the first tensor that is not of integers, as safetensors names it: "BF16".
  const std::string& stored_type() const;
  // Whether two of them are of one type, one shape, and the same bytes.
  bool same(const std::string& name, const std::string& other) const;

 private:
  struct Files;
  std::unique_ptr<Files> files_;
};

// Of any kind.
bool has_tokenizer(const std::filesystem::path& folder);
// True when the folder holds tokenizer files that are not fmengine's own byte tokenizer.
bool has_foreign_tokenizer(const std::filesystem::path& folder);

// True when the folder says that its tokenizer is fmengine's own, and it is. Throws UserError (11)
// naming tokenizer.json when it says so and it is not.
bool has_byte_tokenizer(const std::filesystem::path& folder);

// The built-in byte tokenizer (core/text.h) as the files that transformers and tokenizers
// load: a BPE model without merges over the byte-level alphabet, whose ids are the bytes.

// Says in tokenizer_config.json that the tokenizer is ours.
inline constexpr const char* kTokenizerMarker = "fmengine_tokenizer";

// Whether the text of a tokenizer.json gives every byte, bos, eos and pad the id that ours does,
// and joins no bytes. Other programs may have written it anew.
bool is_byte_tokenizer(std::string_view json);
std::string byte_tokenizer_json();          // tokenizer.json
std::string byte_tokenizer_config_json();   // tokenizer_config.json
std::string byte_generation_config_json();  // generation_config.json: bos, eos, pad

}  // namespace fm::checkpoint
