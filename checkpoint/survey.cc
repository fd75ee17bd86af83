#include "checkpoint/survey.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "checkpoint/manifest.h"
#include "checkpoint/output_lock.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/files/draft_folder.h"
#include "core/files/output_file.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

std::int64_t time_of(const fs::path& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? static_cast<std::int64_t>(found.st_mtime) : 0;
}

// A number of an object, or -1.
std::int64_t number_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return -1;
  return found->get<std::int64_t>();
}

// What the run would not prune: from before its first skipped step, and of its best evaluation.
std::vector<std::int64_t> spared_in(const std::string& state) {
  std::vector<std::int64_t> spared;
  if (!core::is_shallow(state)) return spared;
  const auto json = nlohmann::json::parse(state, nullptr, false);
  if (!json.is_object()) return spared;
  const auto list = json.find("spared");
  if (list != json.end() && list->is_array()) {
    for (const auto& step : *list) {
      if (step.is_number_integer()) spared.push_back(step.get<std::int64_t>());
    }
  }
  const auto best = json.find("best_evaluation");
  if (best != json.end() && best->is_object()) spared.push_back(number_at(*best, "step"));
  return spared;
}

// All that is cheap to know of one folder.
SurveyEntry look_at(const fs::path& folder, SurveyKind kind, std::int64_t step) {
  SurveyEntry entry;
  entry.kind = kind;
  entry.folder = folder;
  entry.step = step;
  entry.bytes = bytes_below(folder);
  const fs::path path = folder / kManifestName;
  std::error_code error;
  const bool recorded = fs::is_regular_file(fs::symlink_status(path, error));
  entry.time_s = time_of(recorded ? path : folder);
  const std::string unreadable = comm::attempt([&] {
    const Manifest manifest = parse_manifest(read_text(path), path.string());
    entry.lineage = manifest.lineage;
    entry.save_ms = manifest.save_ms;
  });
  entry.held = kind == SurveyKind::kUnfinished && core::is_held(folder);
  if (kind != SurveyKind::kCheckpoint) return entry;
  entry.problem = unreadable;
  if (!unreadable.empty()) return entry;
  entry.problem = comm::attempt([&] {
    const Manifest manifest = open_manifest(folder);
    FM_MACHINE_CHECK(manifest.step == step, core::ExitCode::kNoCheckpoint, folder.string(),
                     ": the folder must have the name of its step; rename it (it is step ",
                     manifest.step, ")");
    entry.spared = spared_in(read_text(folder / kStateName));
  });
  return entry;
}

// What is no checkpoint and was made by runs.
std::vector<SurveyEntry> others_in(const fs::path& output_dir) {
  std::vector<SurveyEntry> found;
  for (const fs::path& folder : list_quarantined(output_dir)) {
    found.push_back(look_at(folder, SurveyKind::kPutAside, -1));
  }
  std::error_code error;
  for (fs::directory_iterator at(output_dir, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    const bool link = fs::is_symlink(at->symlink_status(ignored));
    if (link || !core::is_leftover(name)) continue;
    const bool trash = name.starts_with(".trash-");
    found.push_back(
        look_at(at->path(), trash ? SurveyKind::kDiscarded : SurveyKind::kUnfinished, -1));
  }
  std::sort(found.begin(), found.end(), [](const SurveyEntry& a, const SurveyEntry& b) {
    return std::tuple(a.kind, a.folder) < std::tuple(b.kind, b.folder);
  });
  return found;
}

void mark(const fs::path& output_dir, std::vector<SurveyEntry>& entries) {
  std::string latest;
  comm::attempt([&] { latest = read_text(output_dir / "latest"); });  // no hint is no error
  while (latest.ends_with('\n')) latest.pop_back();
  const RunLine line(output_dir);
  const std::optional<std::int64_t> finite = last_finite_step(output_dir / "metrics.jsonl");
  bool newest = false;
  bool proven = false;
  for (SurveyEntry& entry : entries) {
    entry.latest = entry.folder.filename().string() == latest;
    entry.in_line = line.holds(entry.lineage, entry.step);
    if (!entry.problem.empty() || !entry.in_line) continue;
    entry.newest = !newest;
    newest = true;
    entry.proven = !proven && finite && entry.step < *finite;
    proven = proven || entry.proven;
  }
}

// The end of a file, whole lines.
std::string end_of(const fs::path& path) {
  constexpr std::int64_t kMost = 1 << 20;
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return text;
  struct stat found {};
  const bool regular = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  const std::int64_t begin = std::max<std::int64_t>(0, found.st_size - kMost);
  text.resize(regular ? static_cast<std::size_t>(found.st_size - begin) : 0);
  const ssize_t got = text.empty() ? 0 : ::pread(fd, text.data(), text.size(), begin);
  ::close(fd);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  if (begin > 0) text.erase(0, text.find('\n') + 1);
  return text;
}

}  // namespace

std::optional<std::int64_t> last_finite_step(const fs::path& metrics) {
  const std::vector<std::string> lines = core::split(end_of(metrics), '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (!line->starts_with("{\"step\"") || !core::is_shallow(*line)) continue;
    const auto json = nlohmann::json::parse(*line, nullptr, false);
    if (!json.is_object()) continue;
    const auto skipped = json.find("skipped");
    const bool finite = skipped != json.end() && skipped->is_boolean() && !skipped->get<bool>();
    const std::int64_t step = number_at(json, "step");
    if (finite && step >= 0) return step;
  }
  return std::nullopt;
}

core::Bytes bytes_below(const fs::path& folder) {
  core::Bytes bytes;
  std::error_code error;
  struct stat found {};
  if (::lstat(folder.c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
    return core::Bytes(found.st_size);
  }
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (::lstat(at->path().c_str(), &found) == 0 && S_ISREG(found.st_mode)) {
      bytes += core::Bytes(found.st_size);
    }
  }
  return bytes;
}

OutputSurvey survey_output(const fs::path& output_dir) {
  std::error_code error;
  FM_DATA_CHECK(fs::is_directory(output_dir, error),
                "an output directory is required; give what --output_dir was (",
                output_dir.string(), " is no folder)");
  OutputSurvey survey{
      .output_dir = output_dir, .entries = {}, .holder = first_line_of_lock(output_dir)};
  for (const ListedCheckpoint& listed : list_checkpoints(output_dir)) {
    const bool ours = looks_like_checkpoint(listed.folder);
    if (ours)
      survey.entries.push_back(look_at(listed.folder, SurveyKind::kCheckpoint, listed.step));
  }
  mark(output_dir, survey.entries);
  for (SurveyEntry& other : others_in(output_dir)) survey.entries.push_back(std::move(other));
  return survey;
}

}  // namespace fm::checkpoint
