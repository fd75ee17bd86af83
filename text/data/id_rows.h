// Rows of a stream of ids, in an order.
#pragma once

#include <memory>

#include "text/data/sample_source.h"
#include "text/data/token_stream.h"

namespace fm::data {

// Tokens are the first seq_len ids of a row (text/data/packing.h), then fillers. Labels are those
// of the ids that follow, kIgnored where none does, and where another document begins that was put
// there to fill the row (kBestFit).
//
// Rows of documents come in the order Permutation(rows, seed, epoch), in every epoch another one.
// Where documents are not known, options.shuffle_windows says whether; else row p is row p modulo
// the rows of the stream.
//
// `notes` end the description. Throws UserError (11) when there is no row, (10) for a packing that
// needs documents where none are known.
std::unique_ptr<SampleSource> make_rows(StreamPtr stream, const SourceOptions& options,
                                        const std::string& notes);

}  // namespace fm::data
