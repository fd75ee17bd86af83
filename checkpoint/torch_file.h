// Files of torch.save (torch/serialization.py): a ZIP archive of one pickle, whose tensors name
// records of raw numbers beside it. Of them only a dictionary of names and tensors is read, which
// is what pytorch_model.bin and adapter_model.bin hold; nothing of the pickle is executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors_parse.h"
#include "core/types.h"

namespace fm::checkpoint {

// As parse_safetensors, but several tensors may share bytes. Throws UserError (11) with
// `file_name` for a file of torch before 1.6, damage, other content, a tensor that is not
// contiguous, or a type of numbers that safetensors lacks.
SafetensorsHeader parse_torch_file(std::span<const std::byte> file, const std::string& file_name);

// The records of a ZIP archive whose records are stored as they are, as torch.save writes it
// (PKWARE APPNOTE.TXT 6.3.9, sections 4.3 and 4.5.3: with or without ZIP64).

struct ZipRecord {
  std::string_view name;  // in the file's bytes, as `data`
  std::span<const std::byte> data;
  core::Bytes begin;  // of the data, from the start of the file
  std::uint32_t crc;  // CRC-32 of the data, by the directory; 0: torch was told not to compute it
};

// Of the data, going on from `crc`.
std::uint32_t crc32_of(std::span<const std::byte> data, std::uint32_t crc = 0);
// Throws UserError (11) with the names of file and record when the directory says another one.
void check_crc32(std::uint32_t found, std::uint32_t said, std::string_view record,
                 const std::string& file_name);

bool is_zip(std::span<const std::byte> file);

// In the order of the archive's directory. Throws UserError (11) with `file_name` when the
// directory is missing or wrong, or a record is compressed, encrypted or outside of the file.
std::vector<ZipRecord> zip_records(std::span<const std::byte> file, const std::string& file_name);

}  // namespace fm::checkpoint
