#include "checkpoint/load_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "checkpoint/damaged_tensors.h"
#include "checkpoint/find_checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/readable_file.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "checkpoint/safetensors_plan.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/crc32c.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr auto kNoCheckpoint = core::ExitCode::kNoCheckpoint;

std::int64_t end_of(const SlicePlace& place) { return (place.begin + place.bytes()).count(); }

// What a rank wants; places may overlap (a tied matrix is wanted twice), and are as many as rows
// where ranks share columns.
class SortedPlaces {
 public:
  explicit SortedPlaces(std::vector<SlicePlace> all) : all_(std::move(all)) {
    std::ranges::stable_sort(all_, {}, begin_of);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const bool first = i == 0 || all_[i].file != all_[i - 1].file;
      ends_.emplace_back(all_[i].file,
                         first ? end_of(all_[i]) : std::max(ends_.back().second, end_of(all_[i])));
    }
  }

  // Those that share bytes with the range.
  std::vector<SlicePlace> in(const ManifestRange& range) const {
    const auto file = static_cast<std::size_t>(range.file);
    const auto first = std::ranges::upper_bound(ends_, std::pair(file, range.offset));
    const auto last =
        std::ranges::lower_bound(all_, std::pair(file, range.offset + range.bytes), {}, begin_of);
    std::vector<SlicePlace> common;
    for (auto at = all_.begin() + (first - ends_.begin()); at < last; ++at) {
      if (end_of(*at) > range.offset) common.push_back(*at);
    }
    return common;
  }

 private:
  static std::pair<std::size_t, std::int64_t> begin_of(const SlicePlace& place) {
    return {place.file, place.begin.count()};
  }
  std::vector<SlicePlace> all_;                             // by file and begin
  std::vector<std::pair<std::size_t, std::int64_t>> ends_;  // the file, its largest end so far
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

  // "" when the headers are as they were written.
  std::string header_damage() const {
    std::vector<std::byte> header;
    for (std::size_t f = 0; f < manifest_.files.size(); ++f) {
      const ManifestFile& file = manifest_.files[f];
      header.resize(static_cast<std::size_t>(file.header_bytes.count()));
      open_[f]->read(0, header);
      const std::uint32_t crc = core::crc32c(header);
      if (crc != file.header_crc) {
        return damage_text(*open_[f], {0, file.header_bytes.count()}, {file.header_crc, crc});
      }
    }
    return "";
  }

  // Where the slices of this rank lie in the files of the manifest. Throws when the model is
  // another one.
  std::vector<SlicePlace> places_of(const std::vector<FileSlice>& mine) const {
    std::vector<SafetensorsPlan> plans;
    std::vector<std::size_t> index;  // place in the manifest of each wanted file
    for (const FileSpec& file : files_) {
      plans.push_back(plan_f32(file.tensors));
      index.push_back(check_same_tensors(file, plans.back()));
    }
    std::vector<SlicePlace> places = place_slices(files_, plans, mine);
    for (SlicePlace& place : places) place.file = index[place.file];
    return places;
  }

  // Fills the slices from ranges whose CRC is right; those numbered rank, rank + size, ... are
  // checked whether they are wanted or not. "" or what is damaged.
  std::string fill(const std::vector<SlicePlace>& wanted_places, int rank, int size) const {
    const SortedPlaces places(wanted_places);
    std::vector<std::byte> block;
    for (std::size_t i = 0; i < manifest_.ranges.size(); ++i) {
      const ManifestRange& range = manifest_.ranges[i];
      const auto wanted = places.in(range);
      const bool assigned = static_cast<int>(i % static_cast<std::size_t>(size)) == rank;
      if (wanted.empty() && !assigned) continue;
      const ReadableFile& file = *open_[static_cast<std::size_t>(range.file)];
      block.resize(static_cast<std::size_t>(range.bytes));
      file.read(range.offset, block);
      const std::uint32_t crc = core::crc32c(block);
      if (crc != range.crc) {
        return damage_text(file, {range.offset, range.offset + range.bytes}, {range.crc, crc});
      }
      for (const SlicePlace& place : wanted) copy_common(range, block, place);
    }
    return "";
  }

 private:
  static void copy_common(const ManifestRange& range, std::span<const std::byte> block,
                          const SlicePlace& place) {
    const std::int64_t begin = std::max(range.offset, place.begin.count());
    const std::int64_t end = std::min(range.offset + range.bytes, end_of(place));
    const std::int64_t from = begin - place.begin.count();
    const std::int64_t to = end - place.begin.count();
    const core::Elements first(from / 4);  // fp32; a range may begin and end within a number
    const bool whole = from % 4 == 0 && to % 4 == 0;
    const auto use = whole ? core::FetchedRow::Use::kFill : core::FetchedRow::Use::kWrite;
    const core::FetchedRow wanted(*place.slice, place.row, use, first,
                                  core::Elements(core::ceil_div(to, 4)) - first);
    std::memcpy(std::as_writable_bytes(wanted.floats()).data() + from % 4,
                block.data() + (begin - range.offset), static_cast<std::size_t>(to - from));
  }

  static std::string damage_text(const ReadableFile& file,
                                 std::pair<std::int64_t, std::int64_t> bytes,
                                 std::pair<std::uint32_t, std::uint32_t> expected_found) {
    return core::concat(
        file.path(), ": the checkpoint must be as it was written; resume from an older one (",
        damaged_tensors(file.path(), bytes.first, bytes.second), "bytes [", bytes.first, ", ",
        bytes.second, "), CRC-32C expected ", hex_of(expected_found.first), ", found ",
        hex_of(expected_found.second), ")");
  }

  // Our files have one layout for one list of tensors: equal headers mean equal tensors.
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
    if (head != plan.head) explain_difference(wanted, index);
    return index;
  }

  [[noreturn]] void explain_difference(const FileSpec& wanted, std::size_t index) const {
    const TensorFile stored(open_[index]->path());
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
                     ": the checkpoint must fit the model; use the model that wrote it, ",
                     "and train the same parameters (", difference, ")"));
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
  const auto all_must = [&world](const auto& body) {
    const ReadFailure here = attempt_read(body);
    const std::string problem = comm::first_problem(world, here.problem);
    if (problem.empty()) return;
    const std::int64_t code = here.problem.empty() ? 0 : static_cast<int>(here.code);
    for (const std::int64_t of_rank : comm::gather_numbers(world, code)) {
      FM_MACHINE_CHECK(of_rank == 0, static_cast<core::ExitCode>(of_rank), problem);
    }
  };
  std::optional<Loader> loader;
  all_must([&] { loader.emplace(found, files); });
  const std::vector<std::int64_t> seen = comm::gather_numbers(world, loader->identity());
  const bool same = std::all_of(seen.begin(), seen.end(),
                                [&](std::int64_t other) { return other == seen.front(); });
  FM_MACHINE_CHECK(
      same, kNoCheckpoint, found.folder.string(),
      ": all ranks must see the same checkpoint; put output_dir on a shared file system");
  // Damage is a finding of one rank and the fate of all; an error on the way is an error.
  const auto all_undamaged = [&](const auto& look) {
    std::string damage;
    all_must([&] { damage = look(); });
    damage = comm::first_problem(world, damage);
    if (!damage.empty()) throw DamagedCheckpoint(kNoCheckpoint, damage);
  };
  std::vector<SlicePlace> places;
  all_undamaged([&] { return loader->header_damage(); });
  all_must([&] { places = loader->places_of(mine); });
  all_undamaged([&] { return loader->fill(places, world.rank(), world.size()); });
}

}  // namespace fm::checkpoint
