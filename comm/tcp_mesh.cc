#include "comm/tcp_mesh.h"

#include <charconv>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;

struct Published {
  Member member;
  Endpoint endpoint;
};

std::string text_of(const Published& published) {
  return core::concat(published.member.host, " ", published.member.pid, " ",
                      published.endpoint.address, " ", published.endpoint.port);
}

Published published_of(int world_rank, const std::string& text) {
  const std::vector<std::string> words = core::split(text, ' ');
  Published published;
  const auto number = [](const std::string& word, auto& value) {
    return std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc();
  };
  const bool whole = words.size() == 4 && number(words[1], published.member.pid) &&
                     number(words[3], published.endpoint.port);
  FM_MACHINE_CHECK(whole, ExitCode::kRendezvousFailed,
                   "a rank must publish host, pid, address and port; start all ranks with the "
                   "same build (rank ",
                   world_rank, " published \"", text, "\")");
  published.member.world_rank = world_rank;
  published.member.host = words[0];
  published.endpoint.address = words[2];
  return published;
}

[[noreturn]] void throw_missing(const std::vector<std::string>& missing, const MeshOptions& options,
                                const char* what) {
  throw core::MachineError(
      ExitCode::kRendezvousFailed,
      core::concat("all ranks must meet within the limit; look at the output of the missing ones, "
                   "and start every rank with the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT (",
                   "rank ", options.world_rank, " of ", options.world_size, " waited ",
                   options.rendezvous_ms, " ms, ", what, " rank ", core::join(missing, ", "), ")"));
}

std::vector<Published> meet(MeetingStore& store, const MeshOptions& options,
                            const Deadline& deadline) {
  std::vector<Published> all;
  std::vector<std::string> missing;
  for (int rank = 0; rank < options.world_size; ++rank) {
    const auto text = store.find(core::concat("member/", rank), deadline);
    if (text) {
      all.push_back(published_of(rank, *text));
    } else {
      missing.push_back(std::to_string(rank));
    }
  }
  if (!missing.empty()) throw_missing(missing, options, "no sign of");
  return all;
}

// A loopback address is of no use on another host.
void check_reachable(const Published& own, const Published& peer) {
  FM_MACHINE_CHECK(own.member.host == peer.member.host || !is_loopback(peer.endpoint.address),
                   ExitCode::kRendezvousFailed,
                   "MASTER_ADDR must be an address that every host can reach; name an address of "
                   "the network, not of the loopback device (",
                   name_of(peer.member), " listens on ", peer.endpoint.address, ", seen from ",
                   name_of(own.member), ")");
}

std::set<Visitor> expected_visitors(const MeshOptions& options) {
  std::set<Visitor> expected;
  for (int rank = options.world_rank + 1; rank < options.world_size; ++rank) {
    expected.insert({Purpose::kData, rank});
    if (options.world_rank == 0) expected.insert({Purpose::kWatch, rank});
  }
  return expected;
}

}  // namespace

Mesh build_mesh(MeetingStore& store, const MeshOptions& options) {
  const Deadline deadline(options.rendezvous_ms);
  const Socket listener = listen_on(options.address);
  const Published own{this_process(options.world_rank), {options.address, port_of(listener)}};
  if (options.world_rank == 0) store.set("token", hex_of(random_token()));
  store.set(core::concat("member/", options.world_rank), text_of(own));
  const std::vector<Published> all = meet(store, options, deadline);
  const auto token_text = store.find("token", deadline);
  if (!token_text) throw_missing({"0"}, options, "no token of");
  Hello hello{.token = token_of(*token_text), .world_rank = options.world_rank};

  Mesh mesh;
  const auto size = static_cast<std::size_t>(options.world_size);
  mesh.data.resize(size);
  mesh.watch.resize(options.world_rank == 0 ? size : 1);
  for (const Published& peer : all) mesh.roster.push_back(peer.member);
  for (int rank = 0; rank < options.world_rank; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    check_reachable(own, all[at]);
    hello.purpose = Purpose::kData;
    mesh.data[at] = dial({all[at].endpoint}, hello, name_of(all[at].member), deadline);
    if (rank > 0) continue;
    hello.purpose = Purpose::kWatch;
    mesh.watch[0] = dial({all[0].endpoint}, hello, name_of(all[0].member), deadline);
  }
  std::set<Visitor> expected = expected_visitors(options);
  Arrivals arrivals = accept_all(listener, hello.token, expected, deadline);
  for (auto& [visitor, socket] : arrivals.sockets) {
    auto& sockets = visitor.first == Purpose::kData ? mesh.data : mesh.watch;
    sockets[static_cast<std::size_t>(visitor.second)] = std::move(socket);
    expected.erase(visitor);
  }
  std::vector<std::string> missing;
  for (const Visitor& visitor : expected) missing.push_back(std::to_string(visitor.second));
  if (!missing.empty()) throw_missing(missing, options, "no connection from");
  mesh.refused = arrivals.refused;
  return mesh;
}

}  // namespace fm::comm
