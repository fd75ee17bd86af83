// How ranks were started, and how they become one communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/roster.h"
#include "comm/waiting.h"

namespace fm::comm {

enum class Launcher : std::uint8_t { kAlone, kEnvironment, kOpenMpi };

struct LaunchInfo {
  Launcher launcher = Launcher::kAlone;
  int world_rank = 0;
  int world_size = 1;
  int local_rank = 0;  // 0 of 1 when the launcher does not tell
  int local_size = 1;
  std::string master_addr;
  int master_port = 0;
  bool elastic = false;       // torchrun: TORCHELASTIC_RUN_ID is set
  bool agent_store = false;   // TORCHELASTIC_USE_AGENT_STORE is exactly "True"
  std::string restart_count;  // TORCHELASTIC_RESTART_COUNT, "0" when absent
  std::string run_id;         // TORCHELASTIC_RUN_ID, "" when absent
  std::string job_id;         // FME_JOB_ID, by which ranks started by hand know their job
  std::string host_label;     // FME_HOST: ranks with another one share no memory with this rank
  std::string decision;       // one line for the banner: what was detected and why
  std::vector<std::string> warnings;
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Detection order: torchrun-style variables, OpenMPI, alone. Under mpirun, RANK and WORLD_SIZE
// without TORCHELASTIC_* are left-overs of the shell: OpenMPI counts.
// Throws UserError for values that are no numbers or contradict each other, and for launchers that
// are not supported yet (one world per process would be the silent alternative).
LaunchInfo detect_launch(const Environment& environment);

// The world rank that detect_launch finds, 0 where it finds an error. Never throws UserError.
int rank_if_known(const Environment& environment);

// Prints the message on stderr and ends the process at once with the loss's exit code: nothing
// that this process still holds is worth more than stopping together.
void print_and_exit(const PeerLoss& loss);

struct ConnectOptions {
  int timeout_ms = 600'000;     // limit of one wait for a peer, and of the farewell
  int rendezvous_ms = 120'000;  // limit of the meeting
  bool shared_memory = true;    // between ranks of one host, where the system allows it
  int host_cpus = 0;            // that the ranks of this host may use; 0: all that are online
  std::string job = {};         // what a job's ranks have in common, e.g. "--output_dir=/a/b"
  std::function<void()> on_met = nullptr;  // from here on farewell_with_error() reaches the others
  OnPeerLost on_peer_lost = print_and_exit;
  const Clock* clock = &kSystemClock;  // of timeout_ms of a wait for a peer
};

// Joins the world: by MPI, or by comm/meet/meeting.h at MASTER_ADDR and MASTER_PORT; once per
// process. Throws MachineError (14) naming who is missing, or 20 naming who ended meanwhile. Also
// starts the watch: when another rank's process ends without farewell(), on_peer_lost is told which
// one (rank, host, pid), with exit code 20; when it said farewell_with_error(), with its code and
// words. A library that does not return from the meeting is told there too, with exit code 14.
std::unique_ptr<Communicator> connect(const LaunchInfo& launch, const ConnectOptions& options);

// A clean end, called by every rank after its last operation; never by a destructor. Waits until
// every rank came here. Throws MachineError 21 naming who did not, before timeout_ms.
// Without a world of several ranks it does nothing.
void farewell();

// This rank stops because of an error: the others print `message` (the first line of what main
// prints) with this rank's name and return the same exit code. Never throws, takes 2 s at most;
// main returns `exit_code` right after it. Does nothing when connect() was not reached.
void farewell_with_error(int exit_code, const std::string& message) noexcept;

// Ranks as threads of one process, for tests.
enum class Between : std::uint8_t { kMessages, kSharedMemory };
inline constexpr int kThreadsMs = 60'000;  // ends what hangs; no test comes near it

// Runs `body` once per rank. Rethrows the first failure after aborting the others' waits;
// fails when a wait takes longer than `timeout_ms` by the clock.
void run_ranks(int size, const std::function<void(Communicator&)>& body,
               int timeout_ms = kThreadsMs, Between between = Between::kMessages,
               const Clock& clock = kSystemClock);

// The same with shared memory between the ranks of a host, and messages between hosts. host_of: by
// rank, any numbers.
void run_ranks_on_hosts(const std::vector<int>& host_of,
                        const std::function<void(Communicator&)>& body, int timeout_ms = kThreadsMs,
                        const Clock& clock = kSystemClock);

}  // namespace fm::comm
