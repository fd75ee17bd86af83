// --config: a file of flags. Hugging Face's HfArgumentParser, TRL, axolotl and LLaMA-Factory have
// such files; keys that are theirs alone are answered by their tables (cli/foreign/foreign_keys.h).
#pragma once

#include <span>
#include <string>

#include "cli/flags/argv.h"
#include "cli/flags/flags.h"

namespace fm::cli {

// The words of the command line and behind them those of the file whose flags it does not say.
// Throws UserError (10) with file and line of all keys that cannot be honoured.
NormalLine with_config_file(const std::string& path, NormalLine command_line,
                            std::span<const FlagRow> flags);

}  // namespace fm::cli
