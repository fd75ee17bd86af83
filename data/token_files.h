// Flat files of token ids.
#pragma once

#include <memory>

#include "data/sample_source.h"

namespace fm::data {

// Rows of a file of token ids (data/token_types.h): window w is ids [w (T+1), (w+1) (T+1)). Row p
// is window p modulo the file's whole windows, or with options.shuffle_windows window
// permutation(seed, epoch)(p). What is left after the last whole window is not used.

// Throws UserError (11): a size that is no multiple of an id's, no whole window, an id outside
// [0, vocab); read() too, when the file has been written since.
std::unique_ptr<SampleSource> open_tokens(const SourceOptions& options);

}  // namespace fm::data
