#include "text/tokenizer/text_trie.h"

namespace fm::tokenizer {
namespace {

// Texts [begin, end) of the sorted list share the path to `node`, which is `depth` bytes long.
struct TrieRange {
  std::uint32_t node;
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

}  // namespace

TextTrie::TextTrie(std::vector<std::pair<std::string, std::int32_t>> texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  nodes_.emplace_back();
  std::vector<TrieRange> open = {{0, 0, texts.size(), 0}};
  for (std::size_t next = 0; next < open.size(); ++next) {  // breadth first: siblings side by side
    const TrieRange range = open[next];
    std::size_t at = range.begin;
    for (; at < range.end && texts[at].first.size() == range.depth; ++at) {
      if (range.depth > 0) nodes_[range.node].value = texts[at].second;
    }
    nodes_[range.node].first = static_cast<std::uint32_t>(nodes_.size());
    while (at < range.end) {
      const char label = texts[at].first[range.depth];
      std::size_t end = at;
      while (end < range.end && texts[end].first[range.depth] == label) ++end;
      const auto node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.label = label});
      ++nodes_[range.node].count;
      if (range.depth == 0) root_[static_cast<unsigned char>(label)] = node;
      open.push_back({node, at, end, range.depth + 1});
      at = end;
    }
  }
}

std::uint32_t TextTrie::child_of_many(std::uint32_t node, char label) const {
  // std::string compares bytes without their sign.
  const auto begin = nodes_.begin() + nodes_[node].first;
  const auto end = begin + nodes_[node].count;
  const auto found = std::lower_bound(begin, end, label, [](const Node& a, char b) {
    return static_cast<unsigned char>(a.label) < static_cast<unsigned char>(b);
  });
  return found != end && found->label == label ? static_cast<std::uint32_t>(found - nodes_.begin())
                                               : 0;
}

}  // namespace fm::tokenizer
