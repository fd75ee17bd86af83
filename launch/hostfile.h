// DeepSpeed's hostfile, its choice of hosts and slots, and its file of variables, by what the help
// and the unit tests of deepspeed/launcher/runner.py promise.
#pragma once

#include <string>
#include <vector>

namespace fm::launch {

struct HostSlots {
  std::string host;
  std::vector<int> slots;  // a rank each
};

// Lines "NAME slots=N"; blank lines, and what begins with # as a word, count for nothing. Throws
// UserError (11) with file:line for other lines, a host that comes twice, and a file without hosts.
std::vector<HostSlots> hosts_in(const std::string& text, const std::string& path);

// NODE[@NODE ...] with NODE = NAME[:SLOT[,SLOT ...]], at most one of both: a name alone is all its
// slots, parts of one host add up, the hostfile has the order, a host without slots goes. Throws
// UserError (10) for hosts and slots that the hostfile has not, and where nothing is left.
std::vector<HostSlots> chosen_hosts(const std::vector<HostSlots>& hosts, const std::string& include,
                                    const std::string& exclude);

// The first `nodes` of them, and the first `slots` of each; -1: all. Throws UserError (10) where
// there are fewer.
std::vector<HostSlots> first_hosts(std::vector<HostSlots> hosts, int nodes, int slots);

// Lines NAME=VALUE of .deepspeed_env: blank lines and comments count for nothing, quotes around a
// whole value go. Throws UserError (11) with file:line.
std::vector<std::string> variables_in(const std::string& text, const std::string& path);

}  // namespace fm::launch
