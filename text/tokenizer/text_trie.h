// A set of texts with values, searched for those that begin at a place of another text.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fm::tokenizer {

class TextTrie {
 public:
  struct Found {
    std::size_t size = 0;  // in bytes; 0: nothing
    std::int32_t value = -1;
  };

  TextTrie() = default;
  // Texts without characters are left out; of equal texts the last one counts. Values are >= 0.
  explicit TextTrie(std::vector<std::pair<std::string, std::int32_t>> texts);

  bool empty() const { return nodes_.size() < 2; }

  // Calls on_found(size, value) for every text that `text` begins with, shorter ones first.
  template <class OnFound>
  void find_all(std::string_view text, OnFound on_found) const {
    if (text.empty() || empty()) return;
    std::uint32_t node = root_[static_cast<unsigned char>(text[0])];
    for (std::size_t size = 1; node != 0; ++size) {
      if (nodes_[node].value >= 0) on_found(size, nodes_[node].value);
      if (size == text.size()) return;
      node = child(node, text[size]);
    }
  }

  Found longest(std::string_view text) const {
    Found found;
    find_all(text, [&](std::size_t size, std::int32_t value) { found = {size, value}; });
    return found;
  }
  // The first place at or behind `at` where a text may begin, text.size() when there is none.
  std::size_t next_start(std::string_view text, std::size_t at) const {
    while (at < text.size() && root_[static_cast<unsigned char>(text[at])] == 0) ++at;
    return at;
  }

 private:
  struct Node {
    std::int32_t value = -1;
    std::uint32_t first = 0;  // of its children, which stand side by side, sorted by label
    std::uint16_t count = 0;
    char label = 0;
  };

  std::uint32_t child(std::uint32_t node, char label) const {
    const std::uint32_t end = nodes_[node].first + nodes_[node].count;
    if (nodes_[node].count > 8) return child_of_many(node, label);
    for (std::uint32_t at = nodes_[node].first; at < end; ++at) {
      if (nodes_[at].label == label) return at;
    }
    return 0;
  }
  std::uint32_t child_of_many(std::uint32_t node, char label) const;

  std::vector<Node> nodes_;  // the root is the first one
  std::array<std::uint32_t, 256> root_{};
};

}  // namespace fm::tokenizer
