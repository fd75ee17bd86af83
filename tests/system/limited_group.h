// A control group of a test; root of the host may make one.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/check.h"

namespace fm::system {

class LimitedGroup {
 public:
  // Folders and files of version 1 and 2, what they are to say.
  struct Limit {
    const char* controller;
    const char* file_1;
    std::string value_1;
    const char* file_2;
    std::string value_2;
  };

  explicit LimitedGroup(const Limit& limit) {
    const std::string name = core::concat("fm_test_", getpid());
    const std::string version_1 = core::concat("/sys/fs/cgroup/", limit.controller, '/', name);
    if (!make(version_1, limit.file_1, limit.value_1)) {
      make("/sys/fs/cgroup/" + name, limit.file_2, limit.value_2);
    }
  }
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;
  ~LimitedGroup() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  bool made() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  // What starts a program in it.
  std::vector<std::string> words() const {
    return {"/bin/sh", "-c", "echo $$ > " + path_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }

 private:
  bool make(const std::string& path, const char* file, const std::string& value) {
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) return false;
    std::ofstream out(path + "/" + file);
    if (!out.is_open() || !(out << value).flush()) {
      std::filesystem::remove(path, error);
      return false;
    }
    path_ = path;
    return true;
  }

  std::string path_;  // "": none could be made
};

}  // namespace fm::system
