// MDS datasets of MosaicML Streaming: a folder with index.json and shards
// (text/data/formats/mds_index.h).
#pragma once

#include <string>

#include "text/data/sample_source.h"
#include "text/data/token_stream.h"
#include "text/data/unused_field_counts.h"

namespace fm::data {

// A sample is a document. Shards are mapped; one that is only there compressed is unpacked into a
// temporary file (of TMPDIR) that is gone when the run ends. Throws UserError (11) when something
// is damaged, and for an id outside [0, vocab); read() too, when a shard has been written since.
// Columns that have no effect are added to `unused`.
StreamPtr open_mds(const std::string& folder, const SourceOptions& options, UnusedFields& unused);

}  // namespace fm::data
