#include "checkpoint/prune_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/output_lock.h"
#include "core/check.h"
#include "core/files/durable_file.h"

namespace fm::checkpoint {
namespace {

using RunStep = std::pair<std::string, std::int64_t>;

// What runs need, whatever its age.
struct NeededSteps {
  std::set<RunStep> parents;      // a run went back to them
  std::set<std::int64_t> spared;  // a run's state says so, of itself or of the runs before it
};

NeededSteps needed_in(const OutputSurvey& survey) {
  NeededSteps needed;
  std::set<std::string> seen;
  for (const SurveyEntry& entry : survey.entries) {
    const Lineage& lineage = entry.lineage;
    const auto parent = step_of_tag(lineage.parent_tag);
    if (parent) needed.parents.insert({lineage.parent_run, *parent});
    // The newest complete one of a run speaks for it.
    const bool speaks = entry.kind == SurveyKind::kCheckpoint && entry.problem.empty() &&
                        seen.insert(lineage.run).second;
    if (!speaks) continue;
    needed.spared.insert(entry.spared.begin(), entry.spared.end());
  }
  return needed;
}

std::string reason_to_stay(const SurveyEntry& entry, const PruneRules& rules,
                           const NeededSteps& needed) {
  const RunStep at(entry.lineage.run, entry.step);
  if (entry.newest) return "the next start resumes from it";
  if (entry.latest) return "the file latest names it";
  if (entry.proven) return "it is the newest proven one";
  if (needed.parents.contains(at)) return "a later run went back to it";
  if (needed.spared.contains(entry.step)) return "its run spares it";
  if (rules.keep_every > 0 && entry.step % rules.keep_every == 0) {
    return core::concat("its step is a multiple of ", rules.keep_every);
  }
  return "";
}

// As OutputLock, which deletes them.
PruneChoice choice_of_leftover(const SurveyEntry& entry) {
  return {.folder = entry.folder,
          .bytes = entry.bytes,
          .goes = !entry.held,
          .why = entry.held ? "a process writes it" : "a killed run left it"};
}

bool is_checkpoint(const PruneChoice& choice) {
  return step_of_tag(choice.folder.filename().string()).has_value();
}

}  // namespace

std::vector<PruneChoice> plan_prune(const OutputSurvey& survey, const PruneRules& rules) {
  FM_CHECK(rules.keep_last >= 1, "keep_last ", rules.keep_last);
  const NeededSteps needed = needed_in(survey);
  std::map<std::string, int> complete;  // so far, of a run
  std::vector<PruneChoice> choices;
  for (const SurveyEntry& entry : survey.entries) {
    if (entry.kind == SurveyKind::kPutAside) continue;
    if (entry.kind != SurveyKind::kCheckpoint) {
      choices.push_back(choice_of_leftover(entry));
      continue;
    }
    PruneChoice choice{.folder = entry.folder, .bytes = entry.bytes, .goes = false, .why = {}};
    if (!entry.problem.empty()) {
      choice.why = "it is damaged, and may be all that is left";
    } else if (++complete[entry.lineage.run] <= rules.keep_last) {
      choice.why = core::concat("it is among the newest ", rules.keep_last, " of its run");
    } else {
      choice.why = reason_to_stay(entry, rules, needed);
    }
    choice.goes = choice.why.empty();
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<PruneChoice> prune_output(const std::filesystem::path& output_dir,
                                      const PruneRules& rules) {
  // Before the lock: it would make a folder that is not there, and deletes what killed runs left.
  const std::vector<PruneChoice> before = plan_prune(survey_output(output_dir), rules);
  const OutputLock lock(output_dir);
  std::vector<PruneChoice> choices = plan_prune(survey_output(output_dir), rules);
  std::erase_if(choices, [](const PruneChoice& choice) { return !is_checkpoint(choice); });
  for (const PruneChoice& choice : choices) {
    if (choice.goes) core::discard_folder(choice.folder);
  }
  for (const PruneChoice& choice : before) {
    const bool swept = !is_checkpoint(choice) && !std::filesystem::exists(choice.folder);
    if (swept) choices.push_back(choice);
  }
  return choices;
}

}  // namespace fm::checkpoint
