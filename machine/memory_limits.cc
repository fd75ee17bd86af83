#include "machine/memory_limits.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "core/check.h"
#include "core/text.h"
#include "machine/control_groups.h"

namespace fm::machine {
namespace {

namespace fs = std::filesystem;

// The number behind a word at the beginning of a line: "MemAvailable:   23618520 kB".
std::optional<std::int64_t> number_behind(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t number = 0;
    if (word == key && file >> number) return number;
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// "max" is none.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::int64_t number = 0;
  if (!(std::ifstream(path) >> number)) return std::nullopt;
  return number;
}

// In use and not to be dropped: of processes, files in memory, the kernel. 0 when it is not told.
std::int64_t used_in(const ControlGroup& group) {
  const fs::path stat = group.folder / "memory.stat";
  const fs::path usage =
      group.folder / (group.version_2 ? "memory.current" : "memory.usage_in_bytes");
  std::int64_t used = number_in(usage).value_or(0);
  const std::initializer_list<const char*> droppable_2 = {"inactive_file", "active_file",
                                                          "slab_reclaimable"};
  const std::initializer_list<const char*> droppable_1 = {"total_inactive_file",
                                                          "total_active_file"};
  for (const char* const key : group.version_2 ? droppable_2 : droppable_1) {
    const std::optional<std::int64_t> bytes = number_behind(stat, key);
    if (!bytes) return 0;
    used -= *bytes;
  }
  return std::max<std::int64_t>(used, 0);
}

// What tells a machine from all others; "" when it cannot be told.
std::string machine_id(const fs::path& root) {
  std::string boot;
  std::getline(std::ifstream(root / "proc/sys/kernel/random/boot_id"), boot);
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return boot.empty() ? "" : core::concat(host, ' ', boot);
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const fs::path& root) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 says 2^63 less a page
  const std::string machine = machine_id(root);
  if (machine.empty()) return {};
  std::vector<MemoryLimit> limits;
  const fs::path meminfo = root / "proc/meminfo";
  const std::int64_t swap = 1024 * number_behind(meminfo, "SwapFree:").value_or(0);
  const std::string and_swap = swap > 0 ? " and free swap" : "";
  if (const auto kilobytes = number_behind(meminfo, "MemAvailable:")) {
    limits.push_back({machine, "MemAvailable of /proc/meminfo" + and_swap,
                      core::Bytes(1024 * *kilobytes + swap)});
  }
  for (const ControlGroup& group : control_groups("memory", root)) {
    const fs::path file = group.folder / (group.version_2 ? "memory.max" : "memory.limit_in_bytes");
    const std::optional<std::int64_t> limit = number_in(file);
    struct stat folder {};
    if (!limit || *limit >= kNoLimit || ::stat(group.folder.c_str(), &folder) != 0) continue;
    const std::int64_t left = std::max<std::int64_t>(*limit - used_in(group), 0);
    const std::string id = core::concat(machine, ' ', folder.st_dev, ' ', folder.st_ino);
    const bool seen =
        std::ranges::any_of(limits, [&](const MemoryLimit& other) { return other.id == id; });
    if (seen) continue;
    limits.push_back({id,
                      core::concat("the limit ", core::human(core::Bytes(*limit)), " in ",
                                   file.string(), and_swap),
                      core::Bytes(left + swap)});
  }
  return limits;
}

}  // namespace fm::machine
