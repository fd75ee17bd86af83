#include "machine/cores.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/check.h"
#include "core/text.h"
#include "core/types.h"
#include "machine/texts.h"

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

}  // namespace fm::machine
