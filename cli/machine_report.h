// What this machine and this build are: for --report and the start banner.
#pragma once

#include <string>
#include <vector>

namespace fm::cli {

// "CPU", "SIMD", "kernels", "GEMM", "GEMM bf16", "attention", "threads", "affinity", "RAM", "MPI",
// "LibTorch": one line each. threads: how many, and why.
std::vector<std::string> report_lines(const std::string& threads);
// What of it the banner of a run says, in one line.
std::string machine_line(const std::string& threads);

}  // namespace fm::cli
