#include "engine/shown/plan_drives.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/check.h"
#include "offload/disk_store.h"

namespace fm::engine {
namespace {

// That exists: the folder, or the nearest above it.
std::filesystem::path existing(const std::string& folder) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(folder, error);
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  return place;
}

std::set<std::string> folders_of(const OffloadOptions& offload) {
  std::set<std::string> folders(offload.optimizer_paths.begin(), offload.optimizer_paths.end());
  folders.insert(offload.param_paths.begin(), offload.param_paths.end());
  return folders;
}

}  // namespace

PlanDrives drives_here(const OffloadOptions& offload) {
  PlanDrives out;
  std::set<dev_t> seen;
  for (const std::string& folder : folders_of(offload)) {
    const std::filesystem::path place = existing(folder);
    struct stat where {};
    struct statvfs space {};
    if (stat(place.c_str(), &where) != 0 || statvfs(place.c_str(), &space) != 0) return {};
    if (!seen.insert(where.st_dev).second) continue;
    const double block = static_cast<double>(space.f_frsize);
    out.size += block * static_cast<double>(space.f_blocks);
    const auto free = static_cast<std::int64_t>(block * static_cast<double>(space.f_bavail));
    out.free = out.free.value_or(core::Bytes(0)) + core::Bytes(free);
  }
  return out;
}

void measure_drives(const OffloadOptions& offload, PlanDrives& drives) {
  constexpr core::Bytes kMeasured(std::int64_t{128} << 20);
  constexpr core::Bytes kPiece(8 << 20);
  const std::set<std::string> folders = folders_of(offload);
  const bool there = std::ranges::all_of(
      folders, [](const std::string& each) { return access(each.c_str(), W_OK | X_OK) == 0; });
  if (folders.empty() || !there) return;
  try {
    const auto store = offload::open_disk(
        {.folders = {folders.begin(), folders.end()}, .run = "plan"}, offload.disk, kMeasured);
    const offload::DiskRates rates = offload::measure_rates(*store, kPiece);
    drives.rate = DriveRate{.read = rates.read, .write = rates.write, .both = rates.both};
    drives.rate_from = "measured";
  } catch (const core::Error& error) {
    drives.problem = error.what();
  }
}

}  // namespace fm::engine
