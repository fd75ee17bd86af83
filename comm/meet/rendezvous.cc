#include "comm/meet/rendezvous.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "comm/meet/accept_queue.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;

constexpr const char* kKey = "rank0";

// Ranks above 0.

// Where both started together, the limit of rank 0 shall pass first: it knows which ranks are
// missing.
constexpr int kAfterRank0Ms = 500;
constexpr int kConnectMs = 3'000;
constexpr int kProofMs = 10'000;  // rank 0 answers at once; what does not is asked again

// kIncomplete: the connection ended, or the deadline passed, before the frame was complete.
// `bytes`: what came, as far as it was read.
FrameStatus read_frame(const Socket& socket, std::size_t longest, const Deadline& deadline,
                       Frame& frame, std::string& bytes) {
  bytes.assign(kFrameHeader, '\0');
  if (!receive_fully(socket, std::as_writable_bytes(std::span(bytes)), deadline)) {
    return FrameStatus::kIncomplete;
  }
  const FrameStatus header = decode(bytes, longest, frame);
  if (header != FrameStatus::kIncomplete) return header;
  bytes.resize(kFrameHeader + announced_length(bytes));
  const auto text = std::as_writable_bytes(std::span(bytes)).subspan(kFrameHeader);
  if (!receive_fully(socket, text, deadline)) return FrameStatus::kIncomplete;
  return decode(bytes, longest, frame);
}

[[noreturn]] void throw_refusal(const Frame& refusal) {
  const bool lost = refusal.exit_code == static_cast<int>(ExitCode::kPeerLost);
  throw core::MachineError(lost ? ExitCode::kPeerLost : ExitCode::kRendezvousFailed,
                           printable(refusal.text, kLongestFrameText));
}

struct Rank0Connection {
  Socket connection;
  PeerInfo rank0 = {};
};

// What answered instead of rank 0.
struct Failure {
  std::string why;
  bool distrust = false;  // it has another job token, or none: it cannot end this rank
};

bool trusted(const Socket& socket, const JobSecret& secret, const Deadline& deadline,
             Failure& failure) {
  const Deadline soon = deadline.from_now(deadline.left_ms(kProofMs));
  const Distrust distrust = prove_to(socket, secret, soon);
  failure = {text_of(distrust), distrust == Distrust::kNoToken || distrust == Distrust::kOther};
  return distrust == Distrust::kNone;
}

// Without a token this rank cannot take part; a proof is the first that it hears.
void check_no_token(std::string_view bytes, const Endpoint& endpoint) {
  FM_MACHINE_CHECK(!begins_proof(bytes), ExitCode::kRendezvousFailed,
                   "rank 0 has a job token and this rank has none; set the same FME_JOB_TOKEN on "
                   "all ranks, or on none (",
                   text_of(endpoint), ")");
}

// One attempt. Where the connection returned is closed, `failure` says what answered instead.
Rank0Connection try_once(const Endpoint& endpoint, const PeerInfo& own, const JobSecret* secret,
                         const Deadline& deadline, Failure& failure) {
  Rank0Connection found{
      .connection = connect_once(endpoint, deadline.from_now(deadline.left_ms(kConnectMs)))};
  failure = {"nothing accepts connections there"};
  if (!found.connection.open()) return {};
  if (secret != nullptr && !trusted(found.connection, *secret, deadline, failure)) return {};
  failure = {"what listens there closed the connection without a word of fmengine"};
  const std::string hello = encode({FrameKind::kHello, 0, text_of(own)});
  if (!send_fully(found.connection, std::as_bytes(std::span(hello)), deadline)) return {};
  Frame frame;
  std::string bytes;
  const FrameStatus reading =
      read_frame(found.connection, kLongestFrameText, deadline, frame, bytes);
  if (secret == nullptr) check_no_token(bytes, endpoint);
  if (reading == FrameStatus::kIncomplete && deadline.passed())
    failure = {"what listens there says nothing"};
  if (reading == FrameStatus::kInvalid)
    failure = {"what listens there is not rank 0 of an fmengine job"};
  if (reading != FrameStatus::kComplete) return {};
  if (frame.kind == FrameKind::kRefusal) throw_refusal(frame);
  const auto rank0 = peer_info_of(frame.text);
  const bool welcome = frame.kind == FrameKind::kWelcome && rank0.has_value();
  if (!welcome) return {};
  found.rank0 = *rank0;
  return found;
}

Rank0Connection find_rank0(const PeerInfo& own, const FindEndpoints& find,
                           const MeetOptions& options, const Deadline& deadline) {
  std::string why;
  bool warned = false;
  for (int pause_ms = 10;; pause_ms = std::min(2 * pause_ms, 250)) {
    const std::vector<Endpoint> endpoints = find();
    if (endpoints.empty()) why = "the name does not resolve";
    for (const Endpoint& endpoint : endpoints) {
      Failure failure;
      Rank0Connection found = try_once(endpoint, own, options.secret, deadline, failure);
      if (found.connection.open()) return found;
      // An attempt that the limit cut short has seen less than the one before.
      if (!why.empty() && deadline.passed()) continue;
      why = core::concat(text_of(endpoint), ": ", failure.why);
      if (!failure.distrust || std::exchange(warned, true) || !options.names.warn) continue;
      options.names.warn(core::concat("fmengine: rank ", own.member.world_rank,
                                      " looks for rank 0 at ", why, "; still trying"));
    }
    FM_MACHINE_CHECK(
        !deadline.passed(), ExitCode::kRendezvousFailed,
        "every rank must reach rank 0 at MASTER_ADDR and MASTER_PORT within the limit; "
        "check that rank 0 runs and the network between the hosts (rank ",
        own.member.world_rank, " of ", own.world_size, " waited ", deadline.limit_ms(), " ms; ",
        why, ")");
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline.left_ms(pause_ms)));
  }
}

// Rank 0.

constexpr int kSendMs = 5'000;
// A SIGTERM that is sent to all ranks of a host reaches this one within this time, and explains
// more.
constexpr auto kSignalWait = std::chrono::milliseconds(200);

struct JoinedRank {
  PeerInfo info;
  Socket connection;  // closed until the rank has joined
};

bool send_frame(const Socket& socket, Frame frame) {
  if (frame.kind == FrameKind::kRefusal)
    frame.text.resize(std::min(frame.text.size(), kLongestFrameText));
  const std::string bytes = encode(frame);
  return send_fully(socket, std::as_bytes(std::span(bytes)), Deadline(kSendMs));
}

std::string printable_name(const PeerInfo& who) {
  return core::concat("rank ", who.member.world_rank, " (host ", printable(who.member.host),
                      ", pid ", who.member.pid, ")");
}

// Invariant: ranks_ has an entry for every rank; those above 0 with an open connection have joined.
// Thread:    main.
// Lifetime:  the rendezvous.
class RendezvousServer {
 public:
  RendezvousServer(const ServerOptions& options, const Socket& listener)
      : options_(options),
        queue_(
            listener, kFrameHeader + kLongestFrameText,
            [this](Socket& candidate, std::string_view received) {
              return examine(candidate, received);
            },
            options.secret) {
    ranks_.resize(static_cast<std::size_t>(options.own.world_size));
    ranks_[0].info = options.own;
  }

  Rendezvous wait_for_all(const Deadline& deadline) {
    while (!missing().empty()) {
      if (deadline.passed()) fail_at_limit(deadline);
      poll_once(deadline);
      if (conflict_) fail(ExitCode::kRendezvousFailed, *conflict_);
    }
    return send_roster();
  }

 private:
  HelloStatus examine(Socket& candidate, std::string_view received);
  std::string conflict_with(const PeerInfo& who) const;
  void refuse_other_job(const Socket& candidate, const PeerInfo& who);
  HelloStatus refuse_token(const Socket& candidate);
  void warn_once(const std::string& line);
  void poll_once(const Deadline& deadline);
  Rendezvous send_roster();
  std::vector<std::string> missing() const;
  [[noreturn]] void fail_at_limit(const Deadline& deadline);
  [[noreturn]] void fail_for_lost(const JoinedRank& gone);
  [[noreturn]] void fail(ExitCode code, const std::string& why);

  const ServerOptions& options_;
  std::vector<JoinedRank> ranks_;
  std::optional<std::string> conflict_;  // why the ranks cannot form a world
  bool warned_ = false;
  AcceptQueue queue_;
};

HelloStatus RendezvousServer::examine(Socket& candidate, std::string_view received) {
  if (options_.secret == nullptr && begins_proof(received)) return refuse_token(candidate);
  Frame frame;
  const FrameStatus reading = decode(received, kLongestFrameText, frame);
  if (reading == FrameStatus::kIncomplete) return HelloStatus::kIncomplete;
  if (reading == FrameStatus::kInvalid || frame.kind != FrameKind::kHello)
    return HelloStatus::kUnknown;
  std::optional<PeerInfo> who = peer_info_of(frame.text);
  if (!who) return HelloStatus::kUnknown;
  if (who->job != options_.own.job) {
    refuse_other_job(candidate, *who);
    return HelloStatus::kUnknown;
  }
  const std::string conflict = conflict_with(*who);
  if (!conflict.empty()) {
    if (!conflict_) conflict_ = conflict;
    send_frame(candidate,
               {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed), conflict});
    return HelloStatus::kHandled;
  }
  PeerInfo self = options_.own;
  self.job.clear();
  if (!send_frame(candidate, {FrameKind::kWelcome, 0, text_of(self)})) return HelloStatus::kUnknown;
  const auto rank = static_cast<std::size_t>(who->member.world_rank);
  ranks_[rank] = {.info = std::move(*who), .connection = std::move(candidate)};
  return HelloStatus::kHandled;
}

// Why `who` cannot belong to this job, or "".
std::string RendezvousServer::conflict_with(const PeerInfo& who) const {
  const PeerInfo& own = options_.own;
  const int rank = who.member.world_rank;
  if (who.world_size != own.world_size) {
    return core::concat("all ranks must have the same WORLD_SIZE; start them again (",
                        printable_name(own), " has WORLD_SIZE=", own.world_size, ", ",
                        printable_name(who), " has WORLD_SIZE=", who.world_size, ")");
  }
  if (rank >= own.world_size) {
    return core::concat("RANK must be below WORLD_SIZE; start them again (", printable_name(who),
                        " of ", own.world_size, ")");
  }
  const JoinedRank& first = ranks_[static_cast<std::size_t>(rank)];
  if (rank > 0 && !first.connection.open()) return "";
  return core::concat(
      "every rank must have a RANK of its own; start them again, each with another (",
      printable_name(first.info), " and ", printable_name(who), ")");
}

void RendezvousServer::refuse_other_job(const Socket& candidate, const PeerInfo& who) {
  send_frame(candidate,
             {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed),
              core::concat("every job must have a MASTER_PORT of its own, and its ranks "
                           "the same --output_dir or FME_JOB_ID; choose another port, or "
                           "give all ranks the same (at ",
                           options_.address, " ", printable_name(options_.own),
                           " of another job answers, not that of ", printable(who.job), ")")});
  warn_once(core::concat("refused ", printable_name(who), " of another job (", printable(who.job),
                         " there, ", printable(options_.own.job), " here)"));
}

// A rank that has a token shall learn why nobody proves to know it.
HelloStatus RendezvousServer::refuse_token(const Socket& candidate) {
  send_frame(candidate, {FrameKind::kRefusal, static_cast<int>(ExitCode::kRendezvousFailed), ""});
  warn_once(
      "refused a rank with a job token, as rank 0 has none; set the same FME_JOB_TOKEN on all "
      "ranks, or on none");
  return HelloStatus::kUnknown;
}

void RendezvousServer::warn_once(const std::string& line) {
  if (std::exchange(warned_, true) || !options_.warn) return;
  options_.warn(
      core::concat("fmengine: ", line, "; still waiting for rank ", core::join(missing(), ", ")));
}

void RendezvousServer::poll_once(const Deadline& deadline) {
  std::vector<pollfd> connections;
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].connection.open()) continue;
    connections.push_back({.fd = ranks_[rank].connection.fd(), .events = POLLIN, .revents = 0});
    ranks.push_back(rank);
  }
  queue_.poll_once(connections, deadline);
  if (queue_.distrusted() > 0) {
    warn_once(core::concat("refused a connection without the job token of rank 0 at ",
                           options_.address, "; set the same FME_JOB_TOKEN on all ranks"));
  }
  for (std::size_t i = 0; i < connections.size(); ++i) {
    // A rank sends nothing until it has the roster, so any event is its end.
    if (connections[i].revents != 0) fail_for_lost(ranks_[ranks[i]]);
  }
}

Rendezvous RendezvousServer::send_roster() {
  Rendezvous rendezvous{.job_roster = {.token = random_token()}, .refused = queue_.refused()};
  for (const JoinedRank& rank : ranks_) rendezvous.job_roster.ranks.push_back(rank.info);
  const Frame roster{FrameKind::kRoster, 0, text_of(rendezvous.job_roster)};
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!send_frame(ranks_[rank].connection, roster)) fail_for_lost(ranks_[rank]);
  }
  for (JoinedRank& rank : ranks_) rendezvous.connections.push_back(std::move(rank.connection));
  return rendezvous;
}

std::vector<std::string> RendezvousServer::missing() const {
  std::vector<std::string> ranks;
  for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].connection.open()) ranks.push_back(std::to_string(rank));
  }
  return ranks;
}

void RendezvousServer::fail_at_limit(const Deadline& deadline) {
  fail(ExitCode::kRendezvousFailed,
       core::concat(
           "all ranks must meet within the limit; look at the output of the missing ones, "
           "and start every rank with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT (",
           "rank 0 of ", options_.own.world_size, " waited ", deadline.limit_ms(), " ms at ",
           options_.address, ", no sign of rank ", core::join(missing(), ", "),
           queue_.refused() > 0 ? core::concat(", ", queue_.refused(), " strangers came") : "",
           queue_.distrusted() > 0
               ? core::concat(", ", queue_.distrusted(), " of them without the same FME_JOB_TOKEN")
               : "",
           ")"));
}

void RendezvousServer::fail_for_lost(const JoinedRank& gone) {
  const std::vector<std::string> others = missing();
  fail(
      ExitCode::kPeerLost,
      core::concat("all ranks must stay until all have met; look at the output of the one that "
                   "ended, and start them again (",
                   printable_name(gone.info), " ended while the ranks met",
                   others.empty() ? "" : ", no sign yet of rank " + core::join(others, ", "), ")"));
}

void RendezvousServer::fail(ExitCode code, const std::string& why) {
  for (const JoinedRank& rank : ranks_) {
    if (rank.connection.open())
      send_frame(rank.connection, {FrameKind::kRefusal, static_cast<int>(code), why});
  }
  if (code == ExitCode::kPeerLost) std::this_thread::sleep_for(kSignalWait);
  throw core::MachineError(code, why);
}

}  // namespace

Rendezvous join_rendezvous(const PeerInfo& own, const FindEndpoints& find, const Deadline& deadline,
                           const MeetOptions& options) {
  Rank0Connection found = find_rank0(own, find, options, deadline);
  const Deadline last = deadline.from_now(deadline.left_ms() + kAfterRank0Ms);
  Frame frame;
  std::string bytes;
  const FrameStatus reading =
      read_frame(found.connection, longest_roster(own.world_size), last, frame, bytes);
  FM_MACHINE_CHECK(reading != FrameStatus::kIncomplete || !last.passed(),
                   ExitCode::kRendezvousFailed,
                   "all ranks must meet within the limit; look at the output of rank 0, which says "
                   "who is missing (rank ",
                   own.member.world_rank, " waited ", deadline.limit_ms(), " ms with ",
                   name_of(found.rank0.member), ")");
  FM_MACHINE_CHECK(reading != FrameStatus::kIncomplete, ExitCode::kPeerLost,
                   "all ranks must stay until all have met; look at the output of the one that "
                   "ended, and start them again (",
                   name_of(found.rank0.member), " ended while the ranks met)");
  if (reading == FrameStatus::kComplete && frame.kind == FrameKind::kRefusal) throw_refusal(frame);
  const bool is_roster = reading == FrameStatus::kComplete && frame.kind == FrameKind::kRoster;
  auto job_roster = is_roster ? job_roster_of(frame.text, own.world_size) : std::nullopt;
  FM_MACHINE_CHECK(
      job_roster.has_value(), ExitCode::kRendezvousFailed,
      "rank 0 must send the roster of all ranks; start all ranks with the same build (",
      name_of(found.rank0.member), " sent ", frame.text.size(), " other bytes)");
  Rendezvous rendezvous{.job_roster = std::move(*job_roster)};
  rendezvous.connections.push_back(std::move(found.connection));
  return rendezvous;
}

Roster roster_of(const JobRoster& job_roster) {
  Roster roster;
  for (const PeerInfo& rank : job_roster.ranks) roster.push_back(rank.member);
  return roster;
}

Rendezvous serve_rendezvous(const ServerOptions& options, const Socket& listener,
                            const Deadline& deadline) {
  return RendezvousServer(options, listener).wait_for_all(deadline);
}

Rendezvous rendezvous_at(const Endpoint& master, const PeerInfo& own, const MeetOptions& options,
                         const Deadline& deadline) {
  if (own.member.world_rank > 0) {
    return join_rendezvous(
        own, [&] { return options.names.resolve(master.address, master.port); }, deadline, options);
  }
  const Listener listener =
      listen_at_one_of(await_name(master, options.names, deadline), options.interface_address);
  if (listener.everywhere && options.names.warn) {
    options.names.warn(
        core::concat("fmengine: MASTER_ADDR is no address of this host; rank 0 waits on all of "
                     "them, unless --interface names one (MASTER_ADDR=",
                     master.address, ")"));
  }
  const std::string address =
      core::concat(text_of({listener.address, master.port}),
                   is_loopback(listener.address) ? ", where only this host reaches it" : "");
  return serve_rendezvous(
      {.own = own, .address = address, .warn = options.names.warn, .secret = options.secret},
      listener.socket, deadline);
}

Rendezvous rendezvous_by_store(RendezvousStore& store, const PeerInfo& own,
                               const MeetOptions& options, const Deadline& deadline) {
  if (own.member.world_rank == 0) {
    const Socket listener = listen_on(own.endpoint.address);
    PeerInfo here = own;
    here.job.clear();
    here.endpoint.port = port_of(listener);
    store.set(kKey, text_of(here));
    return serve_rendezvous({.own = own,
                             .address = text_of(here.endpoint),
                             .warn = options.names.warn,
                             .secret = options.secret},
                            listener, deadline);
  }
  // Read before every attempt: the store may still hold the rank 0 of ranks that the agent ended.
  const auto rank0 = [&] {
    const auto text = store.find(kKey, deadline);
    FM_MACHINE_CHECK(text.has_value(), ExitCode::kRendezvousFailed,
                     "all ranks must meet within the limit; look at the output of rank 0, which "
                     "did not say where it is (rank ",
                     own.member.world_rank, " of ", own.world_size, " waited ", deadline.limit_ms(),
                     " ms)");
    const auto published = peer_info_of(*text);
    FM_MACHINE_CHECK(published.has_value(), ExitCode::kRendezvousFailed,
                     "rank 0 must leave its address in the store; start all ranks with the same "
                     "build (found ",
                     printable(*text), ")");
    check_reachable(own, *published);
    return std::vector{Endpoint{seen_from(own.endpoint.address, published->endpoint.address),
                                published->endpoint.port}};
  };
  return join_rendezvous(own, rank0, deadline, options);
}

void check_reachable(const PeerInfo& own, const PeerInfo& peer) {
  FM_MACHINE_CHECK(own.member.host == peer.member.host || !is_loopback(peer.endpoint.address),
                   ExitCode::kRendezvousFailed,
                   "MASTER_ADDR must be an address that every host can reach; name an address of "
                   "the network, not of the loopback device (",
                   name_of(peer.member), " listens on ", peer.endpoint.address, ", seen from ",
                   name_of(own.member), ")");
}

Mesh build_mesh(int world_rank, const JobRoster& job_roster, const Socket& listener,
                const Deadline& deadline, const JobSecret* secret) {
  const auto own = static_cast<std::size_t>(world_rank);
  const std::vector<PeerInfo>& ranks = job_roster.ranks;
  const Hello hello{.token = job_roster.token, .world_rank = world_rank, .purpose = Purpose::kData};
  Mesh mesh;
  mesh.data.resize(ranks.size());
  for (std::size_t rank = 0; rank < own; ++rank) {
    check_reachable(ranks[own], ranks[rank]);
    const Endpoint place{seen_from(ranks[own].endpoint.address, ranks[rank].endpoint.address),
                         ranks[rank].endpoint.port};
    mesh.data[rank] = dial({place}, hello, name_of(ranks[rank].member), deadline, secret);
  }
  std::set<PeerKey> expected;
  for (std::size_t rank = own + 1; rank < ranks.size(); ++rank) {
    expected.insert({Purpose::kData, static_cast<int>(rank)});
  }
  Arrivals arrivals = accept_all(listener, job_roster.token, expected, deadline, secret);
  std::vector<std::string> missing;
  for (const PeerKey& key : expected) {
    const auto rank = static_cast<std::size_t>(key.second);
    if (arrivals.sockets.contains(key)) {
      mesh.data[rank] = std::move(arrivals.sockets.at(key));
    } else {
      missing.push_back(name_of(ranks[rank].member));
    }
  }
  FM_MACHINE_CHECK(missing.empty(), ExitCode::kRendezvousFailed,
                   "every rank must reach the others by TCP; check firewalls between the hosts (",
                   name_of(ranks[own].member), " at ", ranks[own].endpoint.address, " port ",
                   ranks[own].endpoint.port, " waited ", deadline.limit_ms(), " ms for ",
                   core::join(missing, ", "), ")");
  mesh.refused = arrivals.refused;
  return mesh;
}

}  // namespace fm::comm
