// How ranks were started, and how they become one communicator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace fm::comm {

enum class Launcher : std::uint8_t { kAlone, kEnvironment, kOpenMpi };

struct LaunchInfo {
  Launcher launcher = Launcher::kAlone;
  int world_rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string master_addr;
  int master_port = 0;
  bool agent_store = false;      // TORCHELASTIC_USE_AGENT_STORE is exactly "True"
  std::string restart_count;     // TORCHELASTIC_RESTART_COUNT, "0" when absent
  std::string run_id;            // TORCHELASTIC_RUN_ID, "" when absent
  std::string decision;          // one line for the banner: what was detected and why
  std::vector<std::string> warnings;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Detection order of specs/ecosystem.md 4.1: torchrun-style variables, OpenMPI, alone.
// Throws UserError for values that are no numbers or contradict each other.
LaunchInfo detect_launch(const Environment& environment);

struct ConnectOptions {
  int timeout_ms = 600'000;     // limit of one wait for a peer
  int rendezvous_ms = 120'000;  // limit of the meeting
};

// Joins the world: MPI_Init or TCPStore rendezvous. Throws MachineError (14) naming who is missing.
// Also starts the watch: when another rank's process ends without farewell(), this process prints
// which one (rank, host, pid) on stderr and ends with exit code 20.
std::unique_ptr<Communicator> connect(const LaunchInfo& launch, const ConnectOptions& options);

// A clean end, called by every rank after its last operation; never by a destructor.
void farewell();

}  // namespace fm::comm
