#include "cli/launcher_jobs.h"

#include "checkpoint/lineage.h"
#include "core/check.h"

namespace fm::cli {
namespace {

struct JobRow {
  const char* launcher;
  const char* name;   // the variable with what it calls the job, equal in all starts
  const char* count;  // the variable with the starts before this one
};

constexpr JobRow kRows[] = {
    {"fmengine launch", "FME_LAUNCH_ID", "FME_RESTART_COUNT"},
    {"torchrun", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
    {"Slurm", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"},
};

}  // namespace

LauncherJobs launcher_jobs(const core::Environment& environment) {
  LauncherJobs jobs;
  for (const JobRow& row : kRows) {
    const std::string name = environment(row.name).value_or("");
    if (name.empty() || name == "none") continue;
    jobs.all.push_back(checkpoint::hash_of_job(core::concat(row.launcher, " ", name)));
    const std::string count = environment(row.count).value_or("");
    if (!count.empty() && count != "0") jobs.restarted.push_back(jobs.all.back());
  }
  return jobs;
}

}  // namespace fm::cli
