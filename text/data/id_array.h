// Token ids as files hold them: numbers of one type behind each other, anywhere in memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/files/mapped_file.h"

namespace fm::data {

// Little-endian. kAuto: of a flat file, what its bytes say (text/data/formats/token_files.h).
enum class TokenType : std::uint8_t {
  kAuto,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF32,
  kF64
};

std::string_view name_of(TokenType type);  // "uint16", ...
std::size_t size_of(TokenType type);       // bytes; not of kAuto

class IdArray {
 public:
  IdArray() = default;
  // Any alignment; what is left behind the last whole number is none. Lives as long as the bytes.
  IdArray(std::span<const std::byte> bytes, TokenType type);

  std::int64_t size() const { return size_; }
  TokenType type() const { return type_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  IdArray part(std::int64_t first, std::int64_t count) const;
  // The first ids. Those that are none (find_outside) become something.
  void read(std::span<std::int32_t> ids) const;
  // The first number that is no whole one in [0, vocab), or size().
  std::int64_t find_outside(std::int64_t vocab) const;
  std::string text_of(std::int64_t index) const;  // a number for a message
  // The number, or the least one of 64 bits where it is no whole one of 64 bits with a sign.
  std::int64_t number(std::int64_t index) const;

 private:
  std::span<const std::byte> bytes_;
  TokenType type_ = TokenType::kI32;
  std::int64_t size_ = 0;
};

// Ids in a mapped file: those of one are read while the file stays as it was.
//
// Invariant: the process keeps few of the file's pages in memory, however much is read.
// Thread:    any; only check() by one.
// Lifetime:  move-only.
class MappedIds {
 public:
  // `bytes` of the file hold ids.
  MappedIds(core::MappedFile file, std::string path, std::span<const std::byte> bytes,
            TokenType type);

  const IdArray& ids() const { return ids_; }
  const core::MappedFile& file() const { return file_; }
  const std::string& path() const { return path_; }
  // Throws UserError (11) when the file has been written since it was opened.
  void read(std::int64_t first, std::span<std::int32_t> ids) const;
  // One pass over the ids. Returns their bytes' CRC, continued from `crc`; throws UserError (11)
  // when one is outside [0, vocab), with its position and `advice`.
  std::uint32_t check(std::int64_t vocab, std::uint32_t crc, std::string_view advice) const;

 private:
  core::MappedFile file_;
  std::string path_;
  IdArray ids_;
  std::unique_ptr<std::atomic<unsigned>> reads_ = std::make_unique<std::atomic<unsigned>>(0);
};

}  // namespace fm::data
