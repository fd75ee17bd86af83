#include "checkpoint/save_checkpoint.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "checkpoint/lineage.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors_plan.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/fault.h"
#include "core/files/durable_file.h"
#include "core/finite.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSpareBytes = 1 << 20;   // manifest, directories
constexpr std::int64_t kRangeBytes = 16 << 20;  // one CRC each: says where damage is
constexpr int kNice = 10;
constexpr auto kStorageFailed = core::ExitCode::kStorageFailed;

enum class Who : std::uint8_t { kEveryRank, kRank0 };
enum class Act : std::uint8_t { kFiles, kSlices, kPublish, kTidy, kCleanUp, kOver };

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

// Every step of the protocol, S0 to S10, is one call of do_step: its fault point, and the work.
class SaveCourse::Saver {
 public:
  Saver(SaveRequest request, comm::Communicator& world, Where where)
      : request_(std::move(request)),
        world_(world),
        where_(where),
        tag_(tag_of_step(request_.step)) {
    const auto start = Clock::now();
    problem_ = comm::attempt([this] {
      do_step("ckpt.S0", Who::kEveryRank, [this] { plan_and_check_space(); });
      do_step("ckpt.S1", Who::kEveryRank, [] {});  // weights stand still, or are a copy
    });
    agree();
    for (const SafetensorsPlan& plan : plans_) result_.bytes += plan.file_bytes;
    if (!result_.problem.empty()) return;
    folder_ = request_.output_dir / core::concat(".tmp-", tag_, "-", core::random_tag());
    folder_ = comm::text_of_rank0(world_, folder_.string());
    result_.seconds = seconds_since(start);
    begin(Act::kFiles);
  }
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  ~Saver() {
    abandoned_ = true;
    if (thread_.joinable()) thread_.join();
  }

  bool over() const { return act_ == Act::kOver; }
  bool ready() const { return done_; }
  const SaveResult& result() const { return result_; }

  void meet() {
    FM_CHECK(!over(), "nobody meets when the save of step ", request_.step, " is over");
    if (thread_.joinable()) thread_.join();
    if (defect_) std::rethrow_exception(defect_);
    const auto start = Clock::now();
    agree();
    const std::int64_t slowest = std::ranges::max(comm::gather_numbers(world_, act_ns_));
    result_.seconds += 1e-9 * static_cast<double>(slowest) + seconds_since(start);
    go_on();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Collective: the first problem of the ranks becomes that of the save.
  void agree() {
    if (!problem_.empty()) request_.fence.check();  // its error is not the storage's
    const std::string problem = comm::first_problem(world_, std::exchange(problem_, ""));
    if (problem.empty()) return;
    const bool first = !result_.durable && result_.problem.empty();
    if (first) result_.problem = problem;
    if (!first && world_.rank() == 0) warn(problem);
  }

  // Behind an act that all ranks have ended.
  void go_on() {
    const bool failed = !result_.problem.empty();
    switch (act_) {
      case Act::kFiles: return begin(failed ? Act::kCleanUp : Act::kSlices);
      case Act::kSlices: return begin(failed || !all_finite() ? Act::kCleanUp : Act::kPublish);
      case Act::kPublish:
        result_.durable = !failed;
        return begin(failed ? Act::kCleanUp : Act::kTidy);
      case Act::kTidy:
      case Act::kCleanUp: act_ = Act::kOver; return;
      case Act::kOver: return;
    }
  }

  void begin(Act act) {
    act_ = act;
    done_ = false;
    if (where_ == Where::kHere) return run_act();
    thread_ = std::thread([this] {
      // Training goes before: a thread of its own priority is Linux' extension.
      static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice));
      run_act();
    });
  }

  // By this rank alone. Errors are told at the meeting.
  void run_act() noexcept {
    const auto start = Clock::now();
    try {
      problem_ = comm::attempt([this] { work(); });
    } catch (...) {
      defect_ = std::current_exception();
    }
    act_ns_ = std::chrono::nanoseconds(Clock::now() - start).count();
    done_ = true;
  }

  void work() {
    switch (act_) {
      case Act::kFiles: return do_step("ckpt.S2", Who::kRank0, [this] { create_files(); });
      case Act::kSlices:
        do_step("ckpt.S3", Who::kEveryRank, [this] { write_slices(); });
        return do_step("ckpt.S4", Who::kEveryRank, [this] { sync_files(); });
      case Act::kPublish:
        do_step("ckpt.S5", Who::kRank0, [this] { check_cover(); });
        do_step("ckpt.S6", Who::kRank0, [this] { write_manifest(); });
        return do_step("ckpt.S7", Who::kRank0, [this] { publish(); });
      case Act::kTidy: return tidy();
      case Act::kCleanUp: return do_step("ckpt.clean_up", Who::kRank0, [this] { clean_up(); });
      case Act::kOver: return;
    }
  }

  // What fails here is a warning: the loader needs none of it.
  void tidy() {
    const std::string name = comm::attempt([this] {
      do_step("ckpt.S8", Who::kRank0,
              [this] { core::replace_file(request_.output_dir / "latest", tag_); });
    });
    const std::string said = comm::attempt([this] { do_step("ckpt.S9", Who::kRank0, [] {}); });
    do_step("ckpt.S10", Who::kRank0, [this] { prune(); });
    const std::string& problem = name.empty() ? said : name;
    FM_MACHINE_CHECK(problem.empty(), kStorageFailed, problem);
  }

  void do_step(std::string_view point, Who who, const std::function<void()>& body) {
    pass(point);
    if (who != Who::kEveryRank && world_.rank() != 0) return;
    request_.fence.check();
    body();
  }

  void pass(std::string_view point) const {
    int error = 0;
    switch (core::fault({.point = point, .rank = world_.rank(), .step = request_.step})) {
      case core::FaultEffect::kNone: return;
      case core::FaultEffect::kNan: return;  // no numbers here
      case core::FaultEffect::kNoSpace: error = ENOSPC; break;
      case core::FaultEffect::kIoError: error = EIO; break;
    }
    FM_MACHINE_CHECK(false, kStorageFailed, request_.output_dir.string(), ": ",
                     std::strerror(error), " (injected at ", point, ")");
  }

  void plan_and_check_space() {
    core::Bytes needed(kSpareBytes);
    for (const FileSpec& file : request_.files) {
      plans_.push_back(plan_f32(file.tensors));
      needed += plans_.back().file_bytes;
    }
    places_ = place_slices(request_.files, plans_, request_.mine);
    comm::attempt([this] {
      core::make_folders(request_.output_dir);
    });  // the check is whether it is writable
    FM_MACHINE_CHECK(::access(request_.output_dir.c_str(), W_OK | X_OK) == 0, kStorageFailed,
                     "output_dir must be writable; correct its permissions or mount (",
                     request_.output_dir.string(), ": ", std::strerror(errno), ")");
    struct statvfs disk {};
    FM_MACHINE_CHECK(::statvfs(request_.output_dir.c_str(), &disk) == 0, kStorageFailed,
                     "output_dir must tell its free space; check its mount (",
                     request_.output_dir.string(), ": ", std::strerror(errno), ")");
    const auto free = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
    FM_MACHINE_CHECK(free >= needed.count(), kStorageFailed,
                     "output_dir must have room for a checkpoint; free some space (",
                     request_.output_dir.string(), " has ", free, " bytes, needs ", needed.count(),
                     ")");
    const bool counts_inodes = disk.f_files > 0;
    FM_MACHINE_CHECK(!counts_inodes || disk.f_favail > request_.files.size() + 4, kStorageFailed,
                     "output_dir must have free inodes; delete some files (",
                     request_.output_dir.string(), " has ", disk.f_favail, ", needs ",
                     request_.files.size() + 5, ")");
  }

  void create_files() {
    const std::string problem = request_.beside ? request_.beside() : "";
    if (!problem.empty()) warn(problem);
    FM_MACHINE_CHECK(fs::create_directory(folder_), kStorageFailed,
                     "a folder of this name must not exist yet; remove it (", folder_.string(),
                     ")");
    for (std::size_t f = 0; f < plans_.size(); ++f) {
      core::WritableFile file =
          core::WritableFile::create(folder_ / request_.files[f].file, plans_[f].file_bytes);
      file.write_at(core::Bytes(0), std::as_bytes(std::span(plans_[f].head)));
      file.sync_and_close();
    }
    core::write_new_file(folder_ / kStateName, request_.state_json);
    core::sync_folder(folder_);
    core::sync_folder(request_.output_dir);
  }

  void write_slices() {
    constexpr std::int64_t kRange = kRangeBytes / 4;
    for (const SlicePlace& place : places_) {
      core::WritableFile& file = open_once(place.file);
      const core::FetchedRow row(*place.slice, place.row, core::FetchedRow::Use::kRead);
      const std::span<const float> all = row.floats();
      for (std::size_t at = 0; at < all.size(); at += kRange) {
        FM_MACHINE_CHECK(!abandoned_, kStorageFailed, "the save of ", tag_, " was abandoned");
        const auto piece = all.subspan(at, std::min<std::size_t>(kRange, all.size() - at));
        const std::int64_t offset = place.begin.count() + static_cast<std::int64_t>(4 * at);
        ranges_.push_back({.file = static_cast<std::int64_t>(place.file),
                           .offset = offset,
                           .bytes = static_cast<std::int64_t>(piece.size_bytes()),
                           .crc = crc_of(piece, place, at),
                           .of_columns = place.slice->rows > 1 ? 1U : 0U});
        file.write_at(core::Bytes(offset), std::as_bytes(piece));
      }
    }
  }

  // Looks at the numbers, too, while a core's cache has them. `at`: of the first one in its row.
  std::uint32_t crc_of(std::span<const float> piece, const SlicePlace& place, std::size_t at) {
    constexpr std::size_t kBlock = 1 << 15;
    std::uint32_t crc = 0;
    for (std::size_t begin = 0; begin < piece.size(); begin += kBlock) {
      const auto block = piece.subspan(begin, std::min(kBlock, piece.size() - begin));
      crc = core::crc32c(std::as_bytes(block), crc);
      if (!request_.finite_only || !broken_.empty()) continue;
      if (const auto found = core::first_non_finite(block)) {
        const auto element = static_cast<std::int64_t>(at + begin + *found);
        broken_ = core::concat(block[*found], " at element ",
                               place.slice->first_of(place.row).count() + element, " of ",
                               place.slice->name, " for ", request_.files[place.file].file);
      }
    }
    return crc;
  }

  core::WritableFile& open_once(std::size_t file) {
    const auto found = open_.find(file);
    if (found != open_.end()) return found->second;
    request_.fence.check();
    return open_.emplace(file, core::WritableFile::open(folder_ / request_.files[file].file))
        .first->second;
  }

  void sync_files() {
    for (auto& [index, file] : open_) file.sync_and_close();
    open_.clear();
  }

  // Collective, when all is written.
  bool all_finite() {
    if (request_.finite_only) result_.problem = comm::first_problem(world_, broken_);
    result_.broken = result_.problem;
    if (result_.broken.empty()) gather_ranges();
    return result_.broken.empty();
  }

  // Rank 0, which writes the manifest, learns what all have written.
  void gather_ranges() {
    const std::string mine(reinterpret_cast<const char*>(ranges_.data()),
                           ranges_.size() * sizeof(ManifestRange));
    const std::vector<std::string> all = comm::gather_texts(world_, mine);
    ranges_.clear();
    if (world_.rank() != 0) return;
    for (const std::string& text : all) {
      const std::size_t old = ranges_.size();
      ranges_.resize(old + text.size() / sizeof(ManifestRange));
      if (!text.empty()) std::memcpy(ranges_.data() + old, text.data(), text.size());
    }
  }

  // Rows of columns that lie side by side as one, up to kRangeBytes: of a matrix whose columns
  // ranks share, every row is a range of each of them.
  static std::vector<ManifestRange> joined(std::vector<ManifestRange> ranges) {
    std::ranges::sort(
        ranges, {}, [](const ManifestRange& range) { return std::pair(range.file, range.offset); });
    core::JoinedCrc join;
    std::vector<ManifestRange> all;
    for (const ManifestRange& range : ranges) {
      const bool goes_on = !all.empty() && all.back().file == range.file &&
                           all.back().offset + all.back().bytes == range.offset &&
                           all.back().bytes + range.bytes <= kRangeBytes &&
                           all.back().of_columns + range.of_columns == 2;
      if (!goes_on) {
        all.push_back(range);
        continue;
      }
      all.back().crc = join(all.back().crc, range.crc, range.bytes);
      all.back().bytes += range.bytes;
    }
    return all;
  }

  void check_cover() {
    manifest_ = {.tag = tag_,
                 .step = request_.step,
                 .lineage = request_.lineage,
                 .files = {},
                 .ranges = joined(std::move(ranges_)),
                 .state_bytes = core::Bytes(static_cast<std::int64_t>(request_.state_json.size())),
                 .state_crc = core::crc32c(request_.state_json)};
    for (std::size_t f = 0; f < plans_.size(); ++f) {
      const std::string& head = plans_[f].head;
      manifest_.files.push_back(
          {.file = request_.files[f].file,
           .bytes = plans_[f].file_bytes,
           .header_bytes = core::Bytes(static_cast<std::int64_t>(head.size())),
           .header_crc = core::crc32c(head)});
    }
    const std::string problem = coverage_problem(manifest_);
    FM_CHECK(problem.empty(), "slices of all ranks must cover every tensor once: ", problem);
  }

  void write_manifest() {
    manifest_.save_ms = 1 + static_cast<std::int64_t>(1e3 * result_.seconds);
    core::replace_file(folder_ / kManifestName, manifest_text(manifest_));
  }

  void publish() {
    const fs::path target = request_.output_dir / tag_;
    make_way(target);
    if (!core::publish_folder(folder_, target)) return;
    const std::string problem = comm::attempt([this] {
      pass("ckpt.S7.exchanged");
      request_.fence.check();
      core::discard_folder(folder_);  // the old checkpoint of the same step
    });
    request_.fence.check();
    if (!problem.empty()) warn(problem);  // the new one is in place all the same
  }

  // What is not ours is not ours to delete: under the temporary name the next start would.
  void make_way(const fs::path& target) const {
    if (!fs::exists(fs::symlink_status(target))) return;
    const std::optional<Lineage> there = lineage_of(target);
    if (!there) {
      core::put_aside(target);
    } else if (there->run != request_.lineage.run) {
      const std::string run = there->run.empty() ? "older" : there->run.substr(0, 8);
      fs::path kept = request_.output_dir / core::concat(tag_, "-of-", run);
      if (fs::exists(fs::symlink_status(kept))) kept += "-" + core::random_tag();
      core::rename_folder(target, kept);
      warn(core::concat("another run's of this step is kept as ", kept.string(),
                        "; delete it when it is not needed"));
    }
  }

  void prune() const {
    if (request_.keep_last <= 0) return;
    std::vector<std::int64_t> spared = request_.spared;
    spared.push_back(request_.step);
    prune_checkpoints({.output_dir = request_.output_dir,
                       .run = request_.lineage.run,
                       .spared = std::move(spared),
                       .keep_last = request_.keep_last});
  }

  void clean_up() const {
    if (!folder_.empty() && fs::exists(folder_)) core::discard_folder(folder_);
  }

  void warn(const std::string& problem) const {
    std::fprintf(stderr, "fmengine: checkpoint %s: %s\n", tag_.c_str(), problem.c_str());
  }

  const SaveRequest request_;
  comm::Communicator& world_;
  const Where where_;
  const std::string tag_;
  SaveResult result_;
  Act act_ = Act::kOver;
  // Of the act that runs or has run: guarded by thread_, and told by done_.
  std::string problem_;
  std::exception_ptr defect_;
  std::int64_t act_ns_ = 0;
  std::atomic<bool> done_ = false;
  std::atomic<bool> abandoned_ = false;
  std::thread thread_;
  fs::path folder_;
  std::vector<SafetensorsPlan> plans_;
  std::vector<SlicePlace> places_;
  std::map<std::size_t, core::WritableFile> open_;
  std::vector<ManifestRange> ranges_;
  std::string broken_;  // the first number of this rank that is not finite
  Manifest manifest_;
};

SaveCourse::SaveCourse(SaveRequest request, comm::Communicator& world, Where where)
    : saver_(std::make_unique<Saver>(std::move(request), world, where)) {}
SaveCourse::SaveCourse(SaveCourse&&) noexcept = default;
SaveCourse::~SaveCourse() = default;

bool SaveCourse::over() const { return saver_->over(); }
bool SaveCourse::ready() const { return saver_->ready(); }
void SaveCourse::meet() { saver_->meet(); }
const SaveResult& SaveCourse::result() const { return saver_->result(); }

SaveResult save_checkpoint(const SaveRequest& request, comm::Communicator& world) {
  SaveCourse course(request, world, SaveCourse::Where::kHere);
  while (!course.over()) course.meet();
  return course.result();
}

}  // namespace fm::checkpoint
