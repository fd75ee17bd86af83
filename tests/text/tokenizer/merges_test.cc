// Merging against its definition: again and again the pair of the smallest rank, the first of them.
#include "text/tokenizer/merges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "text/tokenizer/text_trie.h"
#include "text/tokenizer/word_cache.h"

namespace fm::tokenizer {
namespace {

using Rules = std::map<std::pair<TokenId, TokenId>, MergeTable::Merge>;

std::vector<TokenId> by_definition(const Rules& rules, std::vector<TokenId> ids) {
  while (true) {
    std::size_t best = ids.size();
    std::uint32_t rank = MergeTable::kNone;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule == rules.end() || rule->second.rank >= rank) continue;
      best = i;
      rank = rule->second.rank;
    }
    if (best == ids.size()) return ids;
    ids[best] = rules.at({ids[best], ids[best + 1]}).product;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(MergeAll, FollowsTheDefinitionForShortAndLongWords) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    Rules rules;
    MergeTable table;
    TokenId next = 6;
    const auto count = random() % 60;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      const auto left = static_cast<TokenId>(random() % static_cast<unsigned>(next));
      const auto right = static_cast<TokenId>(random() % static_cast<unsigned>(next));
      if (rules.contains({left, right})) continue;
      const MergeTable::Merge merge{random() % 2 == 0 ? rank : 1000 - rank, next++};
      rules[{left, right}] = merge;
      table.put(left, right, merge);
    }
    for (const std::size_t size : {0UL, 1UL, 2UL, 17UL, 40UL, 41UL, 120UL}) {
      MergeSpace space;
      for (std::size_t i = 0; i < size; ++i) {
        space.ids.push_back(static_cast<TokenId>(random() % 6));
      }
      const std::vector<TokenId> expected = by_definition(rules, space.ids);
      merge_all(table, space);
      ASSERT_EQ(space.ids, expected) << "round " << round << " size " << size;
    }
  }
}

TEST(MergeTable, TheLastMergeOfAPairCounts) {
  MergeTable table;
  EXPECT_EQ(table.find(1, 2).rank, MergeTable::kNone);
  table.reserve(3);
  table.put(1, 2, {7, 3});
  table.put(1, 2, {8, 4});
  EXPECT_EQ(table.find(1, 2).product, 4);
  EXPECT_EQ(table.find(2, 1).rank, MergeTable::kNone);
}

TEST(WordCache, KnowsWordsByAllTheirBytes) {
  WordCache cache;
  std::vector<TokenId> ids;
  EXPECT_FALSE(cache.find(WordCache::key_of("a"), ids));
  cache.put(WordCache::key_of("a"), std::vector<TokenId>{5, 6});
  EXPECT_FALSE(cache.find(WordCache::key_of(std::string_view("a\0", 2)), ids));
  EXPECT_TRUE(cache.find(WordCache::key_of("a"), ids));
  EXPECT_EQ(ids, (std::vector<TokenId>{5, 6}));
  cache.put(WordCache::key_of("b"), std::vector<TokenId>(8, 1));  // too many to keep
  EXPECT_FALSE(cache.find(WordCache::key_of("b"), ids));
}

TEST(TextTrie, FindsEveryTextThatBeginsThere) {
  std::mt19937 random(3);
  std::vector<std::pair<std::string, std::int32_t>> texts = {
      {"", 9}, {"a\xFF", 100}, {"\xFF", 101}};
  for (std::int32_t i = 0; i < 60; ++i) {
    std::string text;
    const auto size = 1 + random() % 5;
    for (unsigned long k = 0; k < size; ++k) text += "abcdefghijkl"[random() % 12];
    texts.emplace_back(text, i);
  }
  // Many children, on both sides of the byte whose sign changes.
  for (std::int32_t i = 0; i < 16; ++i) {
    texts.emplace_back(std::string("q") + static_cast<char>(0x78 + i), 200 + i);
  }
  const TextTrie trie(texts);
  for (std::int32_t i = 0; i < 16; ++i) {
    EXPECT_EQ(trie.longest(std::string("q") + static_cast<char>(0x78 + i)).value, 200 + i);
  }
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int k = 0; k < 8; ++k) text += "abcdefghijkl\xFF"[random() % 13];
    std::map<std::size_t, std::int32_t> expected;
    for (const auto& [one, value] : texts) {
      if (!one.empty() && text.starts_with(one)) expected[one.size()] = value;
    }
    std::map<std::size_t, std::int32_t> found;
    trie.find_all(text, [&](std::size_t size, std::int32_t value) { found[size] = value; });
    ASSERT_EQ(found, expected) << text;
    EXPECT_EQ(trie.longest(text).size, expected.empty() ? 0 : expected.rbegin()->first);
  }
}

}  // namespace
}  // namespace fm::tokenizer
