#include "offload/disk_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <semaphore>
#include <thread>

#include "core/check.h"
#include "core/fault.h"
#include "core/files/output_file.h"
#include "offload/disk/disk_loop.h"

namespace fm::offload {
namespace {

namespace fs = std::filesystem;
using core::Bytes;

constexpr std::int64_t kPageBytes = 4096;

class Folder {
 public:
  Folder() : path_(fs::path(testing::TempDir()) / ("disk-" + core::random_tag())) {
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  std::size_t entries() const {
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      count += entry.is_directory() ? 0 : 1;
    }
    return count;
  }

 private:
  fs::path path_;
};

DiskPlace place_in(const Folder& folder, int drives = 1) {
  DiskPlace place{
      .folders = {}, .world_rank = 3, .run = "a run/7", .stripe = Bytes(3 * kPageBytes)};
  for (int drive = 0; drive < drives; ++drive) {
    place.folders.push_back(folder.path() / ("drive" + std::to_string(drive)));
  }
  return place;
}

// A way to a disk, and in how many drives.
struct Way {
  std::string name;
  DiskOptions options;
  int drives = 1;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

DiskOptions options_of(DiskOptions::Method method, bool direct, bool checks = true) {
  return {.block_bytes = 2 * kPageBytes,
          .queue_depth = 4,
          .threads = 2,
          .method = method,
          .direct = direct,
          .checks = checks};
}

std::vector<Way> ways() {
  using Method = DiskOptions::Method;
  return {
      {"Uring", options_of(Method::kUring, true)},
      {"UringOnThreeDrives", options_of(Method::kUring, true), 3},
      {"Threads", options_of(Method::kThreads, true)},
      {"ThreadsUnchecked", options_of(Method::kThreads, true, false), 2},
      {"ThreadsThroughTheCache", options_of(Method::kThreads, false), 3},
  };
}

class DiskStoreTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const EngineOrWhy uring = uring_engine(1);
    if (GetParam().options.method == DiskOptions::Method::kUring && uring.engine == nullptr) {
      GTEST_SKIP() << "io_uring is not allowed here: " << uring.why;
    }
  }
  void TearDown() override { core::arm_faults(""); }
  std::unique_ptr<SliceStore> open(Bytes bytes) {
    return open_disk(place_in(folder_, GetParam().drives), GetParam().options, bytes);
  }
  Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(Ways, DiskStoreTest, testing::ValuesIn(ways()),
                         [](const auto& at) { return at.param.name; });

// Whole pages of this process, at an address that is aligned, or that is not.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t off) : bytes_(bytes), off_(off), all_(bytes + 2 * 4096) {}
  std::span<std::byte> span() {
    const auto address = reinterpret_cast<std::uintptr_t>(all_.data());
    const std::size_t first = (4096 - address % 4096) % 4096 + off_;
    return std::span(all_).subspan(first, bytes_);
  }

 private:
  std::size_t bytes_, off_;
  std::vector<std::byte> all_;
};

void fill(std::span<std::byte> bytes, std::mt19937_64& random) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
}

// The plain model is memory that every move changes at once, in the order of asking.
TEST_P(DiskStoreTest, RandomMovesAreThoseOfAPlainModel) {
  constexpr std::size_t kPages = 61;  // the last stripe is not whole
  const std::unique_ptr<SliceStore> store = open(Bytes(kPages * kPageBytes));
  ASSERT_EQ(store->bytes(), Bytes(kPages * kPageBytes));
  struct UnderWay {
    Memory memory;
    std::vector<std::byte> expected;  // of a read
    Move move = {};
  };
  std::vector<std::byte> model(kPages * kPageBytes);
  std::deque<UnderWay> under_way;
  std::mt19937_64 random(7);
  const auto end_first = [&] {
    under_way.front().move.wait();
    const std::span<const std::byte> read = under_way.front().memory.span();
    const std::vector<std::byte>& expected = under_way.front().expected;
    EXPECT_TRUE(expected.empty() || std::equal(read.begin(), read.end(), expected.begin()));
    under_way.pop_front();
  };
  for (int round = 0; round < 600 && !HasFailure(); ++round) {
    const std::size_t first = random() % kPages;
    const std::size_t pages = 1 + random() % std::min<std::size_t>(12, kPages - first);
    const std::size_t size = pages * kPageBytes;
    under_way.push_back({.memory = Memory(size, random() % 4 == 0 ? 8 : 0), .expected = {}});
    UnderWay& at = under_way.back();
    const auto here = std::span(model).subspan(first * kPageBytes, size);
    const Bytes address(static_cast<std::int64_t>(first) * kPageBytes);
    if (random() % 2 == 0) {
      fill(at.memory.span(), random);
      std::memcpy(here.data(), at.memory.span().data(), size);
      at.move = store->write(address, at.memory.span());
    } else {
      at.expected.assign(here.begin(), here.end());
      at.move = store->read(address, at.memory.span());
    }
    while (under_way.size() > random() % 24) end_first();
  }
  while (!under_way.empty()) end_first();
}

TEST_P(DiskStoreTest, WhatWasNeverWrittenReadsAsZeros) {
  const std::unique_ptr<SliceStore> store = open(Bytes(9 * kPageBytes));
  Memory memory(9 * kPageBytes, 0);
  std::memset(memory.span().data(), 1, memory.span().size());
  store->read(Bytes(0), memory.span()).wait();
  for (const std::byte at : memory.span()) ASSERT_EQ(at, std::byte{0});
}

TEST_P(DiskStoreTest, TotalsCountWhatWasMoved) {
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory memory(2 * kPageBytes, 0);
  store->write(Bytes(kPageBytes), memory.span()).wait();
  store->read(Bytes(0), memory.span()).wait();
  store->read(Bytes(0), memory.span()).wait();
  EXPECT_EQ(store->totals().written, Bytes(2 * kPageBytes));
  EXPECT_EQ(store->totals().read, Bytes(4 * kPageBytes));
  EXPECT_GT(store->totals().waited_seconds, 0.0);
}

TEST_P(DiskStoreTest, MemoryThatIsUsedAgainMovesTheSameBytes) {
  const std::unique_ptr<SliceStore> store = open(Bytes(32 * kPageBytes));
  Memory memory(16 * kPageBytes, 0);
  Memory other(16 * kPageBytes, 0);
  store->will_use(memory.span());
  std::mt19937_64 random(3);
  fill(memory.span(), random);
  store->write(Bytes(kPageBytes), memory.span()).wait();
  store->read(Bytes(kPageBytes), other.span()).wait();
  EXPECT_TRUE(std::ranges::equal(memory.span(), other.span()));
  Move leaves = store->write(Bytes(16 * kPageBytes), memory.span());
  store->read(Bytes(0), memory.span()).wait();
  leaves.wait();
  store->read(Bytes(16 * kPageBytes), memory.span()).wait();
  EXPECT_TRUE(std::ranges::equal(memory.span(), other.span()));
}

// The holder's thread reads what was there, while the rank has asked for the next value.
TEST_P(DiskStoreTest, WhatIsHeldStaysUntilItIsLetGo) {
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory old_value(4 * kPageBytes, 0), new_value(4 * kPageBytes, 0), seen(4 * kPageBytes, 0);
  std::ranges::fill(old_value.span(), std::byte{1});
  std::ranges::fill(new_value.span(), std::byte{2});
  Move first = store->write(Bytes(kPageBytes), old_value.span());
  std::unique_ptr<HeldBytes> held = store->hold(Bytes(kPageBytes), Bytes(4 * kPageBytes));
  Move second = store->write(Bytes(kPageBytes), new_value.span());
  Memory kept(4 * kPageBytes, 0);
  std::thread reader([&] {
    held->read(Bytes(kPageBytes), kept.span()).wait();
    held.reset();
  });
  second.wait();
  first.wait();
  reader.join();
  EXPECT_TRUE(std::ranges::equal(kept.span(), old_value.span()));
  store->read(Bytes(kPageBytes), seen.span()).wait();
  EXPECT_TRUE(std::ranges::equal(seen.span(), new_value.span()));
}

TEST_P(DiskStoreTest, RatesAreMeasured) {
  const std::unique_ptr<SliceStore> store = open(Bytes(64 * kPageBytes));
  const DiskRates rates = measure_rates(*store, Bytes(8 * kPageBytes));
  EXPECT_GT(rates.read, 0.0);
  EXPECT_GT(rates.write, 0.0);
  EXPECT_GT(rates.both, 0.0);
  EXPECT_EQ(store->totals().written, Bytes((64 + 64 + 32) * kPageBytes));
  EXPECT_EQ(store->totals().read, Bytes((64 + 32) * kPageBytes));
}

// What `body` says when the machine fails; "" when it does not.
template <class Body>
std::string machine_failure(Body body) {
  try {
    body();
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), core::ExitCode::kStorageFailed);
    return error.what();
  }
  return "";
}

TEST_P(DiskStoreTest, AFailingDriveEndsWithItsPlace) {
  for (const std::string action : {"eio", "enospc", "throw"}) {
    const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
    Memory memory(5 * kPageBytes, 0);
    core::arm_faults("rank=3,step=2,point=offload.write,action=" + action);
    store->write(Bytes(kPageBytes), memory.span()).wait();
    Move second = store->write(Bytes(kPageBytes), memory.span());
    const std::string why = machine_failure([&] { second.wait(); });
    EXPECT_NE(why.find("write at byte 4096 of the file in " + folder_.path().string()), why.npos)
        << why;
    // Nothing goes on behind a failure.
    EXPECT_EQ(machine_failure([&] { store->read(Bytes(0), memory.span()).wait(); }), why);
  }
}

TEST_P(DiskStoreTest, AFailureThatNobodyWaitedForIsSaidAtTheNextMove) {
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory memory(kPageBytes, 0);
  core::arm_faults("point=offload.read,action=eio");
  { const Move dropped = store->read(Bytes(0), memory.span()); }
  EXPECT_NE(machine_failure([&] { store->write(Bytes(0), memory.span()); }), "");
}

TEST_P(DiskStoreTest, ABitThatFlipsOnItsWayIsFound) {
  if (!GetParam().options.checks) GTEST_SKIP() << "nothing is compared here";
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory memory(2 * kPageBytes, 0);
  core::arm_faults("point=offload.read,step=1,action=nan");
  const std::string why =
      machine_failure([&] { store->read(Bytes(2 * kPageBytes), memory.span()).wait(); });
  EXPECT_NE(why.find("CRC-32C"), why.npos) << why;
}

// Descriptors of this process whose file has no name any more.
std::vector<fs::path> nameless_files(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (target.starts_with(folder.string()) && target.ends_with("(deleted)")) {
      found.push_back(entry.path());
    }
  }
  return found;
}

TEST_P(DiskStoreTest, AByteThatChangesOnTheDriveIsFoundWhereItIsRead) {
  if (!GetParam().options.checks) GTEST_SKIP() << "nothing is compared here";
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory memory(2 * kPageBytes, 0);
  store->write(Bytes(0), memory.span()).wait();
  const std::vector<fs::path> files = nameless_files(folder_.path());
  ASSERT_EQ(files.size(), static_cast<std::size_t>(GetParam().drives));
  for (const fs::path& file : files) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const char one = 1;
    ASSERT_EQ(::pwrite(fd, &one, 1, kPageBytes + 77), 1);
    ASSERT_EQ(::fsync(fd), 0);
    ::close(fd);
  }
  const std::string why = machine_failure([&] { store->read(Bytes(0), memory.span()).wait(); });
  EXPECT_NE(why.find("read at byte 4096 of the file in " + folder_.path().string()), why.npos)
      << why;
  EXPECT_NE(why.find("CRC-32C"), why.npos) << why;
}

std::int64_t pages_in_cache(const fs::path& file, std::int64_t pages) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  const auto bytes = static_cast<std::size_t>(pages * kPageBytes);
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> resident(static_cast<std::size_t>(pages), 1);
  if (mapped != MAP_FAILED) ::mincore(mapped, bytes, resident.data());
  ::munmap(mapped, bytes);
  ::close(fd);
  return std::ranges::count_if(resident, [](unsigned char at) { return (at & 1U) != 0; });
}

// A control group counts the page cache as memory of its processes.
TEST(DiskStore, WhatPassesThroughThePageCacheDoesNotStayThere) {
  constexpr std::int64_t kPages = 1024;
  const Folder folder;
  struct statfs kind {};
  ASSERT_EQ(::statfs(folder.path().c_str(), &kind), 0);
  if (kind.f_type == TMPFS_MAGIC) GTEST_SKIP() << "this file system is its cache";
  const DiskOptions options{.block_bytes = 16 * kPageBytes, .direct = false};
  const auto store = open_disk(place_in(folder), options, Bytes(kPages * kPageBytes));
  const std::vector<fs::path> files = nameless_files(folder.path());
  ASSERT_EQ(files.size(), 1U);
  Memory memory(kPages * kPageBytes, 0);
  store->write(Bytes(0), memory.span()).wait();
  EXPECT_LT(pages_in_cache(files[0], kPages), kPages / 8);
  store->read(Bytes(0), memory.span()).wait();
  EXPECT_LT(pages_in_cache(files[0], kPages), kPages / 8);
}

TEST_P(DiskStoreTest, AFileThatIsCutIsFound) {
  const std::unique_ptr<SliceStore> store = open(Bytes(8 * kPageBytes));
  Memory memory(8 * kPageBytes, 0);
  store->write(Bytes(0), memory.span()).wait();
  for (const fs::path& file : nameless_files(folder_.path())) {
    ASSERT_EQ(::truncate(file.c_str(), kPageBytes), 0);
  }
  const std::string why = machine_failure([&] { store->read(Bytes(0), memory.span()).wait(); });
  EXPECT_NE(why.find("bytes)"), why.npos) << why;
}

TEST_P(DiskStoreTest, AKilledRunLeavesNothing) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::unique_ptr<SliceStore> store = open(Bytes(16 * kPageBytes));
    Memory memory(16 * kPageBytes, 0);
    store->write(Bytes(0), memory.span()).wait();
    const ssize_t told = ::write(ready[1], "!", 1);
    while (told == 1) ::pause();
  }
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  EXPECT_EQ(folder_.entries(), 0U) << "while it runs";
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(folder_.entries(), 0U) << "afterwards";
  ::close(ready[0]);
  ::close(ready[1]);
}

// A system that starts what it is asked to, and ends nothing: it hangs, or tells that it has
// failed.
class DeadEngine : public DiskEngine {
 public:
  explicit DeadEngine(std::string failure) : failure_(std::move(failure)) {}
  void start(std::size_t /*slot*/, const DiskBlock& /*block*/) override { started_ = true; }
  void wait(std::vector<DiskDone>& /*done*/) override {
    FM_MACHINE_CHECK(!started_ || failure_.empty(), core::ExitCode::kStorageFailed, failure_);
    woken_.acquire();
  }
  void wake() override { woken_.release(); }
  std::string will_use(std::span<std::byte> /*memory*/) override { return ""; }

 private:
  std::string failure_;
  bool started_ = false;
  std::counting_semaphore<> woken_{0};
};

// Asks twice at one place, so that one move waits for the other.
void ask_twice(const Folder& folder, const std::string& failure,
               const std::function<void(const core::MachineError&)>& on_hang = {}) {
  std::vector<DriveFile> files;
  files.emplace_back(folder.path(),
                     FileSpec{.world_rank = 3, .run = "run", .bytes = Bytes(4 * kPageBytes)});
  const LoopOptions options{.world_rank = 3,
                            .block = Bytes(kPageBytes),
                            .patience = std::chrono::milliseconds(1),
                            // A failure may take its time to be seen on a busy machine.
                            .limit = std::chrono::milliseconds(failure.empty() ? 5 : 600'000),
                            .on_hang = on_hang};
  DiskLoop loop(std::move(files), {.stripe = Bytes(kPageBytes)},
                std::make_unique<DeadEngine>(failure), Bytes(4 * kPageBytes), options);
  Memory memory(2 * kPageBytes, 0);
  std::vector<DiskMovePtr> moves;
  for (int i = 0; i < 2; ++i) {
    moves.push_back(std::make_shared<DiskMove>(DiskMove{.direction = BlockDirection::kWrite,
                                                        .at = Bytes(0),
                                                        .size = Bytes(2 * kPageBytes),
                                                        .memory = memory.span()}));
  }
  try {
    for (const DiskMovePtr& move : moves) loop.ask(move);
  } catch (const core::MachineError&) {  // the first one has failed already
    moves.pop_back();
  }
  for (const DiskMovePtr& move : moves) {
    loop.wait(move);
    EXPECT_NE(move->problem.find("rank 3: " + failure), std::string::npos) << move->problem;
  }
  EXPECT_EQ(loop.will_use(memory.span()), moves.front()->problem);
  EXPECT_EQ(machine_failure([&] { loop.ask(moves.front()); }), moves.front()->problem);
}

TEST(DiskStore, ASystemThatFailsEndsAllMoves) { ask_twice(Folder(), "the ring is gone"); }

TEST(DiskStore, ADriveThatHangsEndsTheProcess) {
  const Folder folder;
  EXPECT_EXIT(ask_twice(folder, ""), testing::ExitedWithCode(26),
              "a drive must answer.*files in " + folder.path().string() + ", rank 3");
  const auto told = [](const auto& error) { _exit(1 + static_cast<int>(error.code())); };
  EXPECT_EXIT(ask_twice(folder, "", told), testing::ExitedWithCode(27), "");  // as a program says
}

TEST(DiskStore, WhatADeadRunLeftIsRemoved) {
  const Folder folder;
  const DiskPlace place = place_in(folder);
  fs::create_directories(place.folders[0]);
  const fs::path left = place.folders[0] / ".tmp-fmengine-sleep-other-rank0-0123abcd";
  const fs::path foreign = place.folders[0] / "weights";
  std::ofstream(left) << "bytes";
  std::ofstream(foreign) << "bytes";
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(1));
  open_disk(place, {}, Bytes(kPageBytes));
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(foreign));
}

TEST(DiskStore, SaysHowItMoves) {
  const Folder folder;
  DiskOptions options{.method = DiskOptions::Method::kThreads};
  EXPECT_EQ(open_disk(place_in(folder, 2), options, Bytes(kPageBytes))->describe(),
            "threads, O_DIRECT, 2 drives, 8 x 1024 KiB under way on each");
  options.direct = false;
  options.checks = false;
  options.threads = 12;
  EXPECT_EQ(open_disk(place_in(folder), options, Bytes(kPageBytes))->describe(),
            "threads, page cache, 1 drive, 12 x 1024 KiB under way, no checks");
}

TEST(DiskStore, OptionsThatDoNotFitAreRefused) {
  const Folder folder;
  for (const DiskOptions& wrong : {DiskOptions{.block_bytes = 5000}, DiskOptions{.block_bytes = 0},
                                   DiskOptions{.queue_depth = 0}, DiskOptions{.threads = 0}}) {
    EXPECT_THROW(open_disk(place_in(folder), wrong, Bytes(kPageBytes)), core::UserError);
  }
  EXPECT_THROW(open_disk({}, {}, Bytes(kPageBytes)), core::UserError);
  const DiskOptions through{.method = DiskOptions::Method::kUring, .direct = false};
  EXPECT_THROW(open_disk(place_in(folder), through, Bytes(kPageBytes)), core::UserError);
}

// A limit of this process, until it goes.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const struct rlimit lower { bytes, before_.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  struct rlimit before_ {};
};

TEST(DiskStore, AFileAboveTheLimitIsRefusedBeforeTheSignal) {
  const Folder folder;
  const FileLimit limit(16 * kPageBytes);
  const std::string why =
      machine_failure([&] { open_disk(place_in(folder), {}, Bytes(17 * kPageBytes)); });
  EXPECT_NE(why.find("ulimit -f"), why.npos) << why;
  EXPECT_EQ(machine_failure([&] { open_disk(place_in(folder), {}, Bytes(16 * kPageBytes)); }), "");
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(DiskStore, AFullDriveIsNamedWithWhatIsNeededAndFree) {
  const Folder folder;
  core::arm_faults("point=offload.open,action=enospc");
  const std::string why =
      machine_failure([&] { open_disk(place_in(folder), {}, Bytes(17 * kPageBytes)); });
  core::arm_faults("");
  EXPECT_NE(why.find("No space left on device, needed=69632 bytes, free="), why.npos) << why;
  EXPECT_NE(why.find(folder.path().string()), why.npos) << why;
  EXPECT_EQ(folder.entries(), 0U);
}

std::string all_of(const std::vector<DiskProblem>& problems, DiskProblem::Weight weight) {
  std::string text;
  for (const DiskProblem& at : problems) text += at.weight == weight ? at.text + "\n" : "";
  return text;
}
constexpr auto kRefused = DiskProblem::Weight::kRefused;
constexpr auto kNote = DiskProblem::Weight::kNote;

TEST(DiskStore, ASmallFileSystemIsFullWithoutAFault) {
  const Folder folder;
  const DiskPlace place = place_in(folder);
  fs::create_directories(place.folders[0]);
  if (::mount("tmpfs", place.folders[0].c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "this user mounts nothing: " << std::strerror(errno);
  }
  const DiskNeed need{.of_rank = Bytes(17 * kPageBytes), .of_host = Bytes(17 * kPageBytes)};
  const std::string refused = all_of(disk_problems(place, {}, need), kRefused);
  const std::string why =
      machine_failure([&] { open_disk(place, {.direct = false}, Bytes(17 * kPageBytes)); });
  const std::size_t left = folder.entries();
  ::umount2(place.folders[0].c_str(), MNT_DETACH);
  EXPECT_NE(refused.find("needed=69632 bytes for 1 rank, free=65536 bytes"), why.npos) << refused;
  EXPECT_NE(why.find("No space left on device, needed=69632 bytes"), why.npos) << why;
  EXPECT_EQ(left, 0U);
}

TEST(DiskStore, AFolderThatIsAFileIsRefused) {
  const Folder folder;
  DiskPlace place = place_in(folder);
  std::ofstream(place.folders[0]) << "a file";
  EXPECT_NE(machine_failure([&] { open_disk(place, {}, Bytes(kPageBytes)); }), "");
}

TEST(DiskProblems, NothingIsWrongWhereThereIsRoomAndNothingIsMade) {
  const Folder folder;
  const DiskNeed need{.of_rank = Bytes(kPageBytes), .of_host = Bytes(2 * kPageBytes), .ranks = 2};
  EXPECT_EQ(all_of(disk_problems(place_in(folder), {}, need), kRefused), "");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DiskProblems, RoomIsThatOfAllRanksOnAllFoldersOfADrive) {
  const Folder folder;
  const std::int64_t free = static_cast<std::int64_t>(fs::space(folder.path()).available);
  // Two thirds of what is free on each of two folders, which are on one drive.
  const Bytes third(free / 3 / kPageBytes * kPageBytes);
  const DiskNeed need{.of_rank = third, .of_host = third * 4, .ranks = 4};
  const std::vector<DiskProblem> found = disk_problems(place_in(folder, 2), {}, need);
  const std::string refused = all_of(found, kRefused);
  EXPECT_NE(refused.find("for 4 ranks, free="), refused.npos) << refused;
  const std::string notes = all_of(found, kNote);
  EXPECT_NE(notes.find("2 folders are on one file system"), notes.npos) << notes;
}

TEST(DiskProblems, LimitsAndFilesInTheWayAreNamed) {
  const Folder folder;
  const DiskNeed need{.of_rank = Bytes(64 * kPageBytes), .of_host = Bytes(64 * kPageBytes)};
  {
    const FileLimit limit(16 * kPageBytes);
    const std::string refused = all_of(disk_problems(place_in(folder), {}, need), kRefused);
    EXPECT_NE(refused.find("ulimit -f"), refused.npos) << refused;
  }
  DiskPlace place = place_in(folder);
  std::ofstream(place.folders[0]) << "a file";
  const std::string refused = all_of(disk_problems(place, {}, need), kRefused);
  EXPECT_NE(refused.find("Not a directory"), refused.npos) << refused;
}

TEST(DiskProblems, AFileSystemOfMemoryIsNoted) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "no file system of memory here";
  const DiskPlace place{.folders = {"/dev/shm/not-made"}};
  const std::string notes = all_of(disk_problems(place, {.direct = false}, {}), kNote);
  EXPECT_NE(notes.find("stays in memory"), notes.npos) << notes;
  EXPECT_NE(notes.find("page cache"), notes.npos) << notes;
}

}  // namespace
}  // namespace fm::offload
