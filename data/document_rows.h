// Rows made of the documents of a JSONL file, tokenised once when it is opened.
//
// kConcat: every document, in file order, followed by one EOS, makes one stream. Row r is the
// stream's ids [r (T+1), (r+1) (T+1)); the ids after the last whole row are dropped (as in
// Hugging Face's group_texts with block size T+1).
// kOneDocument: row r is the r-th document that is not empty: its first T+1 ids; a shorter one is
// followed by one EOS and then by padding. So EOS is there exactly when the document has at most
// T ids, and is a target; padding never is (label kIgnored).
// Either way tokens are row[0, T), labels are row[1, T+1), and the order of the rows in epoch e is
// Permutation(rows, seed, e); epoch 0 is shuffled too.
#pragma once

#include <memory>

#include "data/sample_source.h"

namespace fm::data {

// Throws UserError (11), see open_source.
std::unique_ptr<SampleSource> open_documents(const SourceOptions& options);

}  // namespace fm::data
