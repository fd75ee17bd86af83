// MANIFEST.json: the commit record of a training checkpoint. One JSON object, its last field the
// CRC-32C of every character before that field:
//   {"format":1,"tag":"global_step5","step":5,
//    "run":"16 hex","run_number":1,"jobs":["16 hex"],
//    "parent":{"run":"16 hex","tag":"global_step2"},
//    "files":[{"file":"a.safetensors","bytes":N,"header_bytes":N,"header_crc32c":"8 hex"},...],
//    "ranges":[{"file":0,"offset":N,"bytes":N,"crc32c":"8 hex"},...],   file: index into files
//    "state":{"file":"state.json","bytes":N,"crc32c":"8 hex"},"save_ms":N,"crc32c":"8 hex"}
// run, run_number, jobs and parent are the Lineage; jobs and parent are there when the run has
// some, and manifests of older versions have none of the four, and no save_ms: how long the save
// took up to this file. Invariant of a parsed one: headers and ranges cover every byte of every
// file exactly once.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/lineage.h"
#include "core/types.h"

namespace fm::checkpoint {

inline constexpr const char* kManifestName = "MANIFEST.json";
inline constexpr const char* kStateName = "state.json";

struct ManifestFile {
  std::string file;
  core::Bytes bytes;
  core::Bytes header_bytes;
  std::uint32_t header_crc = 0;
};

struct ManifestRange {  // also what ranks send each other: plain numbers only
  std::int64_t file = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint32_t crc = 0;
  std::uint32_t of_columns = 0;  // 1: a row of some columns of a matrix; not written
};

struct Manifest {
  std::string tag;
  std::int64_t step = 0;
  Lineage lineage = {};
  std::vector<ManifestFile> files;
  std::vector<ManifestRange> ranges;
  core::Bytes state_bytes;
  std::uint32_t state_crc = 0;
  std::int64_t save_ms = 0;  // 0: not known
};

std::string manifest_text(const Manifest& manifest);
// Throws MachineError (12) with `file_name` when the text is damaged, of another format version,
// or when ranges do not cover its files.
Manifest parse_manifest(std::string_view text, const std::string& file_name);
// "" when headers and ranges cover every file exactly once, else what is wrong.
std::string coverage_problem(const Manifest& manifest);

// Whether a folder has anything named as its manifest: a link that leads nowhere is a damaged one.
bool has_manifest(const std::filesystem::path& folder);
// Reads MANIFEST.json and checks what is cheap: sizes of all files, headers, state.json.
// Throws MachineError (12), or (26) where a read fails as throw_unread says.
Manifest open_manifest(const std::filesystem::path& folder);
// Text of a small file; MachineError as throw_unread says when it cannot be read.
std::string read_text(const std::filesystem::path& path);

std::string hex_of(std::uint32_t crc);

}  // namespace fm::checkpoint
