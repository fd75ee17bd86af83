// Flat files of token ids.
#pragma once

#include "text/data/sample_source.h"
#include "text/data/token_stream.h"

namespace fm::data {

// A file of token ids (text/data/formats/token_types.h), in which documents are not known. Throws
// UserError (11): a size that is no multiple of an id's, an id outside [0, vocab); read() too, when
// the file has been written since.
StreamPtr open_tokens(const std::string& path, const SourceOptions& options);

}  // namespace fm::data
