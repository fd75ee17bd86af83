// fmengine-generate's command line.
#pragma once

#include <span>
#include <string>

#include "engine/infer/generate.h"

namespace fm::cli {

struct GenerateCommand {
  bool help = false;
  bool version = false;
  engine::GenerateOptions options;
};

// Words without the program's name. Throws UserError (10).
GenerateCommand parse_generate_command(std::span<const std::string> words);

std::string generate_help_text();

}  // namespace fm::cli
