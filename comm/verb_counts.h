// How often a rank called a verb with how many bytes, and how long it took.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>

namespace fm::comm {

// Thread: one. Lifetime: names have static storage; references to rows stay valid.
class VerbCounts {
 public:
  struct Key {
    std::string_view verb;
    std::int64_t bytes = 0;  // of the whole buffer; the larger of the two
    int ranks = 0;           // of the group
    bool operator<(const Key& other) const {
      return std::tie(verb, bytes, ranks) < std::tie(other.verb, other.bytes, other.ranks);
    }
  };
  struct Total {
    std::int64_t count = 0;
    std::int64_t ns = 0;  // spent posting and waiting
  };

  Total& at(const Key& key) { return rows_[key]; }
  const std::map<Key, Total>& rows() const { return rows_; }

 private:
  std::map<Key, Total> rows_;
};

}  // namespace fm::comm
