#include "comm/meet/mpi_world.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "comm/meet/handshake.h"
#include "comm/meet/world.h"
#include "comm/wire/addresses.h"
#include "comm/wire/fabrics.h"
#include "comm/wire/late_mpi.h"
#include "comm/wire/watchdog.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;

struct Card {  // exchanged between all ranks; plain bytes for MPI
  std::array<char, 256> host{};
  std::int64_t pid = 0;
};

// A limit for MPI's blocking calls, which have none and would wait for a stopped peer for ever.
//
// Thread:    main.
// Lifetime:  the rendezvous.
class MeetingLimit {
 public:
  MeetingLimit(int world_rank, const JoinOptions& options)
      : world_rank_(world_rank), options_(options), deadline_(options.rendezvous_ms) {}

  const Deadline& deadline() const { return deadline_; }

  // The calling thread is in `call` as long as the result lives.
  Watchdog guard(const char* call) const {
    return Watchdog(deadline_, [this, call] {
      options_.on_late(core::concat(
          "fmengine: every rank must come to ", call,
          " within the limit of the meeting; look whether all ranks were started and none is "
          "stopped (rank ",
          world_rank_, " waited ", deadline_.limit_ms(), " ms)"));
    });
  }

 private:
  int world_rank_;
  const JoinOptions& options_;
  Deadline deadline_;
};

Roster gather_roster(int world_rank, int world_size, const MeetingLimit& limit) {
  const Member own = this_process(world_rank);
  Card card{.pid = own.pid};
  own.host.copy(card.host.data(), card.host.size() - 1);
  std::vector<Card> cards(static_cast<std::size_t>(world_size));
  const Watchdog guard = limit.guard("MPI_Allgather");
  mpi().Allgather(&card, sizeof card, mpi().byte, cards.data(), sizeof card, mpi().byte,
                  mpi().world);
  Roster roster;
  for (int rank = 0; rank < world_size; ++rank) {
    const Card& one = cards[static_cast<std::size_t>(rank)];
    roster.push_back({.world_rank = rank, .host = one.host.data(), .pid = one.pid});
  }
  return roster;
}

bool one_host(const Roster& roster) {
  return std::ranges::all_of(roster,
                             [&](const Member& member) { return member.host == roster[0].host; });
}

// Rank 0 broadcasts by MPI_Bcast how to reach its watch: "token port near far far ...".
std::string broadcast_text(const std::string& text, const MeetingLimit& limit) {
  std::array<char, 4096> block{};
  text.copy(block.data(), block.size() - 1);
  const Watchdog guard = limit.guard("MPI_Bcast of rank 0");
  mpi().Bcast(block.data(), static_cast<int>(block.size()), mpi().byte, 0, mpi().world);
  return block.data();
}

// Addresses of this host that other hosts may reach.
std::vector<std::string> addresses_of_host() {
  std::vector<std::string> addresses;
  for (const Interface& one : own_interfaces()) {
    const bool far = !is_loopback(one.address) && one.address.find('%') == std::string::npos;
    if (far) addresses.push_back(one.address);
  }
  return addresses;
}

// The invitation in words.
void add_places(std::vector<std::string>& words, WatchPlaces places) {
  words.push_back(std::move(places.near));
  for (std::string& address : places.far) words.push_back(std::move(address));
}

void host_watch(MpiWorld& world, const JoinOptions& options, const MeetingLimit& limit) {
  const Deadline& deadline = limit.deadline();
  const bool local = one_host(world.roster);
  const Socket listener = listen_on(local ? "127.0.0.1" : options.interface_address);
  const Token token = random_token();
  std::vector<std::string> words{hex_of(token), std::to_string(port_of(listener))};
  add_places(words, watch_places(local, options.interface_address, addresses_of_host()));
  broadcast_text(core::join(words, " "), limit);
  std::set<PeerKey> expected;
  for (const Member& member : world.roster) {
    if (member.world_rank > 0) expected.insert({Purpose::kWatch, member.world_rank});
  }
  Arrivals arrivals = accept_all(listener, token, expected, deadline, options.secret);
  world.watch.resize(world.roster.size());
  world.refused = arrivals.refused;
  std::vector<std::string> missing;
  for (const PeerKey& key : expected) {
    const auto rank = static_cast<std::size_t>(key.second);
    if (arrivals.sockets.contains(key)) {
      world.watch[rank] = std::move(arrivals.sockets.at(key));
    } else {
      missing.push_back(name_of(world.roster[rank]));
    }
  }
  FM_MACHINE_CHECK(missing.empty(), ExitCode::kRendezvousFailed,
                   "every rank must reach rank 0 by TCP; check firewalls between the hosts, and "
                   "that all ranks have the same FME_JOB_TOKEN, or none (waited ",
                   deadline.limit_ms(), " ms for ", core::join(missing, ", "), ")");
}

void join_watch(MpiWorld& world, int world_rank, const JobSecret* secret,
                const MeetingLimit& limit) {
  const std::vector<std::string> words = core::split(broadcast_text("", limit), ' ');
  FM_CHECK(words.size() >= 3, "an invitation of ", words.size(), " words");
  int port = 0;
  std::from_chars(words[1].data(), words[1].data() + words[1].size(), port);
  const bool same_host =
      world.roster[static_cast<std::size_t>(world_rank)].host == world.roster[0].host;
  std::vector<Endpoint> endpoints;
  if (same_host) endpoints.push_back({words[2], port});
  for (std::size_t i = 3; i < words.size() && !same_host; ++i)
    endpoints.push_back({words[i], port});
  const Hello hello{
      .token = token_of(words[0]), .world_rank = world_rank, .purpose = Purpose::kWatch};
  world.watch.push_back(dial(endpoints, hello, name_of(world.roster[0]), limit.deadline(), secret));
}

void init_mpi(const MeetingLimit& limit) {
  const Watchdog guard = limit.guard("MPI_Init");
  int provided = 0;
  FM_MACHINE_CHECK(
      mpi().Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS &&
          provided >= MPI_THREAD_SERIALIZED,
      ExitCode::kRendezvousFailed,
      "MPI_Init must grant MPI_THREAD_SERIALIZED; use an OpenMPI built with threads (granted ",
      provided, ")");
}

}  // namespace

MpiWorld join_mpi(int world_rank, int world_size, const JoinOptions& options) {
  const MeetingLimit limit(world_rank, options);
  // Probing every fabric takes OpenMPI 0.2 s; on one host none is needed, nor is its tcp component,
  // which listens on all interfaces and waits for anyone who connects. A user's choice has
  // priority.
  if (options.one_host) {
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", "self,vader", 0);
  }
  init_mpi(limit);
  int rank = 0;
  int size = 0;
  mpi().Comm_rank(mpi().world, &rank);
  mpi().Comm_size(mpi().world, &size);
  FM_USER_CHECK(rank == world_rank && size == world_size,
                "MPI and its launcher must count the same ranks; start with the mpirun of the "
                "OpenMPI that fmengine was built with (MPI: rank ",
                rank, " of ", size, ", mpirun: rank ", world_rank, " of ", world_size, ")");
  MpiWorld world;
  world.roster = gather_roster(world_rank, world_size, limit);
  if (world_rank == 0) {
    host_watch(world, options, limit);
  } else {
    join_watch(world, world_rank, options.secret, limit);
  }
  const Watchdog guard = limit.guard("MPI_Comm_dup");
  const auto calls = std::make_shared<CallMark>();
  world.fabric = make_mpi_fabric(world_rank, world.roster, calls);
  world.calls = calls;
  return world;
}

void leave_mpi(int world_rank, int limit_ms,
               const std::function<void(const std::string& line)>& on_late) {
  const Watchdog guard(Deadline(limit_ms), [&] {
    on_late(core::concat(
        "fmengine: MPI_Finalize must return within the limit; every rank has finished its work and "
        "nothing is lost, look at mpirun and who is connected to its ports (rank ",
        world_rank, " waited ", limit_ms, " ms)"));
  });
  mpi().Finalize();
}

std::string mpi_version() {
  if (!mpi_is_here()) return "none: mpirun cannot start ranks here, torchrun can";
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  mpi().Get_library_version(text, &length);
  const std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

}  // namespace fm::comm
