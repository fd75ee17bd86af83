#include "comm/meet/tcp_mesh.h"

#include <string>
#include <utility>

#include "comm/meet/place.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
using core::ExitCode;

Mesh build_mesh(int world_rank, const Attendance& attendance, const Socket& listener,
                const Deadline& deadline) {
  const auto own = static_cast<std::size_t>(world_rank);
  const std::vector<Introduction>& ranks = attendance.ranks;
  const Hello hello{.token = attendance.token, .world_rank = world_rank, .purpose = Purpose::kData};
  Mesh mesh;
  mesh.data.resize(ranks.size());
  for (std::size_t rank = 0; rank < own; ++rank) {
    check_reachable(ranks[own], ranks[rank]);
    mesh.data[rank] = dial({ranks[rank].endpoint}, hello, name_of(ranks[rank].member), deadline);
  }
  std::set<Visitor> expected;
  for (std::size_t rank = own + 1; rank < ranks.size(); ++rank) {
    expected.insert({Purpose::kData, static_cast<int>(rank)});
  }
  Arrivals arrivals = accept_all(listener, attendance.token, expected, deadline);
  std::vector<std::string> missing;
  for (const Visitor& visitor : expected) {
    const auto rank = static_cast<std::size_t>(visitor.second);
    if (arrivals.sockets.contains(visitor)) {
      mesh.data[rank] = std::move(arrivals.sockets.at(visitor));
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
