#include "core/exit_codes.h"

#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/check.h"

namespace fm::core {
namespace {

using enum ExitClass;

// 27 may be tried again: it is the machine's failure, like 26. A scheduler takes another host, or
// its limit of restarts ends the job.
constexpr ExitCodeRow kRows[] = {
    {0, kFinished, "The run finished.", ""},
    {1, kPermanent, "fmengine has a defect.", "Report it with the message."},
    {10, kPermanent, "The configuration is wrong: flags, JSON, sizes.", "Correct it."},
    {11, kPermanent, "A file is missing, truncated or holds wrong values.", "Correct the file."},
    {12, kPermanent, "A checkpoint was expected, none can be loaded.", "See docs/checkpoints.md."},
    {13, kPermanent, "The output directory belongs to another run.",
     "End that run or use another."},
    {14, kTryAgain, "The ranks did not find each other.", "Read which rank is missing."},
    {20, kTryAgain, "Another rank died or left.", "Look at that rank's message."},
    {21, kTryAgain, "A wait for a rank ran past `--timeout_s`.", "Look at the rank named."},
    {22, kPermanent, "Ranks disagree about a collective.", "Start all ranks alike, or report it."},
    {23, kPermanent, "Loss, gradients, weights stay not finite.", "Go back, as the message says."},
    {25, kPermanent, "There is too little memory.", "The message states what would fit."},
    {26, kTryAgain, "Storage or standard output failed.", "Free space or mend the disk."},
    {27, kTryAgain, "A GPU failed.", "The message names it; another may do."},
    {75, kTryAgain, "SIGTERM or SIGINT ended the run in order.", "The message says what is saved."},
    {130, kTryAgain, "A second SIGINT ended the process at once.", "Some steps may be lost."},
    {143, kTryAgain, "A second SIGTERM, 5 s or more behind the first.", "Some steps may be lost."},
};

const ExitCodeRow* row_of(int code) {
  for (const ExitCodeRow& row : kRows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

constexpr int kSignals = 128;

// The signal that a shell's code stands for, 0 where it stands for none.
int signal_of(int code) {
  return code > kSignals && code - kSignals <= SIGRTMAX ? code - kSignals : 0;
}

std::string text_of_signal(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  std::string text = concat("Signal ", signal, name == nullptr ? "" : concat(" (SIG", name, ")"),
                            " ended the process.");
  if (signal == SIGKILL) {
    text +=
        " Often it was the out-of-memory killer (dmesg, memory.events of the control group), else "
        "a scheduler at its limit, or kill -9.";
  } else if (signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGILL ||
             signal == SIGFPE) {
    text += " That is a defect of fmengine or of the machine: report it when it comes again.";
  }
  return text;
}

}  // namespace

std::span<const ExitCodeRow> exit_code_rows() { return kRows; }

std::string name_of(ExitClass kind) {
  switch (kind) {
    case kFinished: return "finished";
    case kPermanent: return "permanent";
    case kTryAgain: return "try-again";
  }
  return "";
}

bool may_try_again(int code) {
  const ExitCodeRow* const row = row_of(code);
  return row == nullptr ? signal_of(code) > 0 : row->kind == kTryAgain;
}

std::string explained(int code) {
  const ExitCodeRow* const row = row_of(code);
  if (row != nullptr) {
    const std::string advice = row->advice;
    return concat(name_of(row->kind), "\n", code, ": ", row->meaning,
                  advice.empty() ? "" : " " + advice, "\n");
  }
  const int signal = signal_of(code);
  FM_USER_CHECK(signal > 0,
                "an exit code of fmengine is required, or 128 plus a signal's number; fmengine "
                "explain without a code lists them (",
                code, ")");
  return concat(name_of(kTryAgain), "\n", code, ": ", text_of_signal(signal), "\n");
}

std::string exit_code_table() {
  std::string text;
  char line[256];
  for (const ExitCodeRow& row : kRows) {
    std::snprintf(line, sizeof(line), "%-5d %-10s %s %s", row.code, name_of(row.kind).c_str(),
                  row.meaning, row.advice);
    text += line;
    while (text.ends_with(' ')) text.pop_back();
    text += "\n";
  }
  return text + "128+n try-again  Signal n ended the process.\n";
}

}  // namespace fm::core
