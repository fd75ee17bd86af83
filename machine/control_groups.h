// The control groups that may limit this process (Linux, Documentation/admin-guide/cgroup-v2.rst
// and cgroup-v1/).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fm::machine {

struct ControlGroup {
  bool version_2 = false;
  std::filesystem::path folder;  // where its files are
};

// The groups of this process and those above them that may limit what `controller` ("cpu",
// "memory") counts, as far as they can be seen here.
// `root`: where proc and the paths that it names begin.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::filesystem::path& root);

}  // namespace fm::machine
