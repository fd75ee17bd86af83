#include "machine/cpu_quota.h"

#include <algorithm>
#include <fstream>

#include "machine/control_groups.h"

namespace fm::machine {
namespace {

namespace fs = std::filesystem;

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
std::optional<double> limit_of(const ControlGroup& group) {
  const fs::path& folder = group.folder;
  if (!group.version_2) {
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

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> quota;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    quota = least(quota, limit_of(group));
  }
  return quota;
}

}  // namespace fm::machine
