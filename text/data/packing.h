// Which ids of a stream make a row.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/ledger.h"
#include "text/data/sample_source.h"
#include "text/data/token_stream.h"

namespace fm::data {

struct Segment {
  std::int64_t first;  // id of the stream
  std::int64_t count;
};

// Thread:    any.
// Lifetime:  the stream and the ledger outlive it.
class RowPlan {
 public:
  virtual ~RowPlan() = default;
  virtual std::int64_t rows() const = 0;
  // What the row is made of, in order; at least 2 ids, at most those of a row.
  virtual void find(std::int64_t row, std::vector<Segment>& segments) const = 0;
  virtual std::string describe() const = 0;  // "last 2 ids dropped"
};

// For rows of `row_ids` ids.
//
// kConcat: row r is the stream's ids [r n, (r+1) n); the ids after the last whole row are dropped
// (as in Hugging Face's group_texts with block size n).
// kOneDocument: row r is the r-th document of at least 2 ids: its first n.
// kBestFit: whole documents side by side. Of every 65,536 documents in their order the longest
// comes first, into the fullest row of them that has room for it (best-fit decreasing; Johnson et
// al., SIAM J. Comput. 3, 1974); of a document longer than a row the first n ids are taken, and one
// of fewer than 2 ids is left out.
std::unique_ptr<RowPlan> make_row_plan(const TokenStream& stream, Packing packing,
                                       std::int64_t row_ids, core::Ledger& ledger);

}  // namespace fm::data
