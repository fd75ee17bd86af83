// The GPUs of NVIDIA that this machine, or container, has, as the kernel shows them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fm::device {

// /dev/nvidia0, ..., by their numbers; not nvidiactl and the like.
std::vector<std::string> card_files(const std::filesystem::path& devices = "/dev");

}  // namespace fm::device
