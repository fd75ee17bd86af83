#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "checkpoint/readable_file.h"
#include "core/check.h"
#include "core/crc32c.h"
#include "core/files/files.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kSeal = ",\"crc32c\":\"";
constexpr std::string_view kSealEnd = "\"}";
constexpr auto kNoCheckpoint = core::ExitCode::kNoCheckpoint;
constexpr const char* kInstead = "; restore it, or resume from another checkpoint";

// Only what hex_of writes: eight digits, small letters.
std::uint32_t crc_of_hex(const std::string& text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (hex_of(value) != text) throw std::runtime_error("a CRC must be 8 hexadecimal digits");
  return value;
}

core::Bytes bytes_at(const ordered_json& object, const char* key) {
  const std::int64_t bytes = object.at(key).get<std::int64_t>();
  if (bytes < 0) throw std::runtime_error(core::concat(key, " must not be negative"));
  return core::Bytes(bytes);
}

ManifestFile file_of(const ordered_json& object) {
  ManifestFile file{.file = object.at("file").get<std::string>(),
                    .bytes = bytes_at(object, "bytes"),
                    .header_bytes = bytes_at(object, "header_bytes"),
                    .header_crc = crc_of_hex(object.at("header_crc32c").get<std::string>())};
  const bool plain =
      !file.file.empty() && file.file.find('/') == std::string::npos && file.file[0] != '.';
  if (!plain) throw std::runtime_error("file names must be plain (" + file.file + ")");
  return file;
}

Lineage lineage_in(const ordered_json& object) {
  Lineage lineage;
  if (!object.contains("run")) return lineage;
  lineage.run = object.at("run").get<std::string>();
  lineage.number = object.at("run_number").get<std::int64_t>();
  if (object.contains("jobs")) lineage.jobs = object.at("jobs").get<std::vector<std::string>>();
  if (!object.contains("parent")) return lineage;
  lineage.parent_run = object.at("parent").at("run").get<std::string>();
  lineage.parent_tag = object.at("parent").at("tag").get<std::string>();
  return lineage;
}

void write_lineage(const Lineage& lineage, ordered_json& object) {
  if (lineage.run.empty()) return;
  object["run"] = lineage.run;
  object["run_number"] = lineage.number;
  if (!lineage.jobs.empty()) object["jobs"] = lineage.jobs;
  if (lineage.parent_tag.empty()) return;
  object["parent"] = {{"run", lineage.parent_run}, {"tag", lineage.parent_tag}};
}

Manifest manifest_of(const ordered_json& object) {
  const int format = object.at("format").get<int>();
  if (format != kFormat) {
    throw std::runtime_error(core::concat("format version ", format, ", known is ", kFormat));
  }
  Manifest manifest;
  manifest.tag = object.at("tag").get<std::string>();
  manifest.step = object.at("step").get<std::int64_t>();
  manifest.lineage = lineage_in(object);
  for (const ordered_json& file : object.at("files")) manifest.files.push_back(file_of(file));
  for (const ordered_json& range : object.at("ranges")) {
    manifest.ranges.push_back({.file = range.at("file").get<std::int64_t>(),
                               .offset = bytes_at(range, "offset").count(),
                               .bytes = bytes_at(range, "bytes").count(),
                               .crc = crc_of_hex(range.at("crc32c").get<std::string>())});
  }
  const ordered_json& state = object.at("state");
  manifest.state_bytes = bytes_at(state, "bytes");
  manifest.state_crc = crc_of_hex(state.at("crc32c").get<std::string>());
  if (object.contains("save_ms")) manifest.save_ms = object.at("save_ms").get<std::int64_t>();
  return manifest;
}

// Splits the sealed text, checks the seal, returns the JSON object without it.
std::string unsealed(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::size_t at = text.rfind(kSeal);
  const std::size_t sealed = kSeal.size() + 8 + kSealEnd.size();
  if (at == std::string_view::npos || text.size() - at != sealed || !text.ends_with(kSealEnd)) {
    throw std::runtime_error("its last field must be its CRC; it is incomplete");
  }
  const std::uint32_t expected = crc_of_hex(std::string(text.substr(at + kSeal.size(), 8)));
  const std::uint32_t found = core::crc32c(text.substr(0, at));
  if (expected != found) {
    throw std::runtime_error(
        core::concat("CRC-32C expected ", hex_of(expected), ", found ", hex_of(found)));
  }
  return std::string(text.substr(0, at)) + "}";
}

void check_header(const std::filesystem::path& path, const ManifestFile& file) {
  std::string head(static_cast<std::size_t>(file.header_bytes.count()), '\0');
  ReadableFile(path).read(0, std::as_writable_bytes(std::span(head)));
  const std::uint32_t found = core::crc32c(head);
  FM_MACHINE_CHECK(found == file.header_crc, kNoCheckpoint, path.string(),
                   ": the header must be as it was written", kInstead, " (bytes [0, ",
                   file.header_bytes.count(), "), CRC-32C expected ", hex_of(file.header_crc),
                   ", found ", hex_of(found), ")");
}

}  // namespace

std::string hex_of(std::uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", crc);
  return text;
}

std::string manifest_text(const Manifest& manifest) {
  ordered_json object = {{"format", kFormat}, {"tag", manifest.tag}, {"step", manifest.step}};
  write_lineage(manifest.lineage, object);
  object["files"] = ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    object["files"].push_back({{"file", file.file},
                               {"bytes", file.bytes.count()},
                               {"header_bytes", file.header_bytes.count()},
                               {"header_crc32c", hex_of(file.header_crc)}});
  }
  object["ranges"] = ordered_json::array();
  for (const ManifestRange& range : manifest.ranges) {
    object["ranges"].push_back({{"file", range.file},
                                {"offset", range.offset},
                                {"bytes", range.bytes},
                                {"crc32c", hex_of(range.crc)}});
  }
  object["state"] = {{"file", kStateName},
                     {"bytes", manifest.state_bytes.count()},
                     {"crc32c", hex_of(manifest.state_crc)}};
  if (manifest.save_ms > 0) object["save_ms"] = manifest.save_ms;
  std::string text = object.dump();
  text.pop_back();
  const std::string crc = hex_of(core::crc32c(text));
  return core::concat(text, kSeal, crc, kSealEnd, "\n");
}

std::string coverage_problem(const Manifest& manifest) {
  std::vector<ManifestRange> ranges = manifest.ranges;
  std::sort(ranges.begin(), ranges.end(), [](const ManifestRange& a, const ManifestRange& b) {
    return std::tuple(a.file, a.offset, a.bytes) < std::tuple(b.file, b.offset, b.bytes);
  });
  std::size_t at = 0;
  for (std::size_t f = 0; f < manifest.files.size(); ++f) {
    const ManifestFile& file = manifest.files[f];
    std::int64_t covered = file.header_bytes.count();
    for (; at < ranges.size() && ranges[at].file == static_cast<std::int64_t>(f); ++at) {
      if (ranges[at].offset != covered) break;
      if (__builtin_add_overflow(covered, ranges[at].bytes, &covered)) break;
    }
    if (covered != file.bytes.count()) {
      return core::concat("ranges must cover ", file.file, " once (covered up to ", covered, " of ",
                          file.bytes.count(), " bytes)");
    }
  }
  if (at != ranges.size()) return "there is a range outside of the files";
  return "";
}

Manifest parse_manifest(std::string_view text, const std::string& file_name) {
  Manifest manifest;
  std::string problem;
  try {
    const std::string json = unsealed(text);
    manifest = manifest_of(ordered_json::parse(core::is_shallow(json) ? json : ""));
    problem = coverage_problem(manifest);
  } catch (const std::exception& error) {  // of nlohmann, stoul, or the checks above
    problem = error.what();
  }
  FM_MACHINE_CHECK(problem.empty(), kNoCheckpoint, file_name,
                   ": the manifest must be complete and undamaged", kInstead, " (", problem, ")");
  return manifest;
}

std::string read_text(const std::filesystem::path& path) {
  core::SmallFile file = core::read_small_file(path, core::kMostListing);
  if (file.error != 0) throw_unread(path.string() + ": the file", file.error);
  FM_MACHINE_CHECK(file.problem.empty(), kNoCheckpoint, path.string(),
                   ": the file must exist and be readable", kInstead, " (", file.problem, ")");
  return std::move(file.text);
}

bool has_manifest(const std::filesystem::path& folder) {
  return std::filesystem::exists(std::filesystem::symlink_status(folder / kManifestName));
}

Manifest open_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kManifestName;
  Manifest manifest = parse_manifest(read_text(path), path.string());
  for (const ManifestFile& file : manifest.files) {
    const std::filesystem::path part = folder / file.file;
    std::error_code error;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(part, error));
    if (error) throw_unread(part.string() + ": the file", error.value());
    FM_MACHINE_CHECK(size == file.bytes.count(), kNoCheckpoint, part.string(),
                     ": the file must have its full size", kInstead, " (expected ",
                     file.bytes.count(), " bytes, found ", size, ")");
    check_header(part, file);
  }
  const std::string state = read_text(folder / kStateName);
  const std::uint32_t found = core::crc32c(state);
  FM_MACHINE_CHECK(found == manifest.state_crc, kNoCheckpoint, (folder / kStateName).string(),
                   ": the file must be as it was written", kInstead, " (CRC-32C expected ",
                   hex_of(manifest.state_crc), ", found ", hex_of(found), ")");
  return manifest;
}

}  // namespace fm::checkpoint
