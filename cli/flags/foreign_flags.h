// Flags that people bring from other programs: Megatron-LM, torchtitan, nanotron, picotron, Hugging
// Face's Trainer and its example scripts, TRL, axolotl and LLaMA-Factory.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace fm::cli {

// What to write for such a flag (with underscores), as "use --pipe_parallel_size"; "" for others.
// torchtitan's sections, as parallelism., may stand before it.
std::string advice_on_foreign_flag(std::string_view name);

// A flag that changes no number here: it is taken, and said once.
struct SilentFlag {
  std::string_view name;
  // The values that change nothing, in small letters with commas between them; "": all do not.
  std::string_view values;
  std::string_view why;  // and what else to write where another value is wanted
};
std::span<const SilentFlag> silent_flags();

}  // namespace fm::cli
