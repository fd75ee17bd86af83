// What this machine and this build are: for --report and the start banner.
#pragma once

#include <string>
#include <vector>

#include "model/attention_kind.h"

namespace fm::cli {

// Parts that are text in, text out, for tests.
std::string cpu_model(const std::string& cpuinfo);           // of /proc/cpuinfo
std::string instruction_sets(const std::string& cpuinfo);    // those that kernels care about
std::string memory_line(const std::string& meminfo);         // of /proc/meminfo
std::string ranges(const std::vector<int>& sorted_numbers);  // {0, 1, 2, 5}: "0-2,5"

// "CPU", "SIMD", "kernels", "GEMM", "GEMM bf16", "attention", "threads", "affinity", "RAM", "MPI",
// "LibTorch": one line each. threads: how many, and why.
std::vector<std::string> report_lines(model::AttentionKind attention, const std::string& threads);

}  // namespace fm::cli
