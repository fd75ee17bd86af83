#include "comm/host_layout.h"

#include <algorithm>
#include <map>

#include "core/check.h"

namespace fm::comm {
namespace {

// Nodes have numbers >= 0; results of additions have -1, -2 ... until all nodes are known.
int number_of_result(std::size_t addition) { return -1 - static_cast<int>(addition); }

}  // namespace

HostLayout::HostLayout(std::span<const int> host_of) {
  FM_CHECK(!host_of.empty(), "a layout of no ranks");
  std::map<int, int> numbers;
  for (const int name : host_of) {
    const auto [entry, is_new] = numbers.try_emplace(name, hosts());
    if (is_new) members_.emplace_back();
    auto& members = members_[static_cast<std::size_t>(entry->second)];
    place_of_.push_back(static_cast<int>(members.size()));
    members.push_back(ranks());
    host_of_.push_back(entry->second);
  }
  nodes_of_.resize(members_.size());
  grow(0, ranks());
  const auto renumber = [this](int& value) {
    if (value < 0) value = static_cast<int>(nodes_.size()) - 1 - value;
  };
  for (Addition& addition : additions_) {
    renumber(addition.left);
    renumber(addition.right);
  }
}

// Pairing neighbours level by level, where a leftover moves up unpaired, builds a tree whose left
// branch has the largest power of two below the count.
int HostLayout::grow(int first, int count) {
  const auto begin = host_of_.begin() + first;
  const int host = *begin;
  if (std::all_of(begin, begin + count, [host](int other) { return other == host; })) {
    const int number = static_cast<int>(nodes_.size());
    nodes_.push_back({.first = first, .count = count, .host = host});
    nodes_of_[static_cast<std::size_t>(host)].push_back(number);
    return number;
  }
  int left = 1;
  while (left * 2 < count) left *= 2;
  const int left_value = grow(first, left);
  const int right_value = grow(first + left, count - left);
  additions_.push_back({left_value, right_value});
  return number_of_result(additions_.size() - 1);
}

int HostLayout::proxy(int host, int rank) const {
  const std::vector<int>& there = members(host);
  return there[static_cast<std::size_t>(place_of(rank)) % there.size()];
}

std::vector<int> HostLayout::clients(int rank) const {
  std::vector<int> found;
  for (int other = 0; other < ranks(); ++other) {
    if (host_of(other) != host_of(rank) && proxy(host_of(rank), other) == rank) {
      found.push_back(other);
    }
  }
  return found;
}

}  // namespace fm::comm
