#include "checkpoint/output_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/check.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

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
  const OutputLock next(output);  // the first one let it go
  EXPECT_THROW(OutputLock{output}, core::MachineError);
  const std::string holder = testing::file_content(output / "LOCK");
  EXPECT_NE(holder.find("\"pid\":" + std::to_string(::getpid())), std::string::npos) << holder;
}

TEST(OutputLock, MovingKeepsTheLockOnce) {
  const testing::ScratchFolder folder;
  OutputLock first(folder.path());
  const OutputLock second(std::move(first));
  EXPECT_THROW(OutputLock{folder.path()}, core::MachineError);
}

TEST(OutputLock, IsMadeAgainWhereItWasDeleted) {
  const testing::ScratchFolder folder;
  const fs::path output = folder.path() / "output";
  OutputLock lock(output);
  EXPECT_EQ(lock.renew(), "");
  const auto deleted = {output / "LOCK", output};
  for (const fs::path& path : deleted) {
    fs::remove_all(path);
    EXPECT_NE(lock.renew().find(output.string()), std::string::npos);
    EXPECT_THROW(OutputLock{output}, core::MachineError);
    EXPECT_EQ(lock.renew(), "");
  }
}

// Root of the host may mount.
TEST(OutputLock, TellsThatItsFolderHasLeftItsFileSystem) {
  const testing::ScratchFolder folder;
  const fs::path disk = folder.path() / "disk";
  fs::create_directories(disk);
  if (::mount("none", disk.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "may not mount";
  const fs::path output = disk / "output";
  {
    const OutputLock lock(output);
    EXPECT_EQ(lock.moved(), "");
    fs::remove_all(output);  // that is another matter: see renew()
    EXPECT_EQ(lock.moved(), "");
  }
  OutputLock lock(output);
  ::umount2(disk.c_str(), MNT_DETACH);
  EXPECT_NE(lock.moved().find(output.string()), std::string::npos);
  fs::create_directories(output);
  EXPECT_NE(lock.moved(), "");
  ASSERT_EQ(::mount("none", disk.c_str(), "tmpfs", 0, "size=1m"), 0);
  EXPECT_NE(lock.moved(), "");  // another one
  ::umount2(disk.c_str(), MNT_DETACH);
}

// What a file system that gives its files new numbers looks like.
TEST(OutputLock, IsKnownByItsTextToo) {
  const testing::ScratchFolder folder;
  OutputLock lock(folder.path());
  fs::copy_file(folder.path() / "LOCK", folder.path() / "copy");
  fs::rename(folder.path() / "copy", folder.path() / "LOCK");
  EXPECT_EQ(lock.renew(), "");
}

TEST(OutputLock, IsNotTakenFromARunThatCameAfterItsDeletion) {
  const testing::ScratchFolder folder;
  OutputLock lock(folder.path());
  fs::remove(folder.path() / "LOCK");
  const OutputLock other(folder.path());
  const std::string message = testing::message_of<core::MachineError>(13, [&] { lock.renew(); });
  EXPECT_NE(message.find("is held by"), std::string::npos) << message;
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

// A file that may not grow is a full disk: the holder cannot be written, and room is needed most.
TEST(OutputLock, SweepsWhenTheDiskIsFull) {
  const testing::ScratchFolder folder;
  folder.write(".tmp-latest-01234567", "global_step5");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{0, before.rlim_max};
  const auto old = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  { const OutputLock lock(folder.path()); }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, old);
  EXPECT_EQ(testing::listing(folder.path()), "LOCK");
  EXPECT_EQ(testing::file_content(folder.path() / "LOCK"), "");
}

}  // namespace
}  // namespace fm::checkpoint
