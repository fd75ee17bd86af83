#include <algorithm>
#include <utility>

#include "core/check.h"
#include "offload/disk/disk_loop.h"
#include "offload/disk_store.h"

namespace fm::offload {
namespace {

using core::Bytes;

Bytes size_of(std::span<const std::byte> memory) {
  return Bytes(static_cast<std::int64_t>(memory.size()));
}

class DiskWait : public Move::UnderWay {
 public:
  // `seconds` may be null.
  DiskWait(DiskLoop& loop, DiskMovePtr move, double* seconds)
      : loop_(loop), move_(std::move(move)), seconds_(seconds) {}
  ~DiskWait() override {
    if (!waited_) loop_.wait(move_);  // a failure shows in the next move
  }
  DiskWait(const DiskWait&) = delete;
  DiskWait& operator=(const DiskWait&) = delete;

  void wait() override {
    waited_ = true;
    const double seconds = loop_.wait(move_);
    if (seconds_ != nullptr) *seconds_ += seconds;
    FM_MACHINE_CHECK(move_->problem.empty(), core::ExitCode::kStorageFailed, move_->problem);
  }

 private:
  DiskLoop& loop_;
  DiskMovePtr move_;
  double* seconds_;
  bool waited_ = false;
};

class HeldOnDisk : public HeldBytes {
 public:
  HeldOnDisk(DiskLoop& loop, DiskMovePtr held) : loop_(loop), held_(std::move(held)) {}
  ~HeldOnDisk() override { loop_.let_go(held_); }
  HeldOnDisk(const HeldOnDisk&) = delete;
  HeldOnDisk& operator=(const HeldOnDisk&) = delete;

  Move read(Bytes at, std::span<std::byte> into) override {
    FM_CHECK(at >= held_->at && at + size_of(into) <= held_->at + held_->size,
             "what is read must be held (", into.size(), " bytes at ", at.count(), ")");
    if (into.empty()) return {};
    const auto move = std::make_shared<DiskMove>(DiskMove{
        .direction = BlockDirection::kRead, .at = at, .size = size_of(into), .memory = into});
    loop_.ask(move, held_.get());
    return Move(std::make_unique<DiskWait>(loop_, move, nullptr));
  }

 private:
  DiskLoop& loop_;
  DiskMovePtr held_;
};

struct Opened {
  std::vector<DriveFile> files;
  std::unique_ptr<DiskEngine> engine;
  std::string words;
  int depth = 1;
};

class DiskStore : public SliceStore {
 public:
  DiskStore(Opened opened, Striping striping, Bytes bytes, const LoopOptions& options)
      : bytes_(bytes),
        words_(std::move(opened.words)),
        loop_(std::move(opened.files), striping, std::move(opened.engine), bytes, options) {}

  Bytes bytes() const override { return bytes_; }
  Move read(Bytes at, std::span<std::byte> into) override {
    totals_.read += size_of(into);
    return ask({.direction = BlockDirection::kRead, .at = at, .memory = into, .number = ++reads_});
  }
  Move write(Bytes at, std::span<const std::byte> from) override {
    totals_.written += size_of(from);
    std::byte* const data = const_cast<std::byte*>(from.data());  // a write only reads it
    return ask({.direction = BlockDirection::kWrite,
                .at = at,
                .memory = {data, from.size()},
                .number = ++writes_});
  }
  void will_use(std::span<std::byte> memory) override {
    if (unregistered_.empty()) unregistered_ = loop_.will_use(memory);
  }
  Totals totals() const override { return totals_; }
  std::unique_ptr<HeldBytes> hold(Bytes at, Bytes bytes) override {
    check(at, bytes);
    const auto held = std::make_shared<DiskMove>(DiskMove{.held = true, .at = at, .size = bytes});
    loop_.ask(held);
    return std::make_unique<HeldOnDisk>(loop_, held);
  }
  std::string describe() const override {
    if (unregistered_.empty()) return words_;
    return core::concat(words_, ", memory not registered: ", unregistered_);
  }

 private:
  void check(Bytes at, Bytes size) const {
    FM_CHECK(
        at >= Bytes(0) && at % kPage == Bytes(0) && size % kPage == Bytes(0) && at + size <= bytes_,
        "a store of ", bytes_.count(), " bytes has no ", size.count(), " at ", at.count());
  }
  Move ask(DiskMove asked) {
    asked.size = size_of(asked.memory);
    check(asked.at, asked.size);
    if (asked.memory.empty()) return {};
    const auto move = std::make_shared<DiskMove>(std::move(asked));
    loop_.ask(move);
    return Move(std::make_unique<DiskWait>(loop_, move, &totals_.waited_seconds));
  }

  Bytes bytes_;
  std::string words_;
  std::string unregistered_;  // why
  Totals totals_;
  std::int64_t reads_ = 0, writes_ = 0;
  DiskLoop loop_;
};

void check_options(const DiskPlace& place, const DiskOptions& options) {
  FM_USER_CHECK(!place.folders.empty(), "bytes that sleep on a disk need a folder; name one");
  FM_USER_CHECK(options.block_bytes >= kPage.count() && options.block_bytes % kPage.count() == 0,
                "a block must be a whole number of pages of ", kPage.count(),
                " bytes; set aio.block_size to a multiple (block_size=", options.block_bytes, ")");
  FM_USER_CHECK(options.queue_depth >= 1 && options.queue_depth <= kMostQueueDepth,
                "aio.queue_depth must be from 1 to ", kMostQueueDepth,
                "; correct it (queue_depth=", options.queue_depth, ")");
  FM_USER_CHECK(options.threads >= 1 && options.threads <= kMostDiskThreads,
                "aio.intra_op_parallelism must be from 1 to ", kMostDiskThreads,
                "; correct it (intra_op_parallelism=", options.threads, ")");
  FM_CHECK(place.stripe > Bytes(0) && place.stripe % kPage == Bytes(0), "stripes are whole pages");
}

Cache cache_of(std::vector<DriveFile>& files, const DiskOptions& options) {
  if (!options.direct) return Cache::kThrough;
  Cache cache = Cache::kPast;
  for (DriveFile& file : files) {
    if (file.go_past_cache() == Cache::kThrough) cache = Cache::kThrough;
  }
  return cache;
}

// io_uring where it is allowed, past the page cache alone: through it, moves would wait in the call
// that starts them.
void choose_engine(Opened& opened, Cache cache, const DiskOptions& options) {
  using Method = DiskOptions::Method;
  const std::size_t drives = opened.files.size();
  std::string why = cache == Cache::kPast ? "" : "the page cache is used";
  if (options.method != Method::kThreads && why.empty()) {
    opened.depth = options.queue_depth;
    EngineOrWhy uring = uring_engine(drives * static_cast<std::size_t>(opened.depth));
    opened.engine = std::move(uring.engine);
    why = uring.why;
  }
  opened.words = "io_uring";
  if (opened.engine != nullptr) return;
  FM_USER_CHECK(options.method != Method::kUring,
                "io_uring must be allowed, and files past the page cache, where it is asked for; "
                "leave the choice to the program (",
                opened.files.front().folder(), ": ", why, ")");
  opened.depth = std::min(std::max(options.queue_depth, options.threads), kMostDiskThreads);
  opened.engine = thread_engine(drives * static_cast<std::size_t>(opened.depth), cache);
  opened.words = "threads";
  if (options.method == Method::kAuto && cache == Cache::kPast) {
    opened.words += core::concat(" (no io_uring: ", why, ")");
  }
}

std::string words_of(const Opened& opened, Cache cache, const DiskOptions& options) {
  const std::size_t drives = opened.files.size();
  const std::string_view way = cache == Cache::kPast ? "O_DIRECT"
                               : options.direct      ? "page cache (no O_DIRECT)"
                                                     : "page cache";
  return core::concat(opened.words, ", ", way, ", ", drives, drives == 1 ? " drive, " : " drives, ",
                      opened.depth, " x ", options.block_bytes >> 10, " KiB under way",
                      drives == 1 ? "" : " on each", options.checks ? "" : ", no checks");
}

Opened open_files(const DiskPlace& place, const DiskOptions& options, const Striping& striping,
                  Bytes bytes) {
  Opened opened;
  for (int drive = 0; drive < striping.drives; ++drive) {
    opened.files.emplace_back(place.folders[static_cast<std::size_t>(drive)],
                              FileSpec{.world_rank = place.world_rank,
                                       .run = place.run,
                                       .bytes = std::max(kPage, striping.bytes_on(drive, bytes))});
  }
  const Cache cache = cache_of(opened.files, options);
  choose_engine(opened, cache, options);
  opened.words = words_of(opened, cache, options);
  return opened;
}

}  // namespace

std::unique_ptr<SliceStore> open_disk(const DiskPlace& place, const DiskOptions& options,
                                      Bytes bytes) {
  check_options(place, options);
  const Bytes whole = core::round_up(bytes, kPage);
  const Striping striping{.stripe = place.stripe, .drives = static_cast<int>(place.folders.size())};
  Opened opened = open_files(place, options, striping, whole);
  const LoopOptions loop{.world_rank = place.world_rank,
                         .block = Bytes(options.block_bytes),
                         .depth = opened.depth,
                         .checks = options.checks,
                         .limit = options.limit,
                         .pace = options.pace,
                         .on_hang = options.on_hang};
  return std::make_unique<DiskStore>(std::move(opened), striping, whole, loop);
}

Bytes disk_memory(const DiskOptions& options, int drives, Bytes bytes) {
  const int depth = std::max(options.queue_depth, options.threads);
  const Bytes copies = Bytes(options.block_bytes) * depth * drives;
  return options.checks ? copies + PageSums::memory(bytes) : copies;
}

}  // namespace fm::offload
