// What the system's files say of this machine, in words. Text in, text out.
#pragma once

#include <string>
#include <vector>

namespace fm::machine {

std::string cpu_model(const std::string& cpuinfo);           // of /proc/cpuinfo
std::string instruction_sets(const std::string& cpuinfo);    // those that kernels care about
std::string memory_line(const std::string& meminfo);         // of /proc/meminfo
std::string ranges(const std::vector<int>& sorted_numbers);  // {0, 1, 2, 5}: "0-2,5"

}  // namespace fm::machine
