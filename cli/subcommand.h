// `fmengine WORD ...` stands for `fmengine-WORD ...`, as git has it.
#pragma once

#include <span>
#include <string>

namespace fm::cli {

// "fmengine-train" for "train". Throws UserError (10) for a word that is none, with the nearest.
std::string program_named(const std::string& word);

std::string dispatch_help_text();

// What `fmengine explain` prints, with the words behind it: of one exit code, or of all. Throws
// UserError (10).
std::string explain_text(std::span<const std::string> words);

}  // namespace fm::cli
