#include "core/ledger.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace fm::core {
namespace {

TEST(Ledger, PeakIsTheHighestCurrent) {
  Ledger ledger;
  ledger.charge(Account::kGrads, Bytes(100));
  ledger.charge(Account::kGrads, Bytes(50));
  ledger.discharge(Account::kGrads, Bytes(100));
  ledger.charge(Account::kGrads, Bytes(20));
  EXPECT_EQ(ledger.current(Account::kGrads), Bytes(70));
  EXPECT_EQ(ledger.peak(Account::kGrads), Bytes(150));
  EXPECT_EQ(ledger.current(Account::kParams), Bytes(0));
  EXPECT_EQ(ledger.peak(Account::kParams), Bytes(0));
}

TEST(Ledger, TotalPeakIsThePeakOfTheSumNotTheSumOfPeaks) {
  Ledger ledger;
  ledger.charge(Account::kSlots, Bytes(100));
  ledger.discharge(Account::kSlots, Bytes(100));
  ledger.charge(Account::kScratch, Bytes(60));
  ledger.charge(Account::kData, Bytes(30));
  EXPECT_EQ(ledger.peak_total(), Bytes(100));
  ledger.charge(Account::kData, Bytes(20));
  EXPECT_EQ(ledger.peak_total(), Bytes(110));
}

TEST(Ledger, ThreadsMayChargeTogether) {
  Ledger ledger;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 1000; ++turn) {
        ledger.charge(Account::kParams, Bytes(8));
        ledger.discharge(Account::kParams, Bytes(8));
        ledger.charge(Account::kParams, Bytes(1));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(ledger.current(Account::kParams), Bytes(4000));
  EXPECT_GE(ledger.peak(Account::kParams), Bytes(4000));
  EXPECT_LE(ledger.peak(Account::kParams), Bytes(4032));
}

TEST(Ledger, EveryAccountHasItsOwnName) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kAccountCount; ++i) names.insert(name_of(static_cast<Account>(i)));
  EXPECT_EQ(names.size(), kAccountCount);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace fm::core
