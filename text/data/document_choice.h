// A part of the documents, chosen as if they had been shuffled.
#pragma once

#include <cstdint>

#include "text/data/token_stream.h"

namespace fm::data {

// Of an order of the documents that follows from the seed (text/data/permutation.h) those from
// `begin` to `end`, in shares of 1; in the part they keep the order that they have. Parts that meet
// at the same share neither overlap nor leave anything out. A stream without documents is cut by
// ids (slice_stream). Throws UserError (11) where the part holds nothing.
StreamPtr choose_documents(StreamPtr stream, double begin, double end, std::uint64_t seed);

// The first `most` documents, or all where there are no more or `most` is 0. `flag` says in the
// UserError (10) who counts documents where none are known.
StreamPtr first_documents(StreamPtr stream, std::int64_t most, const char* flag);

}  // namespace fm::data
