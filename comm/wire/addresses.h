// Addresses that ranks tell each other: those of an interface of this host, and those of names,
// which name servers may learn late.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/wire/socket.h"

namespace fm::comm {

struct Interface {
  std::string name;     // "ib0"
  std::string address;  // numeric; an IPv6 address of the link alone with its scope, "fe80::1%ib0"
};
// Those that are up, once for each of their addresses.
std::vector<Interface> own_interfaces();

// The address of the first interface of a list ("ib0,eth1") that is among `all`; IPv4 before IPv6,
// addresses of the link alone last. Throws UserError (10) with all of them where none is.
std::string address_of_interface(const std::string& list, const std::vector<Interface>& all);

// What a peer tells of an address of the link alone, with the scope of the own host's interface in
// place of the peer's.
std::string seen_from(const std::string& own, const std::string& told);

// MASTER_ADDR without the brackets of an IPv6 address, "[::1]" or "[::1]:29500". Throws UserError
// (10) where the port in it is another one.
std::string host_of(const std::string& master_addr, int port);

// Prints a line on stderr.
using Warn = std::function<void(const std::string& line)>;

// Where names are asked for; tests have their own.
struct Names {
  std::function<std::vector<Endpoint>(const std::string& host, int port)> resolve = endpoints_of;
  Warn warn = {};
};

// The addresses of a name. Asks again until it resolves, and warns after 10 s. Throws MachineError
// (14) at the deadline.
std::vector<Endpoint> await_name(const Endpoint& named, const Names& names,
                                 const Deadline& deadline);

// The own address on the route to `named`, which peers of a job on several hosts can reach. Throws
// MachineError (14) when the name does not resolve, or no route leads there, before the deadline.
std::string address_towards(const Endpoint& named, const Names& names, const Deadline& deadline);

}  // namespace fm::comm
