#include "cli/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/text.h"

namespace fm::cli {
namespace {

namespace fs = std::filesystem;

// A hierarchy of control groups that may limit CPU time.
struct Hierarchy {
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
std::optional<Hierarchy> hierarchy_of(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  const auto dash = std::ranges::find(words, "-");
  if (words.end() - dash < 4 || dash - words.begin() < 6) return std::nullopt;
  const bool version_2 = dash[1] == "cgroup2";
  if (!version_2 && (dash[1] != "cgroup" || !names(dash[3], "cpu"))) return std::nullopt;
  return Hierarchy{.version_2 = version_2, .root = words[3], .mount = words[4]};
}

// The group of this process, by proc/self/cgroup's lines "ID:CONTROLLERS:PATH".
std::optional<fs::path> group_in(const Hierarchy& hierarchy, const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool its = hierarchy.version_2 ? controllers.empty() : names(controllers, "cpu");
    if (its) return line.substr(second + 1);
  }
  return std::nullopt;
}

std::optional<double> ratio(double quota, double period) {
  if (!(quota > 0.0) || !(period > 0.0)) return std::nullopt;
  return quota / period;
}

double number_in(const fs::path& path) {
  double number = 0.0;
  std::ifstream(path) >> number;
  return number;
}

// "max 100000" is no limit; version 1 says -1.
std::optional<double> limit_of(const Hierarchy& hierarchy, const fs::path& folder) {
  if (!hierarchy.version_2) {
    return ratio(number_in(folder / "cpu.cfs_quota_us"), number_in(folder / "cpu.cfs_period_us"));
  }
  std::ifstream file(folder / "cpu.max");
  double quota = 0.0;
  double period = 0.0;
  if (!(file >> quota >> period)) return std::nullopt;
  return ratio(quota, period);
}

std::optional<double> least(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

// Of the group and all above it that the mount shows. A container may show its own group as the
// top, while the process is named by the path that the host knows.
std::optional<double> quota_of(const Hierarchy& hierarchy, const fs::path& root) {
  const std::optional<fs::path> group = group_in(hierarchy, root);
  if (!group) return std::nullopt;
  fs::path below = group->lexically_relative(hierarchy.root);
  if (below.empty() || *below.begin() == "..") below = ".";
  const fs::path mount = root / hierarchy.mount.relative_path();
  std::optional<double> quota = limit_of(hierarchy, mount);
  fs::path folder = mount;
  for (const fs::path& name : below) {
    folder /= name;
    quota = least(quota, limit_of(hierarchy, folder));
  }
  return quota;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> quota;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Hierarchy> hierarchy = hierarchy_of(line);
    if (hierarchy) quota = least(quota, quota_of(*hierarchy, root));
  }
  return quota;
}

}  // namespace fm::cli
