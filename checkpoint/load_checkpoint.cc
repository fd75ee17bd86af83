#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "checkpoint/agree.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slice_places.h"
#include "checkpoint/train_checkpoint.h"
#include "core/check.h"
#include "core/crc32c.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr auto kNoCheckpoint = core::ExitCode::kNoCheckpoint;

// A file read with pread: a bad disk is an error message, not a signal.
class ReadableFile {
 public:
  explicit ReadableFile(const fs::path& path)
      : path_(path.string()), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    FM_MACHINE_CHECK(fd_ >= 0, kNoCheckpoint, path_, ": the file must be readable (",
                     std::strerror(errno), ")");
  }
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;
  ~ReadableFile() { ::close(fd_); }

  void read(std::int64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      FM_MACHINE_CHECK(got > 0, kNoCheckpoint, path_, ": bytes [", offset, ", ",
                       offset + static_cast<std::int64_t>(bytes.size()), ") must be readable (",
                       got < 0 ? std::strerror(errno) : "the file ends before", ")");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      offset += got;
    }
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

class Loader {
 public:
  Loader(const FoundCheckpoint& found, const std::vector<FileSpec>& files)
      : folder_(found.folder),
        files_(files),
        text_(read_text(folder_ / kManifestName)),
        manifest_(parse_manifest(text_, (folder_ / kManifestName).string())) {
    for (const ManifestFile& file : manifest_.files) {
      open_.push_back(std::make_unique<ReadableFile>(folder_ / file.file));
    }
  }

  // Which checkpoint this rank sees.
  std::int64_t identity() const { return core::crc32c(text_); }

  // The range numbers rank, rank + size, ... are as they were written.
  void verify(int rank, int size) const {
    std::vector<std::byte> block;
    for (std::size_t i = static_cast<std::size_t>(rank); i < manifest_.ranges.size();
         i += static_cast<std::size_t>(size)) {
      const ManifestRange& range = manifest_.ranges[i];
      const ReadableFile& file = *open_[static_cast<std::size_t>(range.file)];
      block.resize(static_cast<std::size_t>(range.bytes));
      file.read(range.offset, block);
      const std::uint32_t crc = core::crc32c(block);
      FM_MACHINE_CHECK(
          crc == range.crc, kNoCheckpoint, file.path(),
          ": the checkpoint must be as it was written; resume from an older one (bytes [",
          range.offset, ", ", range.offset + range.bytes, "), CRC-32C expected ", hex_of(range.crc),
          ", found ", hex_of(crc), ")");
    }
  }

  void read(const std::vector<FileSlice>& mine) const {
    std::vector<SafetensorsPlan> plans;
    std::vector<std::size_t> index;  // place in the manifest of each wanted file
    for (const FileSpec& file : files_) {
      plans.push_back(plan_f32(file.tensors));
      index.push_back(check_same_tensors(file, plans.back()));
    }
    for (const SlicePlace& place : place_slices(files_, plans, mine)) {
      const std::span floats(place.slice->data,
                             static_cast<std::size_t>(place.slice->count.count()));
      open_[index[place.file]]->read(place.begin.count(), std::as_writable_bytes(floats));
    }
  }

 private:
  // Our files have one layout for one list of tensors: equal headers mean equal tensors. The
  // header is verified here, by every rank.
  std::size_t check_same_tensors(const FileSpec& wanted, const SafetensorsPlan& plan) const {
    const auto at =
        std::find_if(manifest_.files.begin(), manifest_.files.end(),
                     [&](const ManifestFile& file) { return file.file == wanted.file; });
    FM_MACHINE_CHECK(at != manifest_.files.end(), kNoCheckpoint, folder_.string(),
                     ": the checkpoint must hold what this run needs; use the same model and ",
                     "optimizer as the run that wrote it (no file ", wanted.file, ")");
    const auto index = static_cast<std::size_t>(at - manifest_.files.begin());
    std::string head(static_cast<std::size_t>(at->header_bytes.count()), '\0');
    open_[index]->read(0, std::as_writable_bytes(std::span(head)));
    const std::uint32_t crc = core::crc32c(head);
    FM_MACHINE_CHECK(
        crc == at->header_crc, kNoCheckpoint, open_[index]->path(),
        ": the checkpoint must be as it was written; resume from an older one (bytes [0, ",
        head.size(), "), CRC-32C expected ", hex_of(at->header_crc), ", found ", hex_of(crc), ")");
    if (head != plan.head) explain_difference(wanted, index);
    return index;
  }

  [[noreturn]] void explain_difference(const FileSpec& wanted, std::size_t index) const {
    const SafetensorsFile stored(open_[index]->path());
    std::string difference = "it holds tensors that this model does not have";
    for (const TensorSpec& tensor : wanted.tensors) {
      const StoredTensor* there = stored.find(tensor.name);
      const bool same = there != nullptr && there->shape == tensor.shape;
      if (same) continue;
      difference = core::concat("tensor ", tensor.name, " is ",
                                there == nullptr ? "absent" : shape_text(there->shape), ", wanted ",
                                shape_text(tensor.shape));
      break;
    }
    throw core::MachineError(
        kNoCheckpoint,
        core::concat(stored.path(),
                     ": the checkpoint must fit the model; use the model that wrote ", "it (",
                     difference, ")"));
  }

  fs::path folder_;
  const std::vector<FileSpec>& files_;
  std::string text_;
  Manifest manifest_;
  std::vector<std::unique_ptr<ReadableFile>> open_;
};

}  // namespace

void load_checkpoint(const FoundCheckpoint& found, const std::vector<FileSpec>& files,
                     const std::vector<FileSlice>& mine, comm::Communicator& world) {
  std::int64_t identity = -1;
  const std::string problem = attempt([&] {
    const Loader loader(found, files);
    identity = loader.identity();
    loader.verify(world.rank(), world.size());
    loader.read(mine);
  });
  const std::string first = first_problem(world, problem);
  FM_MACHINE_CHECK(first.empty(), kNoCheckpoint, first);
  const std::vector<std::int64_t> seen = gather_numbers(world, identity);
  const bool same = std::all_of(seen.begin(), seen.end(),
                                [&](std::int64_t other) { return other == seen.front(); });
  FM_MACHINE_CHECK(
      same, kNoCheckpoint, found.folder.string(),
      ": all ranks must see the same checkpoint; put output_dir on a shared file system");
}

}  // namespace fm::checkpoint
