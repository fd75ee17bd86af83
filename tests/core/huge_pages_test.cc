#include "core/huge_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace fm::core {
namespace {

constexpr std::int64_t kPage = std::int64_t{2} << 20;

// What Linux notes of the mapping that an address is in (proc(5), smaps): "hg" is the advice.
std::string flags_at(const void* data) {
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    std::uintptr_t first = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) {
      const auto address = reinterpret_cast<std::uintptr_t>(data);
      inside = first <= address && address < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(HugePages, AreAskedForAndZero) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) {
    GTEST_SKIP() << "this system has none";
  }
  HugePages pages;
  Ledger ledger;
  const Buffer large(ledger, Account::kParams, Bytes(3 * kPage + 100), &pages);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % kPage, 0U);
  EXPECT_NE(flags_at(large.data()).find(" hg "), std::string::npos) << flags_at(large.data());
  EXPECT_TRUE(std::ranges::all_of(large.floats(), [](float value) { return value == 0.0F; }));
  // The last page is not whole.
  EXPECT_EQ(flags_at(large.span().data() + 3 * kPage).find(" hg "), std::string::npos);
}

TEST(HugePages, SmallBuffersTakeNone) {
  HugePages pages;
  Ledger ledger;
  const Buffer small(ledger, Account::kParams, Bytes(kPage - 1), &pages);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small.data()) % 64, 0U);
  EXPECT_EQ(flags_at(small.data()).find(" hg "), std::string::npos);
  EXPECT_EQ(ledger.current(Account::kParams), Bytes(kPage - 1));
}

}  // namespace
}  // namespace fm::core
