// How many threads a rank computes with.
#include "machine/cores.h"

#include <map>
#include <numeric>
#include <utility>

#include "tests/cli/expect_refusal.h"

namespace fm::machine {
namespace {

TEST(Threads, OmpNumThreadsIsANumberOrAListOfLevels) {
  EXPECT_EQ(threads_in("1"), 1);
  EXPECT_EQ(threads_in("16"), 16);
  EXPECT_EQ(threads_in("4,2"), 4);
  EXPECT_EQ(threads_in("4,2,1"), 4);
  EXPECT_EQ(threads_in("1024"), 1024);
}

TEST(Threads, AnythingElseInOmpNumThreadsIsRefusedWithItsText) {
  for (const char* const bad : {"abc", "-3", "0", "99999999999", "100000", "1025", "2x", " 2",
                                "2;3", "4,", ",4", "4,x", "4,0", ""}) {
    EXPECT_TRUE(cli::holds(cli::refusal_of([&] { threads_in(bad); }),
                           core::concat("(OMP_NUM_THREADS=\"", bad, "\")")));
  }
}

// A host of `count` cores with one hardware thread each: CPUs 0, 1, 2 ...
std::vector<std::vector<int>> plain_cores(int count) {
  std::vector<std::vector<int>> cores;
  for (int cpu = 0; cpu < count; ++cpu) cores.push_back({cpu});
  return cores;
}

std::vector<int> up_to(int last) {
  std::vector<int> cpus(static_cast<std::size_t>(last) + 1);
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

CoreFacts unbound(int cores, int ranks) {
  return {.allowed = up_to(cores - 1), .cores = plain_cores(cores), .local_size = ranks};
}

CorePlan by_default_on(std::vector<int> allowed, int cores, int rank, int ranks) {
  return plan_cores({.allowed = std::move(allowed),
                     .cores = plain_cores(cores),
                     .local_rank = rank,
                     .local_size = ranks,
                     .binding = Binding::kDefault});
}

TEST(Cores, RanksThatNobodyBoundShareTheJobsCores) {
  EXPECT_EQ(plan_cores(unbound(16, 4)).threads, 4);
  EXPECT_EQ(plan_cores(unbound(16, 1)).threads, 16);
  EXPECT_EQ(plan_cores(unbound(16, 3)).threads, 5);
  EXPECT_EQ(plan_cores(unbound(2, 8)).threads, 1);
  EXPECT_EQ(plan_cores(unbound(16, 4)).cpus, std::vector<int>{});
  EXPECT_EQ(plan_cores(unbound(16, 4)).why, "4 ranks x 4 threads: 16 cores shared out");
  EXPECT_EQ(plan_cores(unbound(1, 1)).why, "1 rank x 1 thread: 1 core shared out");
}

TEST(Cores, RanksThatTheUserBoundKeepTheirCores) {
  CoreFacts facts = unbound(16, 4);
  facts.allowed = {4, 5, 6, 7};  // --map-by slot:PE=4
  EXPECT_EQ(plan_cores(facts).threads, 4);
  EXPECT_EQ(plan_cores(facts).cpus, std::vector<int>{});
  EXPECT_EQ(plan_cores(facts).why, "4 ranks x 4 threads: bound to 4-7");
  facts.allowed = {5};  // --bind-to core
  EXPECT_EQ(plan_cores(facts).threads, 1);
  facts.allowed = up_to(7);  // --bind-to socket: two ranks on each of two sockets
  EXPECT_EQ(plan_cores(facts).threads, 4);
}

TEST(Cores, TheDefaultBindingOfMpirunIsWidened) {
  const CorePlan alone = by_default_on({0}, 16, 0, 1);
  EXPECT_EQ(alone.threads, 16);
  EXPECT_EQ(alone.cpus, up_to(15));
  EXPECT_EQ(alone.why,
            "1 rank x 16 threads: 16 cores shared out; mpirun's default binding to 0 widened to "
            "0-15");
  EXPECT_EQ(by_default_on({0}, 8, 0, 2).cpus, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(by_default_on({1}, 8, 1, 2).cpus, (std::vector{4, 5, 6, 7}));
  EXPECT_EQ(by_default_on({1}, 8, 1, 2).threads, 4);
  // 5 cores for 2 ranks: as many threads on both.
  EXPECT_EQ(by_default_on({0}, 5, 0, 2).threads, 2);
  EXPECT_EQ(by_default_on({1}, 5, 1, 2).threads, 2);
  EXPECT_EQ(by_default_on({1}, 5, 1, 2).cpus, (std::vector{2, 3, 4}));
  // One core each is what 2 ranks on 2 cores get anyway, and a socket has room for 4 threads.
  EXPECT_EQ(by_default_on({1}, 2, 1, 2).cpus, std::vector<int>{});
  EXPECT_EQ(by_default_on(up_to(7), 16, 0, 4).cpus, std::vector<int>{});
  EXPECT_EQ(by_default_on(up_to(7), 16, 0, 4).threads, 4);
}

TEST(Cores, AJobOfFewerCoresThanTheHostIsSharedOut) {
  CoreFacts facts = unbound(8, 4);  // taskset -c 0-7 of 64
  EXPECT_EQ(plan_cores(facts).threads, 2);
  EXPECT_EQ(plan_cores(facts).host_cpus, 8);
}

TEST(Cores, HardwareThreadsOfOneCoreStayTogether) {
  CoreFacts facts = {.allowed = {0, 4},
                     .cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}},
                     .local_size = 2,
                     .binding = Binding::kDefault};
  EXPECT_EQ(plan_cores(facts).threads, 2);
  EXPECT_EQ(plan_cores(facts).cpus, (std::vector{0, 1, 4, 5}));
  EXPECT_EQ(plan_cores(facts).host_cpus, 8);
  facts.local_rank = 1;
  EXPECT_EQ(plan_cores(facts).cpus, (std::vector{2, 3, 6, 7}));
}

TEST(Cores, TheFlagComesBeforeTheVariableAndTheVariableBeforeTheCores) {
  CoreFacts facts = unbound(16, 2);
  facts.omp = "3";
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 3 threads: OMP_NUM_THREADS");
  facts.flag = 5;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 5 threads: --threads");
  facts.allowed = {0};
  facts.binding = Binding::kDefault;
  EXPECT_EQ(plan_cores(facts).cpus, up_to(7));
}

TEST(Cores, TheOneThatTorchrunPutsIntoOmpNumThreadsIsNotTheUsers) {
  CoreFacts facts = unbound(16, 2);
  facts.omp = "1";
  EXPECT_EQ(plan_cores(facts).threads, 1);
  facts.omp_by = CoreFacts::OmpBy::kTorchrun;
  EXPECT_EQ(
      plan_cores(facts).why,
      "2 ranks x 8 threads: 16 cores shared out; OMP_NUM_THREADS=1 was torchrun's, not yours");
}

TEST(Cores, AQuotaOfCpuTimeLimitsTheThreads) {
  CoreFacts facts = unbound(16, 2);
  facts.quota = 6.5;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 3 threads: 16 cores, CPU limit 6.5, shared out");
  EXPECT_EQ(plan_cores(facts).host_cpus, 6);
  facts.quota = 0.5;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 1 thread: 16 cores, CPU limit 0.5, shared out");
  EXPECT_EQ(plan_cores(facts).host_cpus, 1);
  facts.quota = 16.0;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 8 threads: 16 cores shared out");
  facts.quota = 1e300;
  EXPECT_EQ(plan_cores(facts).threads, 8);
  facts.quota = 6.0;
  facts.allowed = {4, 5, 6, 7};
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 3 threads: bound to 4-7, CPU limit 6");
  facts.quota = 12.0;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 4 threads: bound to 4-7, CPU limit 12");
}

TEST(Cores, WhatTheUserAsksForBeyondTheQuotaIsSaid) {
  CoreFacts facts = unbound(16, 2);
  facts.quota = 4.0;
  facts.flag = 2;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 2 threads: --threads");
  facts.flag = 3;
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 3 threads: --threads, beyond the CPU limit 4");
  facts.flag = {};
  facts.omp = "8";
  EXPECT_EQ(plan_cores(facts).why, "2 ranks x 8 threads: OMP_NUM_THREADS, beyond the CPU limit 4");
}

Binding binding_with(std::map<std::string, std::string> variables) {
  return binding_of([variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Cores, ABindingThatWasAskedForIsNoDefault) {
  const std::string bound = "OMPI_MCA_orte_bound_at_launch";
  EXPECT_EQ(binding_with({}), Binding::kOthers);
  EXPECT_EQ(binding_with({{bound, "1"}}), Binding::kDefault);
  EXPECT_EQ(binding_with({{bound, "1"}, {"OMPI_MCA_hwloc_base_binding_policy", "core"}}),
            Binding::kOthers);
  EXPECT_EQ(binding_with({{bound, "1"}, {"OMPI_MCA_hwloc_base_cpu_set", "0"}}), Binding::kOthers);
  EXPECT_EQ(binding_with({{bound, "1"}, {"OMPI_MCA_rmaps_base_mapping_policy", "slot:PE=2"}}),
            Binding::kOthers);
  EXPECT_EQ(binding_with({{bound, "1"}, {"OMPI_MCA_rmaps_base_mapping_policy", "core"}}),
            Binding::kDefault);
}

TEST(Cores, ListsOfCpusAsTheKernelWritesThem) {
  EXPECT_EQ(cpus_in("0-2,5"), (std::vector{0, 1, 2, 5}));
  EXPECT_EQ(cpus_in("7"), std::vector{7});
  for (const char* const odd : {"", "a", "1-", "-1", "1-2-3", "0-99999999"}) {
    EXPECT_EQ(cpus_in(odd), std::vector<int>{}) << odd;
  }
}

}  // namespace
}  // namespace fm::machine
