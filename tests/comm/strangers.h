// Who is no rank and comes to a port of one.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "comm/wire/socket.h"

namespace fm::comm {

// TCP ports of this host at which a process listens, on any address, as the kernel tells them.
std::vector<int> listening_ports(pid_t process);

// Connections to `ports` of this host, on which `word` was sent and nothing more comes.
std::vector<Socket> visit(const std::vector<int>& ports, const std::string& word);

}  // namespace fm::comm
