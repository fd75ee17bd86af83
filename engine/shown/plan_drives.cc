#include "engine/shown/plan_drives.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <set>

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

}  // namespace

PlanDrives drives_here(const OffloadOptions& offload) {
  std::set<std::string> folders(offload.optimizer_paths.begin(), offload.optimizer_paths.end());
  folders.insert(offload.param_paths.begin(), offload.param_paths.end());
  PlanDrives out;
  std::set<dev_t> seen;
  for (const std::string& folder : folders) {
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

}  // namespace fm::engine
