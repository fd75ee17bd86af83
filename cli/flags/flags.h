// The one table of fmengine-train's flags: FMEngine's (cli/train.py) with its defaults, and ours.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/options.h"

namespace fm::cli {

class FlagValues;

enum class FlagKind : std::uint8_t { kBool, kInt, kText, kList };  // kList: one word or more

struct FlagRow {
  const char* name;
  FlagKind kind;
  const char* otherwise;  // default; "": none
  const char* group;
  const char* help;
  // Takes the flag's value into the options, or refuses it. Null: whoever parses the line does.
  void (*read)(const FlagValues&, const char* name, engine::TrainOptions&) = nullptr;
  std::string (*more_help)() = nullptr;  // what a table has to add to `help`
};

// The group of flags that are parsed for FMEngine's sake and change nothing.
inline constexpr const char* kCompatible = "No-effect (FMEngine or the Trainer has them)";

// The group of flags that stand for variables of the environment.
inline constexpr const char* kLaunchFlags = "Launch (used where the environment says nothing)";

std::span<const FlagRow> train_flags();

// A variable of the environment.
struct VariableRow {
  const char* name;
  const char* help;
};

// All that change how fmengine-train runs, but those of launchers and of tests.
std::span<const VariableRow> train_variables();

}  // namespace fm::cli
