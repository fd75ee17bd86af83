#include "tests/system/system_case.h"

#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "core/check.h"

namespace fm::system {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::string pattern = (fs::temp_directory_path() / "fm_system_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no scratch folder");
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::unique_ptr<Job> SystemCase::start(const Launch& launch) {
  return std::make_unique<Job>(launch, folder() / core::concat("job", jobs_++));
}

Ended SystemCase::run(const Launch& launch) { return start(launch)->wait(kLimitMs); }

Ended SystemCase::run_well(const Launch& launch) {
  Ended ended = run(launch);
  for (const int code : ended.codes) EXPECT_EQ(code, 0) << ended.out << ended.err;
  return ended;
}

Ended run_reference(const Launch& launch, const fs::path& folder) {
  Ended ended = Job(launch, folder).wait(kLimitMs);
  const auto good = [](int code) { return code == 0; };
  if (!std::ranges::all_of(ended.codes, good)) throw std::runtime_error(ended.out + ended.err);
  return ended;
}

}  // namespace fm::system
