// Ids of documents that lie behind each other: what every format of data becomes before rows are
// made of it (text/data/id_rows.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fm::data {

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::int64_t size() const = 0;  // ids
  // 0: nothing tells where documents begin, as in a flat file.
  virtual std::int64_t documents() const = 0;
  // The id at which document `index` begins; of index documents() it is size().
  virtual std::int64_t begin_of(std::int64_t index) const = 0;
  // Of a document, for people: its place in the data, from 1.
  virtual std::int64_t number_of(std::int64_t index) const { return index + 1; }
  // Ids [first, first + ids.size()).
  virtual void read(std::int64_t first, std::span<std::int32_t> ids) const = 0;
  // The same as targets: kIgnored where the loss does not count one.
  virtual void read_labels(std::int64_t first, std::span<std::int32_t> labels) const {
    read(first, labels);
  }
  // Whether read_labels() may give kIgnored.
  virtual bool ignores_some() const { return false; }
  // What a short row is filled with; such places are behind all that counts.
  virtual std::int32_t filler() const { return 0; }
  virtual std::string describe() const = 0;     // "corpus.jsonl: 3 documents, 10 byte tokens"
  virtual std::string fingerprint() const = 0;  // of the content, not of the path
};

using StreamPtr = std::shared_ptr<const TokenStream>;

// All of them behind each other, at least one. Documents are known when they are in each.
StreamPtr join_streams(std::vector<StreamPtr> streams);

// A part [begin, end) of the documents in their order, in shares of 1; of the ids where documents
// are not known. Parts that meet at the same share neither overlap nor leave anything out.
StreamPtr slice_stream(StreamPtr stream, double begin, double end);

}  // namespace fm::data
