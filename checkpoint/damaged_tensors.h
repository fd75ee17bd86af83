// Which tensors lie in the damaged part of a file, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace fm::checkpoint {

// "tensor a, elements [0, 7) of shape [7], " of bytes [begin, end) of a file of safetensors; "" in
// its header, or where nobody can tell.
std::string damaged_tensors(const std::string& path, std::int64_t begin, std::int64_t end);

}  // namespace fm::checkpoint
