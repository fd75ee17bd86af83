// Rows of a flat little-endian int32 token file: window w is ids [w (T+1), (w+1) (T+1)), in file
// order, without shuffling; row p is window p modulo the file's whole windows. What is left after
// the last whole window is not used.
#pragma once

#include <memory>

#include "data/sample_source.h"

namespace fm::data {

// Throws UserError (11): size not a multiple of 4, no whole window, an id outside [0, vocab);
// read() too, when the file has been written since.
std::unique_ptr<SampleSource> open_tokens(const SourceOptions& options);

}  // namespace fm::data
