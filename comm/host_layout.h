// Which host runs which members of a group, and which parts of the summation tree (core/tree.h)
// each host can add by itself. Arithmetic only.
#pragma once

#include <span>
#include <vector>

namespace fm::comm {

// The largest node of the tree whose ranks [first, first + count) all run on one host; its value is
// their sum.
struct HostNode {
  int first = 0;
  int count = 1;
  int host = 0;
};

// The tree above the nodes. Values are numbered: the nodes in rank order, then every addition's
// result in the order of the list; the last one is the whole sum.
struct Addition {
  int left = 0;
  int right = 0;
};

// Invariant: every rank is in the list of exactly one host, ranks ascending; hosts are numbered by
//            their lowest rank.
class HostLayout {
 public:
  // By rank: any numbers that are equal for the ranks of one host. At least one rank.
  explicit HostLayout(std::span<const int> host_of);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int hosts() const { return static_cast<int>(members_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& members(int host) const {
    return members_[static_cast<std::size_t>(host)];
  }
  // Position in members() of its host.
  int place_of(int rank) const { return place_of_[static_cast<std::size_t>(rank)]; }

  // The member of `host` that sends and receives on behalf of `rank`, which runs on another host.
  // It has the same position on its host where hosts have equally many ranks, so every rank carries
  // its own share.
  int proxy(int host, int rank) const;
  // The ranks of other hosts of which `rank` is the proxy, ascending.
  std::vector<int> clients(int rank) const;

  const std::vector<HostNode>& nodes() const { return nodes_; }
  const std::vector<Addition>& additions() const { return additions_; }
  // Indices of a host's nodes, ascending.
  const std::vector<int>& nodes_of(int host) const {
    return nodes_of_[static_cast<std::size_t>(host)];
  }

 private:
  int grow(int first, int count);

  std::vector<int> host_of_;
  std::vector<int> place_of_;
  std::vector<std::vector<int>> members_;
  std::vector<HostNode> nodes_;
  std::vector<std::vector<int>> nodes_of_;
  std::vector<Addition> additions_;
};

}  // namespace fm::comm
