#include "comm/levels/node_sums.h"

#include <algorithm>
#include <iterator>

#include "comm/verbs/tree_rows.h"
#include "core/check.h"
#include "core/trace.h"

namespace fm::comm {
namespace {

constexpr core::Elements kBlock(4096);  // a whole number of the norm's blocks; fits the cache

// All blocks of a sum are one event of the trace.
constexpr core::TraceForm kSumOfNodes = {
    "tree_add+visit", core::TraceKind::kKernel, {"elements", "bytes", "rows"}};

}  // namespace

ValueRange RankSplit::part(int rank) const {
  if (whose == Whose::kEverybody) return {core::Bytes(0), whole, dtype};
  const core::Elements first = std::min(each * rank, whole);
  return {core::bytes_of(first, dtype), std::min(each, whole - first), dtype};
}

void sum_nodes_of_host(const HostLayout& layout, int host, std::span<std::byte* const> rows,
                       const ValueRange& part, std::byte* out) {
  for (const int index : layout.nodes_of(host)) {
    const HostNode& node = layout.nodes()[static_cast<std::size_t>(index)];
    std::vector<const void*> members;
    for (int rank = node.first; rank < node.first + node.count; ++rank) {
      members.push_back(rows[static_cast<std::size_t>(layout.place_of(rank))] +
                        part.offset.count());
    }
    tree_sum_rows(members, {out, part.elements, part.dtype});
    out += part.bytes().count();
  }
}

void sum_above_nodes(const HostLayout& layout, std::span<const std::byte* const> nodes,
                     const Span& out, SumVisitor* visitor) {
  const std::vector<Addition>& additions = layout.additions();
  const auto rows = std::ssize(nodes);
  const core::TraceScope scope(kSumOfNodes,
                               {out.elements.count(), out.bytes().count() * (rows + 1), rows});
  FM_CHECK(!additions.empty(), "ranks of one host have nothing to add between hosts");
  const std::int64_t block = core::bytes_of(kBlock, out.dtype).count();
  std::vector<std::byte> results((additions.size() - 1) * static_cast<std::size_t>(block));
  std::vector<std::byte*> values(nodes.size() + additions.size());
  for (core::Elements at; at < out.elements; at += kBlock) {
    const core::Elements here = std::min(kBlock, out.elements - at);
    const core::Bytes offset = core::bytes_of(at, out.dtype);
    std::byte* const sum = static_cast<std::byte*>(out.data) + offset.count();
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      values[node] = const_cast<std::byte*>(nodes[node]) + offset.count();  // only read
    }
    for (std::size_t i = 0; i < additions.size(); ++i) {
      const bool last = i + 1 == additions.size();
      std::byte* const result = last ? sum : results.data() + static_cast<std::int64_t>(i) * block;
      const void* const pair[] = {values[static_cast<std::size_t>(additions[i].left)],
                                  values[static_cast<std::size_t>(additions[i].right)]};
      tree_sum_rows(pair, {result, here, out.dtype});
      values[nodes.size() + i] = result;
    }
    if (visitor != nullptr) visitor->visit(at, here);
  }
}

}  // namespace fm::comm
