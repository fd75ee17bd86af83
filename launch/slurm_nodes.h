// Lists that Slurm writes into the environment of a step.
#pragma once

#include <string>
#include <vector>

namespace fm::launch {

// The hosts of a list, "gpu[01-03,7],login" with leading zeros kept, in its order. Throws UserError
// (10) with the text where brackets or ranges are not Slurm's, or name more than 100,000 hosts.
std::vector<std::string> slurm_hosts(const std::string& list);

// Tasks per node, by node: "2(x3),1" is 2, 2, 2, 1. Throws as above.
std::vector<int> slurm_counts(const std::string& list);

}  // namespace fm::launch
