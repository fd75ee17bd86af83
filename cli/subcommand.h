// `fmengine WORD ...` stands for `fmengine-WORD ...`, as git has it.
#pragma once

#include <span>
#include <string>

namespace fm::cli {

// "fmengine-train" for "train". Throws UserError (10) for a word that is none, with the nearest.
std::string program_named(const std::string& word);

// Whether a program of fmengine has this word.
bool is_program(const std::string& word);

std::string dispatch_help_text();

}  // namespace fm::cli
