// PREFIX.labels beside a Megatron dataset (text/data/formats/megatron.h): what ids predict instead
// of themselves.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/files/mapped_file.h"

namespace fm::data {

inline constexpr std::size_t kBytesOfLabel = 16;  // place: i64, label: i64

// Invariant: places ascend and are ids of the dataset; labels are in [0, vocab).
// Thread:    any.
// Lifetime:  owns the mapping.
class OtherLabels {
 public:
  // Throws UserError (11) naming the file and what is wrong with it.
  OtherLabels(const std::string& path, std::int64_t ids, std::int64_t vocab);

  // Puts the labels of ids [first, first + labels.size()) where there are some. Throws UserError
  // (11) when the file has been written since it was opened.
  void put(std::int64_t first, std::span<std::int32_t> labels) const;
  std::uint32_t crc() const { return crc_; }

 private:
  std::int64_t place_of(std::size_t entry) const;
  std::int64_t label_of(std::size_t entry) const;
  std::size_t entry_from(std::int64_t place) const;

  core::MappedFile file_;
  std::size_t count_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace fm::data
