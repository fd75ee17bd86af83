// The content of a file, piece by piece, unpacked where it is gzip (RFC 1952) or zstd (RFC 8878).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/files.h"

namespace fm::data {

// One way of compression.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Unpacks from the front of `packed`, which becomes shorter; returns the bytes put into `out`, 0
  // when more of the file is needed. Throws UserError (11) naming the file when it is damaged.
  virtual std::size_t decode(std::string_view& packed, std::span<char> out) = 0;
  // Whether a file may end here.
  virtual bool complete() const = 0;
};

// Null when the first bytes of a file are of neither way.
std::unique_ptr<Decoder> make_decoder(std::string_view first_bytes, const std::string& path);

class TextPieces {
 public:
  // Throws UserError (11) naming the file when it cannot be read.
  explicit TextPieces(const std::string& path);

  // Empty at the end; valid until the next call. Throws UserError (11) when the file is damaged,
  // cut, or has been written since it was opened.
  std::string_view next();
  // Of all that came: what was packed another way is the same.
  std::int64_t bytes() const { return bytes_; }
  std::uint32_t crc() const { return crc_; }

 private:
  std::string_view unpack();

  std::string path_;
  core::FileStream file_;
  bool started_ = false;
  std::unique_ptr<Decoder> decoder_;  // null: nothing is packed
  std::string_view packed_;
  std::vector<char> unpacked_;
  std::int64_t bytes_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace fm::data
