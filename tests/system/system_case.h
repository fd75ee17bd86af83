// What every case of this folder shares: a folder of its own and jobs that leave nothing behind.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/system/job.h"

namespace fm::system {

// A new folder, removed with this object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class SystemCase : public testing::Test {
 protected:
  const std::filesystem::path& folder() const { return scratch_.path(); }
  std::unique_ptr<Job> start(const Launch& launch);
  // Starts and waits.
  Ended run(const Launch& launch);
  // As run, and every exit code must be 0.
  Ended run_well(const Launch& launch);

 private:
  ScratchFolder scratch_;
  int jobs_ = 0;
};

// The same outside of a case, for what several cases compare with. Throws std::runtime_error when
// an exit code is not 0.
Ended run_reference(const Launch& launch, const std::filesystem::path& folder);

}  // namespace fm::system
