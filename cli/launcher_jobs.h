// What the launchers and schedulers of this start call the job, and which of them start it again.
#pragma once

#include <string>
#include <vector>

#include "core/process.h"

namespace fm::cli {

struct LauncherJobs {
  std::vector<std::string> all;        // checkpoint::hash_of_job of each
  std::vector<std::string> restarted;  // of those that say that this is not the job's first start
};

// By the variables that they give to ranks. A name that jobs share (torchrun's "none") is none.
LauncherJobs launcher_jobs(const core::Environment& environment);

}  // namespace fm::cli
