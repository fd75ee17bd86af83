#include "machine/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "core/check.h"
#include "core/text.h"
#include "core/types.h"
#include "machine/limits.h"

namespace fm::machine {
namespace {

constexpr int kEveryCpu = std::numeric_limits<int>::max();

int allowed_cores(const CoreFacts& facts) {
  const auto usable = [&](const std::vector<int>& cpus) {
    return std::ranges::any_of(
        cpus, [&](int cpu) { return std::ranges::binary_search(facts.allowed, cpu); });
  };
  return static_cast<int>(std::ranges::count_if(facts.cores, usable));
}

// CPUs of this rank's part of the job's cores; of one core when there are more ranks than cores.
std::vector<int> own_part(const CoreFacts& facts) {
  const auto job = static_cast<int>(facts.cores.size());
  const int first = job * facts.local_rank / facts.local_size;
  const int last = std::max(first + 1, job * (facts.local_rank + 1) / facts.local_size);
  std::vector<int> cpus;
  for (int core = first; core < last; ++core) {
    const std::vector<int>& of_core = facts.cores[static_cast<std::size_t>(core)];
    cpus.insert(cpus.end(), of_core.begin(), of_core.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

// Whole CPUs that the quota leaves.
int granted(const CoreFacts& facts) {
  return facts.quota ? std::max(1, static_cast<int>(std::min(*facts.quota, 1e6))) : kEveryCpu;
}

struct Wish {
  int threads = 1;
  std::string source;
};

Wish shared_out(const CoreFacts& facts) {
  const auto job = static_cast<int>(facts.cores.size());
  const int allowed = allowed_cores(facts);
  const int of_quota = granted(facts);
  const bool limited = of_quota < job;
  const std::string limit = limited ? core::concat(", CPU limit ", *facts.quota) : "";
  if (facts.binding == Binding::kDefault || allowed == job) {
    return {
        std::max(1, std::min(job, of_quota) / facts.local_size),
        core::concat(job, job == 1 ? " core" : " cores", limit, limited ? "," : "", " shared out")};
  }
  // Bound: this many ranks have the same cores, if the others are bound alike.
  const auto sharers =
      std::max<std::int64_t>(1, core::ceil_div(std::int64_t{facts.local_size} * allowed, job));
  const int own = std::min(allowed / static_cast<int>(sharers), of_quota / facts.local_size);
  return {std::max(1, own), core::concat("bound to ", ranges(facts.allowed), limit)};
}

// What the user said holds, within the quota or not.
Wish asked_for(const CoreFacts& facts, int threads, std::string source) {
  if (std::int64_t{threads} * facts.local_size > granted(facts)) {
    source += core::concat(", beyond the CPU limit ", *facts.quota);
  }
  return {threads, std::move(source)};
}

Wish wish_of(const CoreFacts& facts) {
  if (facts.flag) return asked_for(facts, *facts.flag, "--threads");
  if (facts.omp.empty()) return shared_out(facts);
  if (facts.omp_by == CoreFacts::OmpBy::kUser) {
    return asked_for(facts, threads_in(facts.omp), "OMP_NUM_THREADS");
  }
  Wish wish = shared_out(facts);
  wish.source += core::concat("; OMP_NUM_THREADS=", facts.omp, " was torchrun's, not yours");
  return wish;
}

}  // namespace

CorePlan plan_cores(const CoreFacts& facts) {
  FM_CHECK(!facts.cores.empty(), "a job without cores");
  const Wish wish = wish_of(facts);
  CorePlan plan = {.threads = wish.threads, .cpus = {}, .host_cpus = 0, .why = ""};
  for (const std::vector<int>& cpus : facts.cores) plan.host_cpus += static_cast<int>(cpus.size());
  plan.host_cpus = std::min(plan.host_cpus, granted(facts));
  plan.why =
      core::concat(facts.local_size, facts.local_size == 1 ? " rank x " : " ranks x ", plan.threads,
                   plan.threads == 1 ? " thread: " : " threads: ", wish.source);
  if (facts.binding == Binding::kDefault && allowed_cores(facts) < plan.threads) {
    plan.cpus = own_part(facts);
    plan.why += core::concat("; mpirun's default binding to ", ranges(facts.allowed),
                             " widened to ", ranges(plan.cpus));
  }
  return plan;
}

int threads_in(std::string_view omp_num_threads) {
  std::optional<int> first;
  for (const std::string& level : core::split(omp_num_threads, ',')) {
    int threads = 0;
    const char* const end = level.data() + level.size();
    const auto [stop, error] = std::from_chars(level.data(), end, threads);
    const bool whole = error == std::errc() && stop == end;
    FM_USER_CHECK(whole && threads >= 1 && threads <= kMostThreads,
                  "OMP_NUM_THREADS must be a whole number from 1 to ", kMostThreads,
                  ", or a list N,M of them; correct or unset it (OMP_NUM_THREADS=\"",
                  omp_num_threads, "\")");
    if (!first) first = threads;
  }
  return *first;
}

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

Binding binding_of(const core::Environment& environment) {
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
  const core::Environment environment = core::process_environment();
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
