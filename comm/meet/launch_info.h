// What a process knows of the job that it is a rank of. launch/engines.h fills it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fm::comm {

enum class Launcher : std::uint8_t { kAlone, kEnvironment, kOpenMpi };

struct LaunchInfo {
  Launcher launcher = Launcher::kAlone;
  int world_rank = 0;
  int world_size = 1;
  int local_rank = 0;  // 0 of 1 when the launcher does not provide it
  int local_size = 1;
  bool says_local_rank = true;  // false: it does not
  std::string master_addr;
  int master_port = 0;
  bool elastic = false;       // torchrun: TORCHELASTIC_RUN_ID is set
  bool agent_store = false;   // TORCHELASTIC_USE_AGENT_STORE is exactly "True"
  std::string restart_count;  // of the engine that starts again, "0" when absent
  std::string run_id;         // TORCHELASTIC_RUN_ID, "" when absent
  std::string job_id;         // FME_JOB_ID, which identifies the job of ranks started by hand
  std::string host_label;     // FME_HOST: ranks with another label share no memory with this rank
  std::string engine;         // what started it: "torchrun", "Slurm"; "" when alone
  std::vector<std::string> shown_by;  // the variables that show it, as NAME=value
  std::string decision;               // one line for the banner: what was detected, and why
  std::vector<std::string> warnings;
};

}  // namespace fm::comm
