// Connects the ranks of a job to one communicator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/meet/launch_info.h"
#include "comm/meet/whereabouts.h"
#include "comm/roster.h"
#include "comm/waiting.h"

namespace fm::comm {

// Prints the message on stderr and ends the process at once with the exit code of the loss: that
// all ranks stop together matters more than anything that this process still holds.
void print_and_exit(const PeerLoss& loss);

struct ConnectOptions {
  int timeout_ms = 600'000;     // limit of one wait for a peer, and of shut_down()
  int rendezvous_ms = 120'000;  // limit of the rendezvous
  bool shared_memory = true;    // between ranks of one host, where the system allows it
  int host_cpus = 0;            // CPUs that the ranks of this host may use; 0: all that are online
  std::string job = {};         // equal for all ranks of a job, e.g. "--output_dir=/a/b"
  std::string interfaces = {};  // of which ranks use the first that is there; "": FME_INTERFACE
  // Called as soon as shut_down_with_error() reaches the other ranks.
  std::function<void()> on_connected = nullptr;
  int hang_ms = 10'000;  // how long a rank may be stopped; 0: for ever
  // Where the main thread is, and for how long it may stay there (0: without a limit); asked each
  // second by the thread of the watch. Without both no rank is ever said to hang.
  std::function<Whereabouts()> whereabouts = nullptr;
  std::function<int()> still_limit_ms = nullptr;
  OnPeerLost on_peer_lost = print_and_exit;
  const Clock* clock = &kSystemClock;  // of timeout_ms of a wait for a peer
};

// Joins the world: by MPI, or by comm/meet/rendezvous.h at MASTER_ADDR and MASTER_PORT; once per
// process. Throws MachineError (14) naming the missing ranks, or 20 naming a rank that ended
// meanwhile. Also starts the watch, which calls on_peer_lost: when the process of another rank ends
// without shut_down(), with that rank (rank, host, pid) and exit code 20; when a rank is cut off
// (20), stopped or hangs (21), see comm/meet/pulse.h; when a rank called
// shut_down_with_error(), with its code and message; when a library does not return from the
// rendezvous, with exit code 14.
std::unique_ptr<Communicator> connect(const LaunchInfo& launch, const ConnectOptions& options);

// What the banner says of the job token (comm/meet/job_secret.h). Throws UserError (10) for a token
// that is none.
std::string trust_line(const LaunchInfo& launch);

// The shutdown handshake: every rank calls it after its last operation; never a destructor. Waits
// until every rank has called it. Throws MachineError (21) naming the ranks that did not within
// timeout_ms. Does nothing in a world of one rank.
void shut_down();

// Shuts down because of an error of this rank: the others print `message` (the first line that main
// prints) with the name of this rank and return the same exit code. Never throws, takes 2 s at
// most; main returns `exit_code` right after it. Does nothing before connect().
void shut_down_with_error(int exit_code, const std::string& message) noexcept;

// Ranks as threads of one process, for tests.
enum class Between : std::uint8_t { kMessages, kSharedMemory };
inline constexpr int kThreadsMs = 60'000;  // ends a hanging test; no other test comes near it

// Runs `body` once per rank. Rethrows the first failure after aborting the waits of the other
// ranks; fails when a wait takes longer than `timeout_ms` by the clock.
void run_ranks(int size, const std::function<void(Communicator&)>& body,
               int timeout_ms = kThreadsMs, Between between = Between::kMessages,
               const Clock& clock = kSystemClock);

// The same with shared memory between the ranks of a host, and messages between hosts. host_of: a
// number per rank; ranks with the same number are on the same host.
void run_ranks_on_hosts(const std::vector<int>& host_of,
                        const std::function<void(Communicator&)>& body, int timeout_ms = kThreadsMs,
                        const Clock& clock = kSystemClock);

// "Open MPI v4.1.4", or why there is none. May be asked before MPI_Init.
std::string mpi_version();

}  // namespace fm::comm
