// Ranks on many hosts: one command that another launcher runs, or one for each host.
#pragma once

#include <string>
#include <vector>

#include "core/process.h"
#include "launch/agent.h"
#include "launch/hostfile.h"
#include "launch/records.h"

namespace fm::launch {

enum class Transport : std::uint8_t { kPdsh, kSsh, kOpenMpi, kSlurm };

struct LaunchPlan {
  Transport transport = Transport::kPdsh;
  std::vector<HostSlots> hosts;
  bool here = false;  // the one host is this one: no other program is asked
  std::string agent;  // path of fmengine-run, the same on every host
  AgentJob job;       // of all hosts; its variables travel
  std::vector<std::string> launcher_args;
  int ssh_port = 0;                // 0: ssh's own
  std::string fixed_address = {};  // of --master_addr; "": the first host
};

// The variables of this environment that travel to other hosts, as NAME=value: those of networks,
// accelerators, trackers and threads, PATH and LD_LIBRARY_PATH. Not those of one host or one rank.
std::vector<std::string> travelling(const std::vector<std::string>& environment);

// What is run, a list of words for each process: no value of a variable is in it. `job_file`:
// where pdsh's agents find the job.
std::vector<std::vector<std::string>> commands_of(const LaunchPlan& plan,
                                                  const std::string& job_file);
// What asks `host` whether it answers: it runs `true` there.
std::vector<std::string> question_to(const LaunchPlan& plan, const std::string& host);
// Commands with quotes for a shell, a line each; the variables that are set for it come first.
std::string printed(const LaunchPlan& plan);

struct Restarts {
  int most = 0;
  int min_nodes = 0;  // 0: all
};

// Runs the plan, again where it may help, with the hosts that answer. Returns the exit code of the
// first rank to fail.
int launch_on(LaunchPlan plan, const Restarts& restarts);

}  // namespace fm::launch
