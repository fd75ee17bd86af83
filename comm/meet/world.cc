#include "comm/meet/world.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "comm/communicator.h"
#include "comm/levels/levels.h"
#include "comm/meet/job_secret.h"
#include "comm/meet/mpi_world.h"
#include "comm/meet/rendezvous.h"
#include "comm/meet/watch.h"
#include "comm/verbs/peer_communicator.h"
#include "comm/verbs/progress.h"
#include "comm/wire/addresses.h"
#include "comm/wire/fabrics.h"
#include "comm/wire/watchdog.h"
#include "core/process.h"

namespace fm::comm {
namespace {

using core::ExitCode;

constexpr int kEndMs = 5'000;   // limit of the end of a process
constexpr int kReadMs = 1'000;  // for somebody to read its last line

// A process is a member of at most one world, as MPI_Init allows only one. The membership begins in
// connect() and ends in shut_down(); an exception may destroy the communicator in between.
//
// Invariant: watch is set between connect() and shut_down(), in worlds of several ranks.
// Thread:    main.
// Lifetime:  the process.
struct Membership {
  std::unique_ptr<Watch> watch;
  std::function<void()> leave;  // finalizes the launcher's library
};

Membership& membership() {
  static Membership only;
  return only;
}

// On the thread of the watch, which waits for nobody.
void notify(const std::string& line) { core::print_error_line(line, 0); }

void begin_watch(const LaunchInfo& launch, const ConnectOptions& options, const Roster& roster,
                 std::vector<Socket> sockets, std::shared_ptr<const CallMark> calls = nullptr) {
  membership().watch =
      std::make_unique<Watch>(WatchOptions{.world_rank = launch.world_rank,
                                           .roster = roster,
                                           .limit_ms = options.timeout_ms,
                                           .calls = std::move(calls),
                                           .on_peer_lost = options.on_peer_lost,
                                           .stop_ms = options.hang_ms,
                                           .whereabouts = options.whereabouts,
                                           .still_limit_ms = options.still_limit_ms,
                                           .notify = notify},
                              std::move(sockets));
  if (options.on_connected) options.on_connected();
}

std::unique_ptr<PeerCommunicator> world_over(std::unique_ptr<Fabric> fabric,
                                             const LaunchInfo& launch,
                                             const ConnectOptions& options) {
  Group world{.rank = launch.world_rank};
  for (int rank = 0; rank < launch.world_size; ++rank) world.world_ranks.push_back(rank);
  auto progress = std::make_shared<Progress>(make_background_fabric(std::move(fabric)),
                                             options.timeout_ms, *options.clock);
  return std::make_unique<PeerCommunicator>(std::move(progress), std::move(world));
}

void warn_of_unknown_peers(int refused) {
  if (refused == 0) return;
  std::fprintf(stderr, "fmengine: refused %d connections without the token of this job\n", refused);
}

// "" where no interface is named.
std::string interface_address(const ConnectOptions& options) {
  const char* const variable = std::getenv("FME_INTERFACE");
  const std::string list =
      options.interfaces.empty() && variable != nullptr ? variable : options.interfaces;
  return list.empty() ? "" : address_of_interface(list, own_interfaces());
}

std::unique_ptr<PeerCommunicator> connect_mpi(const LaunchInfo& launch,
                                              const ConnectOptions& options) {
  const auto fail_with = [rank = launch.world_rank, report = options.on_peer_lost](ExitCode code) {
    return [=](const std::string& line) {
      report({.world_rank = rank, .exit_code = static_cast<int>(code), .message = line});
    };
  };
  const std::optional<JobSecret> secret = job_secret();
  MpiWorld mpi = join_mpi(launch.world_rank, launch.world_size,
                          {.rendezvous_ms = options.rendezvous_ms,
                           .secret = secret ? &*secret : nullptr,
                           .interface_address = interface_address(options),
                           .one_host = launch.local_size == launch.world_size,
                           .on_late = fail_with(ExitCode::kRendezvousFailed)});
  membership().leave = [rank = launch.world_rank, limit_ms = options.timeout_ms,
                        late = fail_with(ExitCode::kHang)] { leave_mpi(rank, limit_ms, late); };
  warn_of_unknown_peers(mpi.refused);
  begin_watch(launch, options, mpi.roster, std::move(mpi.watch), std::move(mpi.calls));
  return world_over(std::move(mpi.fabric), launch, options);
}

// The name of the job: all ranks of this job compute the same, and no other job does.
std::string job_of(const LaunchInfo& launch, const ConnectOptions& options) {
  constexpr std::size_t kLongest = 6'000;
  std::string job =
      core::concat(launch.job_id.empty() ? options.job : "FME_JOB_ID=" + launch.job_id,
                   launch.elastic ? " of torchrun's " + launch.run_id : "",
                   launch.restart_count == "0" ? "" : ", restart " + launch.restart_count);
  FM_USER_CHECK(job.size() <= kLongest, "the name of a job must have at most ", kLongest,
                " characters; shorten FME_JOB_ID or --output_dir (", job.size(), " characters)");
  return job;
}

void print_line(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

Endpoint master_of(const LaunchInfo& launch) {
  return {host_of(launch.master_addr, launch.master_port), launch.master_port};
}

// Where the other ranks reach this one. What torchrun says of local ranks is true.
std::string own_address(const LaunchInfo& launch, const MeetOptions& options,
                        const Deadline& deadline) {
  if (!options.interface_address.empty()) return options.interface_address;
  const bool all_here = launch.agent_store && launch.local_size == launch.world_size;
  if (all_here && launch.host_label.empty()) return "127.0.0.1";
  return address_towards(master_of(launch), options.names, deadline);
}

Rendezvous meet(const LaunchInfo& launch, const PeerInfo& own, const MeetOptions& options,
                const Deadline& deadline) {
  const Endpoint master = master_of(launch);
  if (!launch.agent_store) return rendezvous_at(master, own, options, deadline);
  await_name(master, options.names, deadline);
  const auto store = open_torch_store(
      {.host = master.address,
       .port = master.port,
       .prefix = core::concat("fmengine/", launch.run_id, "/", launch.restart_count, "/"),
       .timeout_ms = deadline.left_ms()});
  return rendezvous_by_store(*store, own, options, deadline);
}

std::unique_ptr<PeerCommunicator> connect_tcp(const LaunchInfo& launch,
                                              const ConnectOptions& options) {
  constexpr int kSlackMs = 1'000;  // our own waits end before
  const Deadline deadline(options.rendezvous_ms);
  const auto give_up = [&] {
    options.on_peer_lost(
        {.world_rank = launch.world_rank,
         .exit_code = static_cast<int>(core::ExitCode::kRendezvousFailed),
         .message = core::concat("fmengine: all ranks must meet within the limit; check the name "
                                 "servers, and what answers at MASTER_ADDR and MASTER_PORT (rank ",
                                 launch.world_rank, " waited ", deadline.limit_ms(), " ms for ",
                                 launch.master_addr, ":", launch.master_port, ")")});
  };
  const Watchdog guard(Deadline(options.rendezvous_ms + kSlackMs), give_up);
  const std::optional<JobSecret> secret = job_secret();
  const MeetOptions how{.names = {.warn = print_line},
                        .secret = secret ? &*secret : nullptr,
                        .interface_address = interface_address(options)};
  const std::string address = own_address(launch, how, deadline);
  const Socket listener = listen_on(address);
  const PeerInfo own{.member = this_process(launch.world_rank),
                     .world_size = launch.world_size,
                     .endpoint = {address, port_of(listener)},
                     .job = job_of(launch, options)};
  Rendezvous rendezvous = meet(launch, own, how, deadline);
  const Roster roster = roster_of(rendezvous.job_roster);
  // From now on the watch reports lost ranks, also while the mesh is built.
  begin_watch(launch, options, roster, std::move(rendezvous.connections));
  Mesh mesh = build_mesh(launch.world_rank, rendezvous.job_roster, listener, deadline, how.secret);
  warn_of_unknown_peers(rendezvous.refused + mesh.refused);
  return world_over(
      make_tcp_fabric({.world_rank = launch.world_rank, .roster = roster}, std::move(mesh.data)),
      launch, options);
}

// Too few file descriptors would look like a firewall. A rank opens 36 files for MPI, checkpoints
// and everything else; the rest are connections to other ranks: data by tcp, and rank 0's watch.
void check_open_files(const LaunchInfo& launch) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  const int by_tcp = launch.launcher == Launcher::kOpenMpi ? 0 : 1;
  const int per_rank = by_tcp + (launch.world_rank == 0 ? 1 : 0);
  const auto needed = static_cast<rlim_t>(40 + per_rank * launch.world_size);
  FM_MACHINE_CHECK(files.rlim_cur >= needed, ExitCode::kRendezvousFailed, "a rank must be allowed ",
                   needed, " open files; raise `ulimit -n` (", files.rlim_cur, ", ",
                   launch.world_size, " ranks)");
}

// Ranks that share memory would wait for ranks that do not.
void check_same_choice(bool shared_memory, Communicator& wire) {
  const std::int64_t mine = shared_memory ? 1 : 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(wire.size()));
  wire.all_gather({&mine, core::Elements(1), core::DType::kI64},
                  {all.data(), core::Elements(wire.size()), core::DType::kI64})
      .finish();
  const auto other = std::ranges::find_if(all, [&](std::int64_t one) { return one != all[0]; });
  const auto word = [](bool one) { return one ? "true" : "false"; };
  FM_USER_CHECK(other == all.end(),
                "all ranks must be started with the same --shm; give every host the same flags "
                "(rank ",
                other - all.begin(), " beside rank 0: --shm is ", word(all[0] == 0), ", not ",
                word(all[0] != 0), ")");
}

}  // namespace

void print_and_exit(const PeerLoss& loss) {
  core::end_process_in(kEndMs, loss.exit_code);
  core::print_error_line(loss.message, kReadMs);
  _exit(loss.exit_code);
}

std::unique_ptr<Communicator> connect(const LaunchInfo& launch, const ConnectOptions& options) {
  FM_CHECK(membership().watch == nullptr, "a process joins one world only");
  if (launch.world_size == 1) return make_solo();
  check_open_files(launch);
  auto wire = launch.launcher == Launcher::kOpenMpi ? connect_mpi(launch, options)
                                                    : connect_tcp(launch, options);
  check_same_choice(options.shared_memory, *wire);
  if (!options.shared_memory) return wire;
  return share_memory(std::move(wire), {.label = launch.host_label, .cpus = options.host_cpus});
}

std::string trust_line(const LaunchInfo& launch) {
  return trust_line(launch, job_secret().has_value());
}

void shut_down() {
  Membership& member = membership();
  if (member.watch != nullptr) member.watch->shut_down();
  member.watch.reset();
  if (const auto leave = std::exchange(member.leave, nullptr)) leave();
}

void shut_down_with_error(int exit_code, const std::string& message) noexcept {
  Membership& member = membership();
  if (member.watch == nullptr) return;
  member.watch->shut_down_with_error(exit_code, message);
  member.watch.reset();
}

// LibTorch takes 0.15 s to load, and only ranks that torchrun starts use it.
std::unique_ptr<RendezvousStore> open_torch_store(const StoreOptions& options) {
  using Open = RendezvousStore* (*)(const StoreOptions&);
  static const auto kOpen =
      reinterpret_cast<Open>(core::late_symbol("libfm_torch_store.so", "fm_open_torch_store"));
  return std::unique_ptr<RendezvousStore>(kOpen(options));
}

}  // namespace fm::comm
