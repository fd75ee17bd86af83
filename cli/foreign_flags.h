// Flags of Megatron-LM, torchtitan, nanotron and picotron for what fmengine calls by another name.
#pragma once

#include <string>
#include <string_view>

namespace fm::cli {

// What to write for such a flag (with underscores), as "use --pipe_parallel_size"; "" for others.
// torchtitan's sections, as parallelism., may stand before it.
std::string advice_on_foreign_flag(std::string_view name);

}  // namespace fm::cli
