// What would a power cut leave? This program answers the calls of libc that change files and
// folders: it carries them out and keeps a book of what the disk does not have yet. POSIX promises
// nothing about bytes before fdatasync of their file, nor about names before fsync of their folder.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "checkpoint/output_lock.h"
#include "core/text.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

struct Book {
  std::mutex mutex;
  bool open = false;
  std::set<fs::path> known;                         // names that were seen
  std::set<fs::path> files;                         // with bytes that are not on disk
  std::map<fs::path, std::set<std::string>> names;  // per folder: names that are not on disk
  std::vector<std::string> found;                   // what was published too early
  std::vector<std::string> published;               // names given by a rename

  void add_name(const fs::path& path) {
    if (known.insert(path).second) names[path.parent_path()].insert(path.filename().string());
  }
  void complain_of_files(const fs::path& folder, const std::string& when) {
    for (const fs::path& file : files) {
      if (file == folder || file.parent_path() == folder) {
        found.push_back(file.filename().string() + " is not on disk when " + when);
      }
    }
  }
  // `but`: a name that may be missing.
  void complain_of_names(const fs::path& folder, const std::string& but, const std::string& when) {
    for (const std::string& name : names[folder]) {
      if (name != but) found.push_back("the name " + name + " is not on disk when " + when);
    }
  }
  void rename(const fs::path& from, const fs::path& to) {
    const std::string name = to.filename().string();
    published.push_back(name);
    complain_of_files(from, name + " gets its name");
    complain_of_names(from, "", name + " gets its name");
    // A commit record names its folder's files: they and the folder must be there before it.
    const bool record = name == "MANIFEST.json";
    if (record) {
      complain_of_names(from.parent_path(), from.filename(), "the record is committed");
      complain_of_names(from.parent_path().parent_path(), "", "the record is committed");
    }
    const bool latest = name == "latest";  // it must not name what may not be there
    if (latest) complain_of_names(from.parent_path(), from.filename(), "latest names it");
    names[to.parent_path()].insert(name);
    known.insert(to);
  }
};

Book& book() {
  static Book one;
  return one;
}

template <class Entry>
void write_down(const Entry& entry) {
  const int error = errno;
  const std::scoped_lock lock(book().mutex);
  if (book().open) entry();
  errno = error;
}

fs::path path_of(int fd) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
}

}  // namespace
}  // namespace fm::checkpoint

using fm::checkpoint::book;
using fm::checkpoint::path_of;
using fm::checkpoint::write_down;

extern "C" {
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  write_down([&] {
    book().add_name(path_of(fd));
    book().files.insert(path_of(fd));
  });
  return ::syscall(SYS_pwrite64, fd, bytes, count, offset);
}
int fdatasync(int fd) {
  write_down([&] { book().files.erase(path_of(fd)); });
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}
int fsync(int fd) {
  write_down([&] { book().names.erase(path_of(fd)); });
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
int mkdir(const char* path, mode_t mode) noexcept {
  const auto made = static_cast<int>(::syscall(SYS_mkdir, path, mode));
  if (made == 0) write_down([&] { book().add_name(path); });
  return made;
}
int rename(const char* from, const char* to) noexcept {
  write_down([&] { book().rename(from, to); });
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  const auto done = static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags));
  if (done == 0) write_down([&] { book().rename(from, to); });
  return done;
}
}

namespace fm::checkpoint {
namespace {

class PowerCut : public ::testing::Test {
 protected:
  // What is missing at some moment of `body`, and what is missing at its end.
  template <class Body>
  std::string missing(const Body& body) {
    book().known.clear();
    book().published.clear();
    book().found.clear();
    book().open = true;
    body();
    book().open = false;
    for (const auto& [folder, names] : book().names) {
      for (const std::string& name : names) {
        const bool gone = !fs::exists(folder / name);
        if (!gone) book().found.push_back("the name " + name + " is not on disk at the end");
      }
    }
    book().names.clear();
    book().files.clear();
    return core::join(book().found, "\n");
  }
  testing::ScratchFolder folder_;
};

TEST_F(PowerCut, ACheckpointIsOnDiskBeforeItHasItsNameAndItsNameBeforeTheSaveEnds) {
  const fs::path output = folder_.path() / "new" / "output";
  EXPECT_EQ(missing([&] { ASSERT_TRUE(testing::save_state(output, 5, 2).durable); }), "");
  EXPECT_EQ(core::join(book().published, " "), "MANIFEST.json global_step5 latest");
  EXPECT_EQ(missing([&] { ASSERT_TRUE(testing::save_state(output, 5, 2).durable); }), "");
}

TEST_F(PowerCut, TheFolderOfARunIsOnDiskBeforeTheRunBegins) {
  // Nobody needs the file of the lock after a power cut.
  EXPECT_EQ(missing([&] { const OutputLock lock(folder_.path() / "new" / "output"); }),
            "the name LOCK is not on disk at the end");
}

// The book itself: a file without fdatasync and a name without fsync are found.
TEST_F(PowerCut, TheBookKnowsWhatIsMissing) {
  const std::string found = missing([&] {
    const fs::path file = folder_.write("half", "");
    const int fd = ::open(file.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, "x", 1, 0), 1);
    ASSERT_EQ(::rename(file.c_str(), (folder_.path() / "whole").c_str()), 0);
    ::close(fd);
  });
  EXPECT_NE(found.find("half is not on disk when whole gets its name"), std::string::npos) << found;
  EXPECT_NE(found.find("the name whole is not on disk at the end"), std::string::npos) << found;
}

}  // namespace
}  // namespace fm::checkpoint
