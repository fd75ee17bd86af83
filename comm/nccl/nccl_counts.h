// How many verbs each rank of a group has posted, where all ranks can see it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"

namespace fm::comm {

// A rank in one role of one stream of posts: all ranks post the collectives, and of a message's
// direction one rank sends and one receives.
struct PostSeat {
  int from = -1, to = -1;  // of messages; -1: collectives
  int rank = 0;            // who posts
};

// Words of memory that the ranks share on one host; between hosts nothing is known.
//
// Thread:   any.
// Lifetime: `host` outlives it. Made by all ranks together.
class NcclCounts {
 public:
  explicit NcclCounts(Communicator& host);
  ~NcclCounts();
  NcclCounts(const NcclCounts&) = delete;
  NcclCounts& operator=(const NcclCounts&) = delete;

  void set(const PostSeat& seat, std::int64_t count);
  // What the rank has posted; nothing: unknown.
  std::optional<std::int64_t> get(const PostSeat& seat) const;

 private:
  std::int64_t* word(const PostSeat& seat) const;
  core::Bytes bytes() const;

  Communicator& host_;
  std::int64_t* words_ = nullptr;  // [ranks], then [ranks, ranks, 2]
};

}  // namespace fm::comm
