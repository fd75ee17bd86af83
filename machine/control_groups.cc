#include "machine/control_groups.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "core/text.h"

namespace fm::machine {
namespace {

namespace fs = std::filesystem;

// A hierarchy of control groups that may limit what a controller counts.
struct Hierarchy {
  std::string controller;
  bool version_2 = false;
  fs::path root;   // which group the mount shows
  fs::path mount;  // where
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

bool names(const std::string& list, const std::string& word) {
  return std::ranges::count(core::split(list, ','), word) > 0;
}

// A line of proc/self/mountinfo (proc(5)):
// ID PARENT DEVICE ROOT MOUNT_POINT OPTIONS [OPTIONAL]... - TYPE SOURCE SUPER_OPTIONS
std::optional<Hierarchy> hierarchy_of(const std::string& line, const std::string& controller) {
  const std::vector<std::string> words = words_of(line);
  const auto dash = std::ranges::find(words, "-");
  if (words.end() - dash < 4 || dash - words.begin() < 6) return std::nullopt;
  const bool version_2 = dash[1] == "cgroup2";
  if (!version_2 && (dash[1] != "cgroup" || !names(dash[3], controller))) return std::nullopt;
  return Hierarchy{
      .controller = controller, .version_2 = version_2, .root = words[3], .mount = words[4]};
}

// The group of this process, by proc/self/cgroup's lines "ID:CONTROLLERS:PATH".
std::optional<fs::path> group_in(const Hierarchy& hierarchy, const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool its =
        hierarchy.version_2 ? controllers.empty() : names(controllers, hierarchy.controller);
    if (its) return line.substr(second + 1);
  }
  return std::nullopt;
}

// The group and all above it that the mount shows. A container may show its own group as the top,
// while the process is named by the path that the host knows.
void add_groups(std::vector<ControlGroup>& groups, const Hierarchy& hierarchy,
                const fs::path& root) {
  const std::optional<fs::path> group = group_in(hierarchy, root);
  if (!group) return;
  fs::path folder = root / hierarchy.mount.relative_path();
  groups.push_back({hierarchy.version_2, folder});
  const fs::path below = group->lexically_relative(hierarchy.root);
  if (below.empty() || below == "." || *below.begin() == "..") return;
  for (const fs::path& name : below) groups.push_back({hierarchy.version_2, folder /= name});
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, const fs::path& root) {
  std::vector<ControlGroup> groups;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Hierarchy> hierarchy = hierarchy_of(line, controller);
    if (hierarchy) add_groups(groups, *hierarchy, root);
  }
  return groups;
}

}  // namespace fm::machine
