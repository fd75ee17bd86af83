#include "checkpoint/verify_checkpoint.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "checkpoint/damaged_tensors.h"
#include "checkpoint/direct_file.h"
#include "checkpoint/lineage.h"
#include "checkpoint/manifest.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/crc32c.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file that was changed, before anything of it may be believed.
struct FileState {
  std::string problem;      // of the whole file; "": its parts are looked at
  bool has_tensors = true;  // its header is as it was written
};

// A part of a file that is not as it was written, or cannot be read.
struct BadRange {
  std::int64_t file = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::string what;
};

std::string sums_text(std::uint32_t expected, std::uint32_t found) {
  return core::concat("CRC-32C expected ", hex_of(expected), ", found ", hex_of(found));
}

class Verifier {
 public:
  Verifier(const fs::path& folder, int threads, VerifiedCheckpoint& result)
      : folder_(folder), threads_(threads), result_(result) {}

  void run() {
    const fs::path path = folder_ / kManifestName;
    if (!noted([&] { manifest_ = parse_manifest(read_text(path), path.string()); })) return;
    result_.step = manifest_.step;
    result_.files = std::ssize(manifest_.files);
    check_name();
    check_state();
    for (const ManifestFile& file : manifest_.files) states_.push_back(state_of(file));
    make_blocks();
    read_blocks();
    describe();
  }

 private:
  // Ranges [first, last) of ordered_ that lie one behind the other in one file.
  struct RangeBlock {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  template <class Body>
  bool noted(const Body& body) {
    const std::string problem = comm::attempt(body);
    if (!problem.empty()) result_.damages.push_back(problem);
    return problem.empty();
  }

  // A copy under another name passes for another step.
  void check_name() {
    const std::string name = folder_.filename().string();
    const std::optional<std::int64_t> step = step_of_tag(name);
    if (!step || *step == manifest_.step) return;
    result_.damages.push_back(core::concat(
        folder_.string(), ": the folder must have the name of its step; rename it (it is step ",
        manifest_.step, ")"));
  }

  void check_state() {
    const fs::path path = folder_ / kStateName;
    std::string text;
    if (!noted([&] { text = read_text(path); })) return;
    result_.bytes += core::Bytes(std::ssize(text));
    const std::uint32_t found = core::crc32c(text);
    if (found == manifest_.state_crc) return;
    result_.damages.push_back(core::concat(path.string(), ": the file must be as it was written (",
                                           sums_text(manifest_.state_crc, found), ")"));
  }

  FileState state_of(const ManifestFile& file) {
    const fs::path path = folder_ / file.file;
    FileState state;
    state.problem = comm::attempt([&] {
      DirectFile open(path);
      FM_MACHINE_CHECK(open.size() == file.bytes.count(), core::ExitCode::kNoCheckpoint,
                       path.string(), ": the file must have its full size (expected ",
                       file.bytes.count(), " bytes, found ", open.size(), ")");
      const std::uint32_t found = open.crc_of(0, file.header_bytes.count());
      result_.bytes += file.header_bytes;
      if (found == file.header_crc) return;
      state.has_tensors = false;
      result_.damages.push_back(
          core::concat(path.string(), ": the header must be as it was written (bytes [0, ",
                       file.header_bytes.count(), "), ", sums_text(file.header_crc, found), ")"));
    });
    if (!state.problem.empty()) result_.damages.push_back(state.problem);
    return state;
  }

  void make_blocks() {
    ordered_ = manifest_.ranges;
    std::sort(ordered_.begin(), ordered_.end(), [](const ManifestRange& a, const ManifestRange& b) {
      return std::tuple(a.file, a.offset, a.bytes) < std::tuple(b.file, b.offset, b.bytes);
    });
    std::size_t first = 0;
    while (first < ordered_.size()) {
      std::int64_t bytes = ordered_[first].bytes;
      std::size_t last = first + 1;
      while (last < ordered_.size() && ordered_[last].file == ordered_[first].file &&
             bytes + ordered_[last].bytes <= DirectFile::kMostBytes) {
        bytes += ordered_[last++].bytes;
      }
      if (states_[static_cast<std::size_t>(ordered_[first].file)].problem.empty()) {
        blocks_.push_back({first, last});
      }
      first = last;
    }
  }

  void read_blocks() {
    std::vector<std::thread> others;
    const auto most = static_cast<int>(std::min<std::size_t>(blocks_.size(), 64));
    for (int at = 1; at < std::min(threads_, most); ++at) {
      others.emplace_back([this] { read_some(); });
    }
    read_some();
    for (std::thread& other : others) other.join();
  }

  // Blocks are taken in their order, so that the disk reads forward.
  void read_some() {
    std::unique_ptr<DirectFile> open;
    std::int64_t of_file = -1;
    for (;;) {
      const std::size_t at = next_++;
      if (at >= blocks_.size()) return;
      const ManifestRange& head = ordered_[blocks_[at].first];
      const std::string problem = comm::attempt([&] {
        if (of_file != head.file) {
          open = std::make_unique<DirectFile>(folder_ / name_of_file(head.file));
          of_file = head.file;
        }
        check_block(*open, blocks_[at]);
      });
      if (problem.empty()) continue;
      const ManifestRange& tail = ordered_[blocks_[at].last - 1];
      add({head.file, head.offset, tail.offset + tail.bytes - head.offset, problem});
    }
  }

  void check_block(DirectFile& file, const RangeBlock& block) {
    const ManifestRange& head = ordered_[block.first];
    const ManifestRange& tail = ordered_[block.last - 1];
    const std::int64_t bytes = tail.offset + tail.bytes - head.offset;
    const bool alone = block.last == block.first + 1;
    std::span<const std::byte> all;
    if (!alone) all = file.read(head.offset, bytes);
    for (std::size_t at = block.first; at < block.last; ++at) {
      const ManifestRange& range = ordered_[at];
      const std::uint32_t found =
          alone ? file.crc_of(range.offset, range.bytes)
                : core::crc32c(all.subspan(static_cast<std::size_t>(range.offset - head.offset),
                                           static_cast<std::size_t>(range.bytes)));
      if (found == range.crc) continue;
      add({range.file, range.offset, range.bytes, sums_text(range.crc, found)});
    }
    read_bytes_ += bytes;
  }

  void add(BadRange bad) {
    const std::scoped_lock lock(mutex_);
    bad_.push_back(std::move(bad));
  }

  const std::string& name_of_file(std::int64_t file) const {
    return manifest_.files[static_cast<std::size_t>(file)].file;
  }

  // In words, and in the order of the files.
  void describe() {
    result_.bytes += core::Bytes(read_bytes_);
    std::sort(bad_.begin(), bad_.end(), [](const BadRange& a, const BadRange& b) {
      return std::tuple(a.file, a.offset) < std::tuple(b.file, b.offset);
    });
    for (const BadRange& bad : bad_) {
      const std::string path = (folder_ / name_of_file(bad.file)).string();
      const std::int64_t end = bad.offset + bad.bytes;
      const bool readable = states_[static_cast<std::size_t>(bad.file)].has_tensors;
      const std::string tensors = readable ? damaged_tensors(path, bad.offset, end) : "";
      result_.damages.push_back(core::concat(path, ": ", tensors, "bytes [", bad.offset, ", ", end,
                                             ") must be as they were written (", bad.what, ")"));
    }
  }

  const fs::path& folder_;
  const int threads_;
  VerifiedCheckpoint& result_;
  Manifest manifest_;
  std::vector<FileState> states_;  // by place in manifest_.files
  std::vector<ManifestRange> ordered_;
  std::vector<RangeBlock> blocks_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::int64_t> read_bytes_ = 0;
  std::mutex mutex_;
  std::vector<BadRange> bad_;
};

}  // namespace

VerifiedCheckpoint verify_checkpoint(const fs::path& folder, int threads) {
  VerifiedCheckpoint result{.folder = folder, .step = -1, .files = 0, .bytes = {}, .damages = {}};
  Verifier(folder, threads, result).run();
  return result;
}

}  // namespace fm::checkpoint
