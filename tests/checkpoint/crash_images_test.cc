// Images of a disk as a crash may leave it in the middle of a save, and disks that are full from
// any call on. This program answers the calls of libc that change files and folders: it carries
// them out, writes down in which order they came, and makes of that what a disk may have. POSIX
// promises bytes behind fdatasync of their file, names behind fsync of their folder, nothing else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>

#include "checkpoint/verify_checkpoint.h"
#include "core/text.h"
#include "tests/checkpoint/checkpoint_cases.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;
using Names = std::map<std::string, int>;  // of a folder: name -> number of a file or folder

struct DiskCall {
  enum class Kind : std::uint8_t { kName, kBytes, kSize, kSync };
  Kind kind = Kind::kSync;
  int node = 0;           // the folder of a name, else the file or folder
  std::string gone = {};  // name that goes, and what comes
  Names come = {};
  std::int64_t at = 0;  // of bytes; a size
  std::string bytes = {};
};

// Thread: any.
class DiskBook {
 public:
  void begin(const fs::path& root) {
    const std::scoped_lock lock(mutex_);
    root_ = root;
    folders_ = {{0, {}}};
    calls_.clear();
    nodes_ = 1;
  }
  void end() { root_.clear(); }
  std::size_t size() const { return calls_.size(); }
  bool is_folder(int node) const { return folders_.contains(node); }
  const std::vector<DiskCall>& calls() const { return calls_; }

  void bytes(const fs::path& path, std::int64_t at, std::string_view text) {
    add(path, {.kind = DiskCall::Kind::kBytes, .at = at, .bytes = std::string(text)});
  }
  void resize(const fs::path& path, std::int64_t bytes) {
    add(path, {.kind = DiskCall::Kind::kSize, .at = bytes});
  }
  void sync(const fs::path& path) { add(path, {.kind = DiskCall::Kind::kSync}); }
  void make_folder(const fs::path& path) {
    const std::scoped_lock lock(mutex_);
    if (!covers(path)) return;
    folders_[name_new(path)] = {};
  }
  // In one folder, as all of ours; `exchange`: both names stay.
  void rename(const fs::path& from, const fs::path& to, bool exchange) {
    const std::scoped_lock lock(mutex_);
    if (!covers(from)) return;
    Names& names = folders_[find(from.parent_path())];
    const int node = names[from.filename()];
    DiskCall call{.kind = DiskCall::Kind::kName, .node = find(from.parent_path())};
    call.gone = from.filename();
    call.come[to.filename()] = node;
    if (exchange) call.come[from.filename()] = names[to.filename()];
    names.erase(from.filename());
    for (const auto& [name, other] : call.come) names[name] = other;
    calls_.push_back(call);
  }

 private:
  bool covers(const fs::path& path) const {
    return !root_.empty() && path.string().starts_with(root_.string());
  }
  int find(const fs::path& path) {
    if (path == root_) return 0;
    const int folder = find(path.parent_path());
    const auto found = folders_[folder].find(path.filename());
    return found == folders_[folder].end() ? -1 : found->second;
  }
  int name_new(const fs::path& path) {
    const int folder = find(path.parent_path());
    const int node = nodes_++;
    folders_[folder][path.filename()] = node;
    DiskCall call{.kind = DiskCall::Kind::kName, .node = folder};
    call.come[path.filename()] = node;
    calls_.push_back(call);
    return node;
  }
  void add(const fs::path& path, DiskCall call) {
    const std::scoped_lock lock(mutex_);
    if (!covers(path)) return;
    call.node = find(path);
    if (call.node < 0) call.node = name_new(path);  // the first that is heard of a file
    calls_.push_back(std::move(call));
  }

  std::mutex mutex_;
  fs::path root_;
  std::map<int, Names> folders_;  // as the process sees them
  std::vector<DiskCall> calls_;
  int nodes_ = 1;
};

DiskBook& book() {
  static DiskBook one;
  return one;
}

// Calls that need space, while a test counts them.
struct FullDisk {
  std::mutex mutex;
  fs::path root;          // "": the disk has space
  std::int64_t left = 0;  // calls until it is full
  std::int64_t refused = 0;
};

FullDisk& full_disk() {
  static FullDisk one;
  return one;
}

bool refuses(const fs::path& path) {
  FullDisk& disk = full_disk();
  const std::scoped_lock lock(disk.mutex);
  if (disk.root.empty() || !path.string().starts_with(disk.root.string())) return false;
  if (disk.left-- > 0) return false;
  ++disk.refused;
  return true;
}

fs::path path_of(int fd) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored);
}

}  // namespace
}  // namespace fm::checkpoint

using fm::checkpoint::book;
using fm::checkpoint::path_of;
using fm::checkpoint::refuses;

extern "C" {
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_CREAT) != 0 && refuses(path)) return errno = ENOSPC, -1;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  const auto path = path_of(fd);
  if (refuses(path)) return errno = ENOSPC, -1;
  book().bytes(path, offset, {static_cast<const char*>(bytes), count});
  return ::syscall(SYS_pwrite64, fd, bytes, count, offset);
}
int posix_fallocate(int fd, off_t offset, off_t count) {
  const auto path = path_of(fd);
  if (refuses(path)) return ENOSPC;
  book().resize(path, offset + count);
  return static_cast<int>(::syscall(SYS_fallocate, fd, 0, offset, count)) == 0 ? 0 : errno;
}
int fdatasync(int fd) {
  const auto path = path_of(fd);
  if (refuses(path)) return errno = ENOSPC, -1;  // as of a disk that finds its blocks late
  const auto done = static_cast<int>(::syscall(SYS_fdatasync, fd));
  book().sync(path);
  return done;
}
int fsync(int fd) {
  const auto done = static_cast<int>(::syscall(SYS_fsync, fd));
  book().sync(path_of(fd));
  return done;
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (refuses(path)) return errno = ENOSPC, -1;
  const auto made = static_cast<int>(::syscall(SYS_mkdir, path, mode));
  if (made == 0) book().make_folder(path);
  return made;
}
int rename(const char* from, const char* to) noexcept {
  if (refuses(from)) return errno = ENOSPC, -1;
  book().rename(from, to, false);
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  if (refuses(from)) return errno = ENOSPC, -1;
  const auto done = static_cast<int>(::syscall(SYS_renameat2, from_at, from, to_at, to, flags));
  if (done == 0) book().rename(from, to, flags == RENAME_EXCHANGE);
  return done;
}
}

namespace fm::checkpoint {
namespace {

constexpr int kImages = 200;
constexpr int kRanks = 2;

// What a disk has of calls that were not synced.
class CrashImage {
 public:
  enum class Kept : std::uint8_t { kAll, kNone, kSome };

  CrashImage(std::uint32_t seed, std::size_t cut) : random_(seed) {
    const auto& calls = book().calls();
    kept_ = static_cast<Kept>(random_() % 3);
    for (std::size_t at = 0; at < cut; ++at) {
      const DiskCall& call = calls[at];
      if (call.kind != DiskCall::Kind::kSync) {
        pending_[call.node].push_back(&call);
        continue;
      }
      for (const DiskCall* synced : pending_[call.node]) apply(*synced, std::string::npos);
      pending_[call.node].clear();
    }
    for (const auto& [node, left] : pending_) {
      for (const DiskCall* call : left) apply_perhaps(*call);
    }
  }

  void write(const fs::path& folder, int node = 0) const {
    const auto names = folders_.find(node);
    if (names == folders_.end()) return;
    for (const auto& [name, child] : names->second) {
      if (book().is_folder(child)) {
        fs::create_directories(folder / name);
        write(folder / name, child);
      } else {
        const auto text = files_.find(child);
        std::ofstream(folder / name, std::ios::binary)
            << (text == files_.end() ? "" : text->second);
      }
    }
  }

 private:
  void apply_perhaps(const DiskCall& call) {
    if (kept_ == Kept::kNone) return;
    if (kept_ == Kept::kAll) return apply(call, std::string::npos);
    const std::uint32_t die = random_() % 4;
    if (die < 2) apply(call, std::string::npos);
    if (die == 2) apply(call, random_() % (call.bytes.size() + 1));  // torn
  }
  // `most`: bytes of a write that came through.
  void apply(const DiskCall& call, std::size_t most) {
    if (call.kind == DiskCall::Kind::kName) {
      folders_[call.node].erase(call.gone);
      for (const auto& [name, node] : call.come) folders_[call.node][name] = node;
      return;
    }
    std::string& text = files_[call.node];
    const std::string bytes = call.bytes.substr(0, most);
    const auto end = static_cast<std::size_t>(call.at) + bytes.size();
    if (text.size() < end) text.resize(end);
    text.replace(static_cast<std::size_t>(call.at), bytes.size(), bytes);
  }

  std::mt19937 random_;
  Kept kept_ = Kept::kAll;
  std::map<int, std::vector<const DiskCall*>> pending_;
  std::map<int, Names> folders_;
  std::map<int, std::string> files_;
};

using Where = SaveCourse::Where;

class CrashImages : public ::testing::TestWithParam<Where> {
 protected:
  SaveResult save(const fs::path& output, std::int64_t step, int keep_last) const {
    return testing::save_state(output, step, kRanks,
                               {.keep_last = keep_last, .lineage = {}, .where = GetParam()});
  }
};
using FullDisks = CrashImages;

TEST_P(CrashImages, EveryOneLoadsWhatWasSavedBeforeOrWhatIsBeingSaved) {
  const testing::ScratchFolder folder;
  const fs::path output = folder.path() / "o";
  fs::create_directory(output);
  book().begin(output);
  std::vector<std::pair<std::size_t, std::int64_t>> saved;  // calls by then, step
  for (const std::int64_t step : {1, 2, 2, 3}) {            // the second 2 exchanges names
    ASSERT_TRUE(save(output, step, 2).durable);
    saved.emplace_back(book().size(), step);
  }
  book().end();
  std::mt19937 random(5);
  std::map<std::int64_t, int> loaded;
  for (int image = 0; image < kImages; ++image) {
    const std::size_t cut = random() % (book().size() + 1);
    std::int64_t before = -1;  // the last save that had ended, and the one that went on
    std::int64_t after = saved.back().second;
    for (const auto& [calls, step] : saved) {
      if (calls <= cut) {
        before = step;
        continue;
      }
      after = step;
      break;
    }
    const testing::ScratchFolder disk;
    CrashImage(static_cast<std::uint32_t>(image), cut).write(disk.path());
    const std::int64_t step = testing::load_state(disk.path(), kRanks);
    EXPECT_TRUE(step == before || step == after)
        << "image " << image << " of " << cut << " calls: loaded " << step << ", saved " << before;
    if (step >= 0) {
      const fs::path newest = disk.path() / core::concat("global_step", step);
      EXPECT_EQ(core::join(verify_checkpoint(newest, 1).damages, "\n"), "");
    }
    ++loaded[step];
  }
  EXPECT_GE(loaded.size(), 4U) << "images of every time";
}

// The disk is full at call number `left` and stays so; then there is space again.
TEST_P(FullDisks, AtAnyCallTheSaveBeforeLoadsAndTheNextOneWorks) {
  std::int64_t left = 0;
  bool reached = true;
  int refusals = 0;
  for (; reached; ++left) {
    const testing::ScratchFolder folder;
    const fs::path output = folder.path() / "o";
    ASSERT_TRUE(save(output, 1, 1).durable);
    full_disk().root = output;
    full_disk().left = left;
    full_disk().refused = 0;
    const SaveResult result = save(output, 2, 1);
    full_disk().root.clear();
    reached = full_disk().refused > 0;
    refusals += reached && !result.durable ? 1 : 0;
    const std::int64_t step = testing::load_state(output, kRanks);
    EXPECT_EQ(step, result.durable ? 2 : 1) << "full at call " << left;
    EXPECT_EQ(result.durable, result.problem.empty()) << result.problem;
    EXPECT_TRUE(save(output, 3, 1).durable) << "after call " << left;
    EXPECT_EQ(testing::load_state(output, kRanks), 3);
  }
  EXPECT_GT(refusals, 20);
}

INSTANTIATE_TEST_SUITE_P(EitherThread, CrashImages,
                         ::testing::Values(Where::kHere, Where::kThread));
INSTANTIATE_TEST_SUITE_P(EitherThread, FullDisks, ::testing::Values(Where::kHere, Where::kThread));

}  // namespace
}  // namespace fm::checkpoint
