// Flat files of token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "text/data/id_array.h"
#include "text/data/sample_source.h"
#include "text/data/token_stream.h"

namespace fm::data {

// A file of token ids (text/data/formats/token_files.h), in which documents are not known. Throws
// UserError (11): a size that is no multiple of an id's, an id outside [0, vocab); read() too, when
// the file has been written since.
StreamPtr open_tokens(const std::string& path, const SourceOptions& options);

// What the numbers of a flat token file are: little-endian uint16, int32 or int64 from the first
// byte on, those of a NumPy .npy file (its format 1.0 to 3.0), or those of a shard of llm.c: 256
// int32, of which the first three are a magic word, a version and the number of ids, then uint16
// (20240520, version 1) or uint32 (20240801, version 7).

enum class TokenForm : std::uint8_t { kFlat, kNpy, kLlmC };

struct TokenLayout {
  TokenType type = TokenType::kI32;  // never kAuto
  std::size_t begin = 0;             // byte of the first id
  std::int64_t count = 0;
  TokenForm form = TokenForm::kFlat;
};

// `asked` counts for a flat file. kAuto takes for
//   int64   a file in which every second int32 is 0, of the first 65,536, and some other is not;
//           from 32 pairs on, since int32 ids are so by chance once in 2^32 even of a vocabulary
//           of 2
//   uint16  one for a vocabulary that has room in it: most of these int32 are no ids, all uint16
//           are
//   int32   any other.
// Throws UserError (11) for a file that ends within an id, and for a .npy file or a shard of llm.c
// that is damaged, of other numbers, or of another type than was asked for.
TokenLayout layout_of(std::span<const std::byte> file, TokenType asked, std::int64_t vocab,
                      const std::string& path);

}  // namespace fm::data
