// Flat files of token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/sample_source.h"

namespace fm::data {

// Rows of a flat little-endian int32 token file: window w is ids [w (T+1), (w+1) (T+1)), in file
// order, without shuffling; row p is window p modulo the file's whole windows. What is left after
// the last whole window is not used.

// Throws UserError (11): size not a multiple of 4, no whole window, an id outside [0, vocab);
// read() too, when the file has been written since.
std::unique_ptr<SampleSource> open_tokens(const SourceOptions& options);

// Files of token ids that are no flat int32, told apart by their bytes: read as int32 they would
// train a model on nonsense, or be refused for an id that is not the reason.

// Throws UserError (11) with the type, and the line of NumPy that writes the file anew, for what is
// surely of another type:
//   .npy    by its first six bytes
//   int64   every second int32 is 0, of the first 65,536, and some other is not; from 32 pairs on,
//           since int32 ids are so by chance once in 2^32 even of a vocabulary of 2
//   uint16  for a vocabulary that has room in it: most of these int32 are no ids, all uint16 are
void refuse_other_types(std::span<const std::byte> file, std::int64_t vocab,
                        const std::string& path);

}  // namespace fm::data
