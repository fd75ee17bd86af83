#include "machine/core_facts.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "core/check.h"
#include "core/text.h"
#include "machine/cpu_quota.h"

namespace fm::machine {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The rest of a line "NAME:\tvalue" of /proc/PID/status.
std::string status_of(int pid, const std::string& name) {
  std::ifstream file(core::concat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int parent_of(int pid) {
  const std::string text = status_of(pid, "PPid");
  int parent = 0;
  std::from_chars(text.data(), text.data() + text.size(), parent);
  return parent;
}

// As it was when the program began: what it changed later does not show.
bool began_with(int pid, const std::string& variable) {
  const std::string zero(1, '\0');
  return (zero + content_of(core::concat("/proc/", pid, "/environ"))).find(zero + variable + "=") !=
         std::string::npos;
}

// Who started this rank, above wrappers: mpirun or its daemon, torchrun's agent, otherwise the
// parent. 0: nobody that can be seen.
int starter_of(const comm::LaunchInfo& launch) {
  static const std::set<std::string> kDaemons{"mpirun", "mpiexec", "orterun",
                                              "orted",  "prterun", "prted"};
  constexpr int kMostWrappers = 8;
  const int parent = parent_of(getpid());
  int pid = parent;
  for (int step = 0; step < kMostWrappers && pid > 1; ++step, pid = parent_of(pid)) {
    const std::string name = first_line(core::concat("/proc/", pid, "/comm"));
    if (launch.launcher == comm::Launcher::kOpenMpi && kDaemons.contains(name)) return pid;
    if (launch.elastic && !began_with(pid, "TORCHELASTIC_RUN_ID")) return pid;
    if (launch.launcher != comm::Launcher::kOpenMpi && !launch.elastic) break;
  }
  return parent > 1 ? parent : 0;
}

// Cores of the CPUs, in order of socket and number.
std::vector<std::vector<int>> cores_of(const std::vector<int>& cpus) {
  std::map<std::pair<int, int>, std::vector<int>> cores;
  for (const int cpu : cpus) {
    const std::string folder = core::concat("/sys/devices/system/cpu/cpu", cpu, "/topology/");
    std::vector<int> siblings = cpus_in(first_line(folder + "core_cpus_list"));
    if (siblings.empty()) siblings = cpus_in(first_line(folder + "thread_siblings_list"));
    const std::vector<int> package = cpus_in(first_line(folder + "physical_package_id"));
    cores[{package.empty() ? 0 : package[0], siblings.empty() ? cpu : siblings[0]}].push_back(cpu);
  }
  std::vector<std::vector<int>> list;
  for (auto& [where, of_core] : cores) list.push_back(std::move(of_core));
  return list;
}

}  // namespace

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

int online_cpus() { return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))); }

std::vector<int> cpus_in(const std::string& list) {
  std::vector<int> cpus;
  for (const std::string& range : core::split(list, ',')) {
    std::vector<int> ends;
    for (const std::string& text : core::split(range, '-')) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, ends.emplace_back());
      if (error != std::errc() || stop != end) return {};
    }
    if (ends.size() > 2 || ends.front() < 0 || ends.back() >= CPU_SETSIZE) return {};
    for (int cpu = ends.front(); cpu <= ends.back(); ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

Binding binding_of(const comm::Environment& environment) {
  if (environment("OMPI_MCA_orte_bound_at_launch") != "1") return Binding::kOthers;
  for (const char* const asked :
       {"OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_set",
        "OMPI_MCA_hwloc_base_cpu_list", "OMPI_MCA_rmaps_rank_file_path", "OMPI_MCA_orte_rankfile",
        "OMPI_MCA_rmaps_base_cpus_per_rank"}) {
    if (environment(asked)) return Binding::kOthers;
  }
  const std::string mapping =
      core::lower(environment("OMPI_MCA_rmaps_base_mapping_policy").value_or(""));
  return mapping.find("pe=") == std::string::npos ? Binding::kDefault : Binding::kOthers;
}

CoreFacts core_facts(const comm::LaunchInfo& launch, std::optional<int> threads_flag) {
  const comm::Environment environment = comm::process_environment();
  const int starter = starter_of(launch);
  CoreFacts facts = {.allowed = allowed_cpus(),
                     .local_rank = launch.local_rank,
                     .local_size = launch.local_size,
                     .flag = threads_flag,
                     .omp = environment("OMP_NUM_THREADS").value_or("")};
  if (launch.launcher == comm::Launcher::kOpenMpi) facts.binding = binding_of(environment);
  std::vector<int> of_job =
      starter > 0 ? cpus_in(status_of(starter, "Cpus_allowed_list")) : std::vector<int>{};
  of_job.insert(of_job.end(), facts.allowed.begin(), facts.allowed.end());
  if (of_job.empty()) of_job.push_back(0);
  std::ranges::sort(of_job);
  of_job.erase(std::unique(of_job.begin(), of_job.end()), of_job.end());
  facts.cores = cores_of(of_job);
  facts.quota = cpu_quota();
  const bool theirs =
      launch.elastic && starter > 0 && facts.omp == "1" && !began_with(starter, "OMP_NUM_THREADS");
  if (theirs) facts.omp_by = CoreFacts::OmpBy::kTorchrun;
  return facts;
}

CorePlan take_cores(const comm::LaunchInfo& launch, std::optional<int> threads_flag) {
  CoreFacts facts = core_facts(launch, threads_flag);
  CorePlan plan = plan_cores(facts);
  if (plan.cpus.empty()) return plan;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : plan.cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return plan;
  facts.binding = Binding::kOthers;
  plan = plan_cores(facts);
  plan.why += "; the system lets nobody widen that";
  return plan;
}

}  // namespace fm::machine
