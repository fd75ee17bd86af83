#include "comm/wire/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

constexpr auto kPause = std::chrono::milliseconds(200);
constexpr int kQuietMs = 10'000;

bool of_link(const std::string& address) { return core::lower(address).starts_with("fe80:"); }

int order_of(const Interface& one) {
  if (of_link(one.address)) return 2;
  return one.address.find(':') == std::string::npos ? 0 : 1;
}

std::string listed(const std::vector<Interface>& all) {
  std::vector<std::string> words;
  for (const Interface& one : all) words.push_back(one.name + " " + one.address);
  return core::join(words, ", ");
}

}  // namespace

std::vector<Interface> own_interfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(raw, &freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* device = all.get(); device != nullptr; device = device->ifa_next) {
    if (device->ifa_addr == nullptr || (device->ifa_flags & IFF_UP) == 0) continue;
    const int family = device->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({device->ifa_name, numeric_text(*device->ifa_addr)});
  }
  return found;
}

std::string address_of_interface(const std::string& list, const std::vector<Interface>& all) {
  for (const std::string& name : core::split(list, ',')) {
    std::vector<Interface> named;
    std::ranges::copy_if(all, std::back_inserter(named),
                         [&](const Interface& one) { return one.name == name; });
    const auto best = std::ranges::min_element(named, {}, order_of);
    if (best != named.end()) return best->address;
  }
  throw core::UserError(
      core::ExitCode::kConfigError,
      core::concat("--interface or FME_INTERFACE must name a network interface of this host that "
                   "is up and has an address; take one of its own (",
                   list, "; here are ", listed(all), ")"));
}

std::string seen_from(const std::string& own, const std::string& told) {
  const std::size_t scope = own.find('%');
  if (!of_link(told) || scope == std::string::npos) return told;
  return told.substr(0, told.find('%')) + own.substr(scope);
}

std::string host_of(const std::string& master_addr, int port) {
  const std::size_t end = master_addr.find(']');
  if (!master_addr.starts_with('[') || end == std::string::npos) return master_addr;
  const std::string rest = master_addr.substr(end + 1);
  FM_USER_CHECK(rest.empty() || rest == core::concat(":", port),
                "a port behind the brackets of MASTER_ADDR must be MASTER_PORT; leave it out "
                "(MASTER_ADDR=",
                master_addr, ", MASTER_PORT=", port, ")");
  return master_addr.substr(1, end - 1);
}

std::vector<Endpoint> await_name(const Endpoint& named, const Names& names,
                                 const Deadline& deadline) {
  const Deadline quiet = deadline.from_now(kQuietMs);
  for (bool warned = false;;) {
    std::vector<Endpoint> found = names.resolve(named.address, named.port);
    if (!found.empty()) return found;
    FM_MACHINE_CHECK(
        !deadline.passed(), core::ExitCode::kRendezvousFailed,
        "MASTER_ADDR must name the host of rank 0; check the name (MASTER_ADDR=", named.address,
        ", which name servers did not know for ", deadline.limit_ms(), " ms)");
    if (!warned && quiet.passed() && names.warn) {
      names.warn(core::concat("fmengine: name servers do not know ", named.address, " yet, after ",
                              kQuietMs / 1000, " s; asking again until the limit of ",
                              deadline.limit_ms() / 1000, " s"));
      warned = true;
    }
    std::this_thread::sleep_for(std::min(kPause, std::chrono::milliseconds(deadline.left_ms())));
  }
}

std::string address_towards(const Endpoint& named, const Names& names, const Deadline& deadline) {
  while (true) {
    for (const Endpoint& endpoint : await_name(named, names, deadline)) {
      if (std::string own = own_address_towards(endpoint); !own.empty()) return own;
    }
    FM_MACHINE_CHECK(!deadline.passed(), core::ExitCode::kRendezvousFailed,
                     "MASTER_ADDR must name a host that this one can reach; check the name and "
                     "the network (MASTER_ADDR=",
                     named.address, ", waited ", deadline.limit_ms(), " ms)");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace fm::comm
