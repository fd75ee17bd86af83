// The records of a ZIP archive whose records are stored as they are, as torch.save writes it
// (PKWARE APPNOTE.TXT 6.3.9, sections 4.3 and 4.5.3: with or without ZIP64).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"

namespace fm::checkpoint {

struct ZipRecord {
  std::string_view name;  // in the file's bytes, as `data`
  std::span<const std::byte> data;
  core::Bytes begin;  // of the data, from the start of the file
};

bool is_zip(std::span<const std::byte> file);

// In the order of the archive's directory. Throws UserError (11) with `file_name` when the
// directory is missing or wrong, or a record is compressed, encrypted or outside of the file.
std::vector<ZipRecord> zip_records(std::span<const std::byte> file, const std::string& file_name);

}  // namespace fm::checkpoint
