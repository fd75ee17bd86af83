#include <gtest/gtest.h>
#include <unistd.h>

#include "checkpoint/train_checkpoint.h"
#include "core/check.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

TEST(OutputLock, ASecondRunIsRefusedAndToldWhoHoldsIt) {
  const testing::ScratchFolder folder;
  const fs::path output = folder.path() / "new" / "output";
  {
    const OutputLock held(output);
    const std::string message =
        testing::message_of<core::MachineError>(13, [&] { OutputLock second(output); });
    EXPECT_NE(message.find("\"pid\":" + std::to_string(::getpid())), std::string::npos) << message;
    EXPECT_NE(message.find("\"host\":"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(OutputLock{output});
}

TEST(OutputLock, MovingKeepsTheLockOnce) {
  const testing::ScratchFolder folder;
  OutputLock first(folder.path());
  const OutputLock second(std::move(first));
  EXPECT_THROW(OutputLock{folder.path()}, core::MachineError);
}

TEST(OutputLock, SweepsWhatDeadRunsLeftAndNothingElse) {
  const testing::ScratchFolder folder;
  const testing::ScratchFolder elsewhere;
  elsewhere.write("precious", "x");
  for (const char* name : {".tmp-global_step5-0123abcd", ".trash-global_step1-89abcdef",
                           ".tmp-mine", ".trash-0123ABCD", "global_step1"}) {
    fs::create_directory(folder.path() / name);
    std::ofstream(folder.path() / name / "file") << "x";
  }
  folder.write(".tmp-latest-01234567", "global_step5");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / ".tmp-link-01234567");
  const OutputLock lock(folder.path());
  EXPECT_EQ(testing::listing(folder.path()),
            ".tmp-link-01234567 .tmp-mine .trash-0123ABCD LOCK global_step1");
  EXPECT_EQ(testing::listing(elsewhere.path()), "precious");
}

}  // namespace
}  // namespace fm::checkpoint
