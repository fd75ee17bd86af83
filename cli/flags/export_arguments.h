// fmengine-export's command line.
#pragma once

#include <span>
#include <string>

#include "engine/state/export_checkpoint.h"

namespace fm::cli {

struct ExportCommand {
  bool help = false;
  bool version = false;
  engine::ExportOptions options;
};

// Words without the program's name. Throws UserError (10).
ExportCommand parse_export_command(std::span<const std::string> words);

std::string export_help_text();

}  // namespace fm::cli
