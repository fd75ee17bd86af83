#include "engine/plan/adapter_file.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/torch_file.h"

namespace fm::engine {

namespace fs = std::filesystem;

checkpoint::TensorFile open_adapter(const std::string& folder) {
  const fs::path safe = fs::path(folder) / "adapter_model.safetensors";
  const fs::path torch = fs::path(folder) / "adapter_model.bin";
  if (fs::exists(safe) || !fs::exists(torch)) return checkpoint::TensorFile(safe.string());
  return checkpoint::TensorFile(torch.string(), checkpoint::parse_torch_file);
}

bool is_whole_vocabulary(const std::string& name) {
  constexpr const char* kEnds[] = {"embed_tokens.weight",    "lm_head.weight",  "wte.weight",
                                   "word_embeddings.weight", "embed_in.weight", "embed_out.weight"};
  return std::ranges::any_of(kEnds, [&](const char* end) { return name.ends_with(end); });
}

std::int64_t vocabulary_rows(const std::string& folder) {
  const checkpoint::TensorFile file = open_adapter(folder);
  std::int64_t rows = 0;
  for (const checkpoint::StoredTensor& tensor : file.header().tensors) {
    if (is_whole_vocabulary(tensor.name)) rows = std::max(rows, tensor.shape.at(0));
  }
  return rows;
}

}  // namespace fm::engine
