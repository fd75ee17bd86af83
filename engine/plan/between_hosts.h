// In what form data ranks send gradients and weights to other hosts, and which gathers stay inside
// a host (docs/between_hosts.md).
#pragma once

#include <string>
#include <vector>

#include "comm/travel.h"
#include "core/mesh.h"

namespace fm::engine {

struct TrainOptions;
struct WorldShape;
struct RunPlan;

struct BetweenHosts {
  std::vector<int> host_of;  // by world rank; empty: every rank has a host to itself
  comm::Travel gradients = comm::Travel::kWhole;
  comm::Travel weights = comm::Travel::kWhole;
  // Ranks of a host, of which each keeps a part of what was gathered; 1: nobody does.
  int secondary = 1;

  // Of some world ranks.
  std::vector<int> hosts_of(const std::vector<int>& ranks) const;
};

// Throws UserError where these ranks cannot do what is asked for. Where no data ranks are on
// several hosts nothing travels, whatever is asked for.
BetweenHosts between_hosts(const TrainOptions& options, const core::Mesh& mesh,
                           const WorldShape& world);

// For banner and plan: what is sent otherwise than it is, with the bound of its error; what was
// asked for without effect. Of nothing that was not asked for.
std::vector<std::string> between_hosts_words(const TrainOptions& options, const RunPlan& plan);

}  // namespace fm::engine
