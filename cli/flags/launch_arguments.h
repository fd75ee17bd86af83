// The command lines of fmengine-run and fmengine-launch: flags, then a program and its arguments.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/process.h"
#include "launch/fan_out.h"

namespace fm::cli {

struct RunCommand {
  bool help = false;
  bool version = false;
  bool agent = false;    // of a launcher; the job comes through `job_file`
  std::string job_file;  // "-": standard input
  launch::AgentJob job;  // of an agent only the node is known
};

// Words without the program's name; PET_* of the environment are defaults. `programs`: the folder
// of fmengine's own. Throws UserError (10).
RunCommand parse_run_command(std::span<const std::string> words,
                             const core::Environment& environment, const std::string& programs);
std::string run_help_text();

struct LaunchCommand {
  bool help = false;
  bool version = false;
  bool print = false;
  bool no_ssh = false;  // this process is the agent of plan.job.node
  launch::LaunchPlan plan;
  launch::Restarts restarts;
};

// GPUs that a process sees: `visible` is CUDA_VISIBLE_DEVICES, which CUDA reads up to the first
// entry that is empty or -1; else the files nvidia0, nvidia1 ... of `devices` count. A container
// may have any of them, as nvidia2 and nvidia3.
int usable_gpus(const std::optional<std::string>& visible, const std::filesystem::path& devices);

// The same; reads the hostfile and the files of variables. `variables`: of this process.
LaunchCommand parse_launch_command(std::span<const std::string> words,
                                   const std::vector<std::string>& variables,
                                   const std::string& programs);
std::string launch_help_text();

}  // namespace fm::cli
