#include "machine/limits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "core/types.h"

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

std::optional<double> ratio(double quota, double period) {
  if (!(quota > 0.0) || !(period > 0.0)) return std::nullopt;
  return quota / period;
}

double real_in(const fs::path& path) {
  double number = 0.0;
  std::ifstream(path) >> number;
  return number;
}

// "max 100000" is no limit; version 1 says -1.
std::optional<double> limit_of(const ControlGroup& group) {
  const fs::path& folder = group.folder;
  if (!group.version_2) {
    return ratio(real_in(folder / "cpu.cfs_quota_us"), real_in(folder / "cpu.cfs_period_us"));
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
  return boot.empty() ? "" : core::concat(core::host_name(), ' ', boot);
}

// A value of /proc/self/status, "VmHWM:"; nothing where it is not there.
std::optional<core::Bytes> own_status(std::string_view key) {
  std::array<char, 4096> text{};
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? 0 : ::read(file, text.data(), text.size());
  if (file >= 0) ::close(file);
  const std::string_view status(text.data(), static_cast<std::size_t>(size < 0 ? 0 : size));
  const std::size_t line = status.find(key);
  const std::size_t digits =
      line == std::string_view::npos ? line : status.find_first_of("0123456789", line);
  if (digits == std::string_view::npos) return std::nullopt;
  std::int64_t kilobytes = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
  return core::Bytes(kilobytes * 1024);
}

// The text after "key<spaces>:" of the first line that starts with `key`.
std::string field(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// "MemTotal:       24567890 kB": kB means 1,024 bytes there.
core::Bytes memory_field(const std::string& meminfo, const std::string& key) {
  const std::string value = field(meminfo, key);
  return core::Bytes(value.empty() ? 0 : std::atoll(value.c_str()) * 1024);
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

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> quota;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    quota = least(quota, limit_of(group));
  }
  return quota;
}

std::vector<MemoryLimit> memory_limits(const fs::path& root) {
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;  // version 1 says 2^63 less a page
  const std::string machine = machine_id(root);
  if (machine.empty()) return {};
  std::vector<MemoryLimit> limits;
  const fs::path meminfo = root / "proc/meminfo";
  const std::int64_t swap = 1024 * number_behind(meminfo, "SwapFree:").value_or(0);
  const std::string and_swap = swap > 0 ? " and free swap" : "";
  if (const auto kilobytes = number_behind(meminfo, "MemAvailable:")) {
    limits.push_back({.id = machine,
                      .name = "MemAvailable of /proc/meminfo" + and_swap,
                      .available = core::Bytes(1024 * *kilobytes + swap),
                      .swap = core::Bytes(swap)});
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
    limits.push_back({.id = id,
                      .name = core::concat("the limit ", core::human(core::Bytes(*limit)), " in ",
                                           file.string(), and_swap),
                      .available = core::Bytes(left + swap),
                      .swap = core::Bytes(swap)});
  }
  return limits;
}

core::Bytes peak_memory() {
  if (const std::optional<core::Bytes> peak = own_status("VmHWM:")) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return core::Bytes(usage.ru_maxrss * 1024L);
}

core::Bytes resident_memory() { return own_status("VmRSS:").value_or(core::Bytes(0)); }

std::string cpu_model(const std::string& cpuinfo) {
  const std::string model = field(cpuinfo, "model name");
  return model.empty() ? "unknown" : model;
}

std::string instruction_sets(const std::string& cpuinfo) {
  const std::vector<std::string> flags = core::split(field(cpuinfo, "flags"), ' ');
  std::vector<std::string> found;
  for (const char* wanted :
       {"sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16",
        "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"}) {
    if (std::find(flags.begin(), flags.end(), wanted) != flags.end()) found.emplace_back(wanted);
  }
  return found.empty() ? "none that matter" : core::join(found, " ");
}

std::string memory_line(const std::string& meminfo) {
  return core::human(memory_field(meminfo, "MemTotal")) + ", " +
         core::human(memory_field(meminfo, "MemAvailable")) + " available";
}

std::string ranges(const std::vector<int>& sorted_numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted_numbers.size();) {
    std::size_t end = i + 1;
    while (end < sorted_numbers.size() && sorted_numbers[end] == sorted_numbers[end - 1] + 1) ++end;
    const std::string first = std::to_string(sorted_numbers[i]);
    const bool alone = end == i + 1;
    parts.push_back(alone ? first : first + "-" + std::to_string(sorted_numbers[end - 1]));
    i = end;
  }
  return core::join(parts, ",");
}

}  // namespace fm::machine
