#include "checkpoint/damaged_tensors.h"

#include <algorithm>
#include <optional>

#include "checkpoint/safetensors_file.h"
#include "comm/agree.h"
#include "core/check.h"

namespace fm::checkpoint {

std::string damaged_tensors(const std::string& path, std::int64_t begin, std::int64_t end) {
  std::optional<TensorFile> file;
  comm::attempt([&] { file.emplace(path); });
  if (!file) return "";
  std::string text;
  std::int64_t more = 0;
  for (const StoredTensor& tensor : file->header().tensors) {
    const std::int64_t from = std::max(tensor.begin.count(), begin) - tensor.begin.count();
    const std::int64_t to = std::min(tensor.end.count(), end) - tensor.begin.count();
    if (from >= to) continue;
    if (!text.empty()) {
      ++more;
      continue;
    }
    const auto bits = static_cast<std::int64_t>(kStoredTypes[rank_of_type(tensor.dtype)].bits);
    text = core::concat("tensor ", tensor.name, ", elements [", from * 8 / bits, ", ",
                        (to * 8 + bits - 1) / bits, ") of shape ", shape_text(tensor.shape));
  }
  if (more > 0) text += core::concat(" and ", more, " more");
  return text.empty() ? "" : text + ", ";
}

}  // namespace fm::checkpoint
