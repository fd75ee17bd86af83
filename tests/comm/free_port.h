// Ports for ranks that meet by MASTER_PORT.
#pragma once

namespace fm::comm {

// A TCP port that nothing is bound to, below those that the kernel gives to connections by itself
// (ip_local_port_range begins at 32768): no connection of another test gets it before it is used.
// Throws std::runtime_error when none is found.
int free_port();

}  // namespace fm::comm
