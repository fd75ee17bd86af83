// What every exit code says, and whether a scheduler may start the same command again.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fm::core {

// kPermanent: the same command ends in the same way until somebody changes something.
// kTryAgain: a machine, a peer or a signal was the reason; the same command goes on from the newest
// checkpoint.
enum class ExitClass : std::uint8_t { kFinished, kPermanent, kTryAgain };

struct ExitCodeRow {
  int code;
  ExitClass kind;
  const char* meaning;
  const char* advice;  // "": nothing is to be done
};

// In order of their codes; docs/exit-codes.md has the same rows.
std::span<const ExitCodeRow> exit_code_rows();

// "finished", "permanent", "try-again"
std::string name_of(ExitClass kind);

// For whoever starts a command again: codes of the table that say so, and 128 plus the number of a
// signal. A code that nobody knows is permanent, so that no loop runs for ever.
bool may_try_again(int code);

// What `fmengine explain CODE` prints: the word of its class alone on the first line, then what the
// code means and what to do. Throws UserError (10) for a code that no program here returns.
std::string explained(int code);
// The whole table, a line per code.
std::string exit_code_table();

}  // namespace fm::core
