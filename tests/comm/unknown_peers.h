// Connections to a port of a rank by a process that is no rank.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/wire/socket.h"

namespace fm::comm {

// TCP ports of this host at which a process listens, on any address, as the kernel lists them.
std::vector<int> listening_ports(pid_t process);

// Connections to `ports` of this host, on which `word` was sent and nothing follows.
std::vector<Socket> visit(const std::vector<int>& ports, const std::string& word);

}  // namespace fm::comm
