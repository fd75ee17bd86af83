// The command lines of the programs beside fmengine-train.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "engine/device_options.h"
#include "engine/infer/generate.h"
#include "engine/state/export_checkpoint.h"
#include "text/prepare/write_tokens.h"
#include "text/tokenizer/extra_tokens.h"

namespace fm::cli {

struct ExportCommand {
  bool help = false;
  bool version = false;
  engine::ExportOptions options;
};

// Words without the program's name. Throws UserError (10).
ExportCommand parse_export_command(std::span<const std::string> words);

std::string export_help_text();

// fmengine-report's command line.
struct ReportCommand {
  bool help = false;
  bool version = false;
  std::vector<std::string> runs;  // their folders; several are compared
  std::string out;                // the page
  std::string trace;              // or empty
  bool text = false;              // a summary on stdout instead of the page
};

// Words without the program's name. Throws UserError (10).
ReportCommand parse_report_command(std::span<const std::string> words);

std::string report_help_text();

// fmengine-blackbox's command line.
struct BlackboxCommand {
  bool help = false;
  bool version = false;
  std::string folder;
  bool before = false;  // of the start before the newest
  bool json = false;
  std::size_t last = 0;  // records of each rank to print
};

// Words without the program's name. Throws UserError (10).
BlackboxCommand parse_blackbox_command(std::span<const std::string> words);

std::string blackbox_help_text();

// fmengine-tokenize's command line.
struct TokenizeCommand {
  bool help = false;
  bool version = false;
  std::string tokenizer;
  std::string chat_template;
  tokenizer::ExtraTokens extra;
  std::string text_field;
  bool text_first = false;  // text_field was given
  bool train_on_inputs = false;
  std::optional<int> threads;  // else by the cores
  prepare::WriteOptions options;
};

// Words without the program's name. Throws UserError (10).
TokenizeCommand parse_tokenize_command(std::span<const std::string> words);

std::string tokenize_help_text();

// fmengine-generate's command line.
struct GenerateCommand {
  bool help = false;
  bool version = false;
  engine::GenerateOptions options;
  engine::DeviceOptions device;
};

// Words without the program's name. Throws UserError (10).
GenerateCommand parse_generate_command(std::span<const std::string> words);

std::string generate_help_text();

}  // namespace fm::cli
