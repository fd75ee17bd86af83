// fmengine-checkpoint: looks after the checkpoints of runs.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/lineage.h"
#include "checkpoint/manifest.h"
#include "cli/checkpoint_text.h"
#include "cli/ending.h"
#include "cli/flags/arguments.h"
#include "cli/flags/checkpoint_arguments.h"
#include "cli/outputs.h"

namespace {

namespace fs = std::filesystem;
using fm::cli::CheckpointCommand;

constexpr int kDamaged = static_cast<int>(fm::core::ExitCode::kNoCheckpoint);
constexpr int kDiffers = 1;  // as diff and cmp have it

int list(const CheckpointCommand& command) {
  const auto survey = fm::checkpoint::survey_output(command.paths[0]);
  fm::cli::print(command.json ? fm::cli::survey_json(survey) : fm::cli::survey_text(survey));
  return 0;
}

// Of an output directory the newest of the run that counts, or all; damaged ones too.
std::vector<fs::path> checkpoints_at(const fs::path& path, bool all) {
  if (fm::checkpoint::has_manifest(path)) return {path};
  const fm::checkpoint::OutputSurvey survey = fm::checkpoint::survey_output(path);
  std::vector<fs::path> found;
  std::optional<fs::path> counts;
  for (const auto& entry : survey.entries) {
    if (entry.kind != fm::checkpoint::SurveyKind::kCheckpoint) continue;
    found.push_back(entry.folder);
    const bool unknown = !entry.problem.empty();  // nobody knows its run
    if (!counts && (entry.in_line || unknown)) counts = entry.folder;
  }
  if (!all && counts) found = {*counts};
  if (!all && !found.empty()) found.resize(1);
  const std::string name = (path / "").parent_path().filename().string();
  if (found.empty() && fm::checkpoint::step_of_tag(name)) found.push_back(path);
  FM_MACHINE_CHECK(!found.empty(), fm::core::ExitCode::kNoCheckpoint,
                   "a checkpoint is required; give a folder global_stepN, or what --output_dir was "
                   "(there is none in ",
                   path.string(), ")");
  return found;
}

int verify(const CheckpointCommand& command) {
  std::vector<fm::checkpoint::VerifiedCheckpoint> verified;
  bool whole = true;
  for (const fs::path& folder : checkpoints_at(command.paths[0], command.all)) {
    const auto start = std::chrono::steady_clock::now();
    verified.push_back(fm::checkpoint::verify_checkpoint(folder, command.threads));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    whole = whole && verified.back().damages.empty();
    if (!command.json) fm::cli::print(fm::cli::verified_text(verified.back(), took.count()));
  }
  if (command.json) fm::cli::print(fm::cli::verified_json(verified));
  return whole ? 0 : kDamaged;
}

int prune(const CheckpointCommand& command) {
  const fs::path output = command.paths[0];
  const auto choices = command.removes ? fm::checkpoint::prune_output(output, command.rules)
                                       : fm::checkpoint::plan_prune(
                                             fm::checkpoint::survey_output(output), command.rules);
  fm::cli::print(fm::cli::pruned_text(choices, command.removes));
  return 0;
}

int diff(const CheckpointCommand& command) {
  const auto comparison =
      fm::checkpoint::compare_checkpoints(command.paths[0], command.paths[1], command.atol);
  fm::cli::print(command.json ? fm::cli::comparison_json(comparison)
                              : fm::cli::comparison_text(comparison, command.most));
  return comparison.same() ? 0 : kDiffers;
}

int run(const std::vector<std::string>& words) {
  const CheckpointCommand command = fm::cli::parse_checkpoint_command(words);
  if (command.help) return fm::cli::print(fm::cli::checkpoint_help_text(command)), 0;
  if (command.version) return fm::cli::print(fm::cli::version_text() + "\n"), 0;
  switch (command.verb) {
    case fm::cli::CheckpointVerb::kList: return list(command);
    case fm::cli::CheckpointVerb::kVerify: return verify(command);
    case fm::cli::CheckpointVerb::kPrune: return prune(command);
    case fm::cli::CheckpointVerb::kDiff: return diff(command);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  fm::cli::hold_standard_files();
  fm::cli::Ending ending("fmengine-checkpoint");
  return ending.run([&] { return run({words + 1, words + count}); });
}
