#include "tests/comm/unknown_peers.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/check.h"

namespace fm::comm {
namespace {

namespace fs = std::filesystem;

// The inodes of a process's sockets: its descriptors are links to "socket:[inode]".
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(core::concat("/proc/", process, "/fd"), gone)) {
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

}  // namespace

std::vector<int> listening_ports(pid_t process) {
  const std::set<std::string> own = sockets_of(process);
  std::set<int> ports;
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      // sl local_address:port remote st queues timer retransmits uid timeout inode; 0A = LISTEN
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid;
      words >> timeout >> inode;
      if (state != "0A" || !own.contains(inode)) continue;
      ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return {ports.begin(), ports.end()};
}

std::vector<Socket> visit(const std::vector<int>& ports, const std::string& word) {
  std::vector<Socket> visits;
  for (const int port : ports) {
    const Deadline deadline(5'000);
    visits.push_back(connect_once({"127.0.0.1", port}, deadline));
    if (!visits.back().open()) visits.back() = connect_once({"::1", port}, deadline);
    const bool sent =
        visits.back().open() && send_fully(visits.back(), std::as_bytes(std::span(word)), deadline);
    if (!sent) throw std::runtime_error(core::concat("nobody at port ", port));
  }
  return visits;
}

}  // namespace fm::comm
