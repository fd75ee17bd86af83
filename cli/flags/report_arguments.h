// fmengine-report's command line.
#pragma once

#include <span>
#include <string>

namespace fm::cli {

struct ReportCommand {
  bool help = false;
  bool version = false;
  std::string run;    // the run's folder
  std::string out;    // the page
  std::string trace;  // or empty
  bool text = false;  // a summary on stdout instead of the page
};

// Words without the program's name. Throws UserError (10).
ReportCommand parse_report_command(std::span<const std::string> words);

std::string report_help_text();

}  // namespace fm::cli
