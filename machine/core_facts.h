// What the system and the launcher say about the cores of this process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/meet/world.h"
#include "machine/cores.h"

namespace fm::machine {

std::string content_of(const std::string& path);  // "" when it cannot be read
std::vector<int> allowed_cpus();                  // ascending; of sched_getaffinity
int online_cpus();

// "0-2,5" of the kernel: {0, 1, 2, 5}. Empty for anything else.
std::vector<int> cpus_in(const std::string& list);

// Whether OpenMPI bound this rank without having been asked to: it says that it did, and neither a
// binding, a set of CPUs, a rank file nor a mapping with PE=N was asked for.
Binding binding_of(const comm::Environment& environment);

// Looks at /proc of this process and of those that started it, and at the cores of the host.
CoreFacts core_facts(const comm::LaunchInfo& launch, std::optional<int> threads_flag);

// plan_cores of this process, which is bound as planned; threads that are made later inherit it.
CorePlan take_cores(const comm::LaunchInfo& launch, std::optional<int> threads_flag);

}  // namespace fm::machine
