#include "observe/blackbox/ring_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "core/blackbox/black_box.h"
#include "core/check.h"
#include "core/files/files.h"
#include "core/process.h"
#include "core/text.h"

namespace fm::blackbox {
namespace {

namespace fs = std::filesystem;
using core::BoxHeader;
using core::BoxRecord;
using core::BoxWord;
using core::BoxWords;

constexpr int kMostRank = 1 << 20;
constexpr std::size_t kMostFiles = 1 << 20;

// Nothing that a terminal would obey.
template <std::size_t N>
std::string text_in(const char (&field)[N]) {
  std::string text(field, ::strnlen(field, N));
  std::ranges::replace_if(
      text, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

BoxHeader header_of(std::string_view file, const fs::path& path) {
  BoxHeader header;
  const bool room = file.size() >= core::kBoxNamesAt;
  if (room) std::memcpy(&header, file.data(), sizeof(header));
  FM_DATA_CHECK(room && std::memcmp(header.magic, core::kBoxMagic, sizeof(header.magic)) == 0,
                "a black box must begin with its header; this is another file, or cut short (",
                path.string(), ", ", file.size(), " bytes)");
  FM_DATA_CHECK(header.version == core::kBoxVersion, "a black box must be of version ",
                core::kBoxVersion, "; read it with the programs that wrote it (", path.string(),
                ", version ", header.version, ")");
  const bool sizes = header.record_bytes == sizeof(BoxWords) && header.records > 0 &&
                     header.records_at >= core::kBoxNamesAt &&
                     header.names_bytes <= header.records_at - core::kBoxNamesAt &&
                     header.records_at <= file.size() &&
                     header.records <= (file.size() - header.records_at) / sizeof(BoxWords);
  const bool ranks = header.world_size >= 1 && header.world_size <= kMostRank &&
                     header.world_rank < header.world_size;
  FM_DATA_CHECK(sizes && ranks, "a black box must be whole; this one is damaged or cut short (",
                path.string(), ", ", file.size(), " bytes)");
  return header;
}

// What follows from one to the next of the same place: the one with the larger number is whole.
void read_records(std::string_view file, const BoxHeader& header, RingFile& ring) {
  for (std::size_t place = 0; place < header.records; ++place) {
    BoxWords words{};
    std::memcpy(words.data(), file.data() + header.records_at + place * sizeof(words),
                sizeof(words));
    BoxRecord record;
    if (unpack(words, record) && (record.number - 1) % header.records == place) {
      ring.view.records.push_back(record);
    } else if (words != BoxWords{}) {
      ++ring.torn;
    }
  }
  std::ranges::sort(ring.view.records, {}, &BoxRecord::number);
}

std::optional<BoxRecord> open_record(const RingFile& ring, std::uint64_t number) {
  const auto found = std::ranges::find(ring.view.records, number, &BoxRecord::number);
  if (found == ring.view.records.end()) return std::nullopt;
  return *found;
}

std::vector<fs::path> ring_paths(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (each->path().extension() == ".ring" && paths.size() < kMostFiles) {
      paths.push_back(each->path());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

RingFile read_ring(const fs::path& path) {
  const core::SmallFile file = core::read_small_file(path, core::Bytes(core::kBoxBytes));
  FM_DATA_CHECK(file.problem.empty(), "a black box must be readable (", path.string(), ": ",
                file.problem, ")");
  const std::string_view text = file.text;
  const BoxHeader header = header_of(text, path);
  RingFile ring{.run = text_in(header.run),
                .host = text_in(header.host),
                .boot = text_in(header.boot),
                .program = text_in(header.program),
                .world_rank = static_cast<int>(header.world_rank),
                .world_size = static_cast<int>(header.world_size),
                .pid = header.pid,
                .process_start = header.process_start,
                .unix_ns = header.unix_ns,
                .steady_ns = header.steady_ns,
                .exit_code = {},
                .view = {},
                .torn = 0,
                .place = {},
                .waiting = {}};
  const auto word = [&](BoxWord at) { return header.live[static_cast<std::size_t>(at)]; };
  if (word(BoxWord::kEnded) != 0)
    ring.exit_code = static_cast<int>(word(BoxWord::kEnded) - 1) & 255;
  ring.view.owner =
      core::concat("rank ", ring.world_rank, " (host ", ring.host, ", pid ", ring.pid, ")");
  try {
    ring.view.names = core::names_of(text.substr(core::kBoxNamesAt, header.names_bytes));
  } catch (const core::UserError& error) {
    throw core::UserError(error.code(), core::concat(error.what(), " (", path.string(), ")"));
  }
  read_records(text, header, ring);
  ring.place = open_record(ring, word(BoxWord::kPlace));
  ring.waiting = open_record(ring, word(BoxWord::kWaiting));
  return ring;
}

RingFolder read_rings(const fs::path& folder, bool before) {
  fs::path place = fs::is_directory(folder / "blackbox") ? folder / "blackbox" : folder;
  if (before) place /= "before";
  const std::vector<fs::path> paths = ring_paths(place);
  FM_DATA_CHECK(!paths.empty(),
                "the folder must hold black boxes (blackbox/rank00000.ring and so on); give what "
                "--output_dir was (",
                place.string(), ")");
  RingFolder found;
  for (const fs::path& path : paths) {
    try {
      found.rings.push_back(read_ring(path));
    } catch (const core::UserError& error) {
      found.problems.emplace_back(error.what());
    }
  }
  FM_DATA_CHECK(!found.rings.empty(), found.problems.front());
  const RingFile& newest = *std::ranges::max_element(found.rings, {}, &RingFile::unix_ns);
  const std::string run = newest.run;
  std::erase_if(found.rings, [&](const RingFile& ring) {
    if (ring.run == run) return false;
    found.problems.push_back(
        core::concat(ring.view.owner, " is of another start (", ring.run, ")"));
    return true;
  });
  std::ranges::stable_sort(found.rings, {}, &RingFile::world_rank);
  return found;
}

ProcessLife life_of(const RingFile& ring) {
  const bool here = core::boot_id() == ring.boot && core::host_name() == ring.host;
  if (!here) return ProcessLife::kElsewhere;
  const std::vector<std::string> stat = core::process_stat(ring.pid);
  const bool same = stat.size() > core::kBeganField &&
                    stat[core::kBeganField] == std::to_string(ring.process_start);
  if (!same || stat[0] == "Z" || stat[0] == "X") return ProcessLife::kGone;
  return stat[0] == "T" || stat[0] == "t" ? ProcessLife::kStopped : ProcessLife::kLives;
}

}  // namespace fm::blackbox
