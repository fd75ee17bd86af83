// Where the collectives of ranks begin to differ.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/blackbox/record.h"

namespace fm::blackbox {

// What is known of a rank's records; the same number may be in it once.
struct BoxView {
  std::string owner;  // "rank 1 (host a, pid 4711)"
  core::BoxNames names;
  std::vector<core::BoxRecord> records;
};

// As ranks send it to each other. view_of throws UserError (11) where the text is not of text_of.
std::string text_of(const BoxView& view);
BoxView view_of(std::string_view text);

// The first collective of a group that two ranks posted differently.
struct Divergence {
  std::string group;  // "dp[0,1]"
  std::uint64_t sequence = 0;
  std::string first, second;            // their owners
  std::string first_does, second_does;  // "step 57, reduce B2.3 (layers.1), all_gather ..."
};
std::string text_of(const Divergence& divergence);

// By the order of the groups of the first rank that has them, then of their collectives. What one
// rank has not posted yet, or records no more, is no difference.
std::optional<Divergence> first_divergence(std::span<const BoxView> views);

}  // namespace fm::blackbox
