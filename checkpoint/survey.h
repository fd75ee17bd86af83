// What lies in an output directory, for people and for pruning by hand: cheap looks only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/lineage.h"
#include "core/types.h"

namespace fm::checkpoint {

enum class SurveyKind : std::uint8_t {
  kCheckpoint,  // global_stepN
  kPutAside,    // found damaged, or of somebody else: list_quarantined
  kUnfinished,  // .tmp-*: a save that goes on, or was killed
  kDiscarded,   // .trash-*: what a killed run had begun to delete
};

struct SurveyEntry {
  SurveyKind kind = SurveyKind::kCheckpoint;
  std::filesystem::path folder;
  std::int64_t step = -1;    // of its name
  std::int64_t time_s = 0;   // when it was written, unix time
  core::Bytes bytes;         // of all its files
  Lineage lineage = {};      // as far as the manifest can be read
  std::int64_t save_ms = 0;  // 0: not known
  std::string problem;   // of a checkpoint that is not complete; sums of tensors are not looked at
  bool held = false;     // of what is unfinished: a process has it
  bool in_line = false;  // of the run that counts: a resume may use it
  bool latest = false;   // the file `latest` names it
  bool newest = false;   // the next start would resume from it
  bool proven = false;   // newest one behind which a step was finite, as metrics.jsonl has it
  std::vector<std::int64_t> spared = {};  // steps that its run keeps, as its state.json has it
};

struct OutputSurvey {
  std::filesystem::path output_dir;
  std::vector<SurveyEntry> entries;  // checkpoints, newest step first; then the others by name
  std::string holder;                // what LOCK says; "": no file
};

// UserError (11) where there is no such directory, MachineError (26) where it cannot be read.
OutputSurvey survey_output(const std::filesystem::path& output_dir);

// The last step of metrics.jsonl that was not skipped; nothing where no line of its end says so.
std::optional<std::int64_t> last_finite_step(const std::filesystem::path& metrics);

// Of a checkpoint and all that lies in it; links count as nothing.
core::Bytes bytes_below(const std::filesystem::path& folder);

}  // namespace fm::checkpoint
