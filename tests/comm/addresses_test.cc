// Interfaces of this host, names that appear late, and both address families.
#include "comm/wire/addresses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "comm/meet/rendezvous.h"
#include "core/check.h"
#include "tests/comm/clock.h"
#include "tests/comm/free_port.h"
#include "tests/comm/local_mesh.h"
#include "tests/comm/rendezvous_outcome.h"

namespace fm::comm {
namespace {

using core::ExitCode;

const std::vector<Interface> kHost{{"lo", "127.0.0.1"},       {"eth0", "fe80::1%eth0"},
                                   {"eth0", "fd00::1"},       {"eth0", "10.0.0.1"},
                                   {"ib0", "fe80::2%ib0"},    {"ib0", "fd00:1b::2"},
                                   {"wlan0", "fe80::3%wlan0"}};

TEST(Interfaces, TheFirstOfTheListThatIsThereCounts) {
  EXPECT_EQ(address_of_interface("eth0", kHost), "10.0.0.1");
  EXPECT_EQ(address_of_interface("ib1,ib0,eth0", kHost), "fd00:1b::2") << "not that of the link";
  EXPECT_EQ(address_of_interface("wlan0", kHost), "fe80::3%wlan0");
}

TEST(Interfaces, NamesThatAreNotThereAreRefusedWithThoseThatAre) {
  for (const std::string list : {"ib1", "ib", "ib1,eth", ""}) {
    try {
      address_of_interface(list, kHost);
      ADD_FAILURE() << list;
    } catch (const core::UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kConfigError);
      EXPECT_TRUE(has(error.what(), "(" + list + "; here are lo 127.0.0.1, eth0 fe80::1%eth0, "))
          << error.what();
    }
  }
}

TEST(Interfaces, TheLoopbackDeviceIsAmongThoseOfThisHost) {
  const auto all = own_interfaces();
  EXPECT_TRUE(std::ranges::any_of(
      all, [](const Interface& one) { return one.name == "lo" && one.address == "127.0.0.1"; }));
}

TEST(LinkAddresses, HaveTheScopeOfTheHostThatUsesThem) {
  EXPECT_EQ(seen_from("fe80::1%eth0", "fe80::2%enp1s0"), "fe80::2%eth0");
  EXPECT_EQ(seen_from("fe80::1%eth0", "fd00::2"), "fd00::2");
  EXPECT_EQ(seen_from("10.0.0.1", "fe80::2%eth0"), "fe80::2%eth0");
}

TEST(MasterAddr, MayHaveTheBracketsOfAnIpv6Address) {
  EXPECT_EQ(host_of("node1", 29500), "node1");
  EXPECT_EQ(host_of("::1", 29500), "::1");
  EXPECT_EQ(host_of("[::1]", 29500), "::1");
  EXPECT_EQ(host_of("[fe80::1%eth0]:29500", 29500), "fe80::1%eth0");
  EXPECT_THROW(host_of("[::1]:29501", 29500), core::UserError);
}

// A name that name servers learn after some questions; each takes a second of the clock.
class LateName : public testing::Test {
 protected:
  Names names(int questions) {
    return {.resolve =
                [this, questions](const std::string& host, int port) {
                  EXPECT_EQ(host, "rank0.job");
                  clock_.advance(1'000);
                  return ++asked_ < questions ? std::vector<Endpoint>()
                                              : std::vector<Endpoint>{{"127.0.0.1", port}};
                },
            .warn = [this](const std::string& line) { said_.push_back(line); }};
  }
  ManualClock clock_;
  int asked_ = 0;
  std::vector<std::string> said_;
};

TEST_F(LateName, IsAskedForUntilItIsThere) {
  const auto found = await_name({"rank0.job", 29500}, names(9), Deadline(60'000, clock_));
  EXPECT_EQ(found.at(0).address, "127.0.0.1");
  EXPECT_EQ(asked_, 9);
  EXPECT_TRUE(said_.empty()) << "before 10 s";
}

TEST_F(LateName, IsNamedAfterTenSecondsOnce) {
  await_name({"rank0.job", 29500}, names(14), Deadline(60'000, clock_));
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_TRUE(has(said_[0],
                  "name servers do not know rank0.job yet, after 10 s; asking again until "
                  "the limit of 60 s"))
      << said_[0];
}

TEST_F(LateName, ThatNeverComesIsNamedAtTheLimit) {
  try {
    await_name({"rank0.job", 29500}, names(1'000), Deadline(3'000, clock_));
    ADD_FAILURE() << "found";
  } catch (const core::MachineError& error) {
    EXPECT_EQ(error.code(), ExitCode::kRendezvousFailed);
    EXPECT_TRUE(has(error.what(), "(MASTER_ADDR=rank0.job, which name servers did not know"))
        << error.what();
  }
}

TEST_F(LateName, OfRank0IsWhereRanksMeet) {
  const HeldPort held;
  const auto meet = [&](int rank) {
    return std::async(std::launch::async, [&, rank] {
      int asked = 0;
      const MeetOptions options{.names = {.resolve = [&](const std::string&, int port) {
                                  return ++asked < 3 ? std::vector<Endpoint>()
                                                     : std::vector<Endpoint>{{"127.0.0.1", port}};
                                }}};
      return outcome_of([&] {
        return rendezvous_at({"rank0.job", held.number()}, rank_of(rank, 2), options,
                             Deadline(kWatchdogMs));
      });
    });
  };
  auto rank1 = meet(1);
  EXPECT_EQ(meet(0).get().error, "");
  EXPECT_EQ(rank1.get().error, "");
}

bool has_ipv6() {
  return listen_on("127.0.0.1").open() && own_address_towards({"::1", 1}) == "::1";
}

// Rank 0 listens on the address of its interface where MASTER_ADDR is that of a service before it.
TEST(ListenAtOneOf, TheInterfaceStandsInForAnAddressOfNobodyHere) {
  const HeldPort held;
  const Listener listener = listen_at_one_of({{"192.0.2.1", held.number()}}, "127.0.0.2");
  EXPECT_FALSE(listener.everywhere);
  EXPECT_EQ(listener.address, "127.0.0.2");
  EXPECT_TRUE(connect_once({"127.0.0.2", held.number()}, Deadline(kWatchdogMs)).open());
  EXPECT_FALSE(connect_once({"127.0.0.1", held.number()}, Deadline(kWatchdogMs)).open());
}

TEST(ListenOn, EveryAddressServesBothFamilies) {
  const Socket listener = listen_on("");
  const int port = port_of(listener);
  EXPECT_TRUE(connect_once({"127.0.0.1", port}, Deadline(kWatchdogMs)).open());
  if (has_ipv6()) {
    EXPECT_TRUE(connect_once({"::1", port}, Deadline(kWatchdogMs)).open());
  }
}

TEST(Ipv6, RanksMeetAtAnAddressAndBuildTheirMesh) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  const HeldPort held;
  const auto rank = [&](int world_rank) {
    return std::async(std::launch::async, [&, world_rank] {
      const Deadline far(kWatchdogMs);
      const Endpoint master{host_of("[::1]", held.number()), held.number()};
      const std::string address = address_towards(master, {}, far);
      const Socket listener = listen_on(address);
      PeerInfo own = rank_of(world_rank, 2);
      own.endpoint = {address, port_of(listener)};
      const Rendezvous all = rendezvous_at(master, own, {}, far);
      EXPECT_EQ(all.job_roster.ranks[0].endpoint.address, "::1");
      return build_mesh(world_rank, all.job_roster, listener, far).refused;
    });
  };
  auto rank1 = rank(1);
  EXPECT_EQ(rank(0).get(), 0);
  EXPECT_EQ(rank1.get(), 0);
}

}  // namespace
}  // namespace fm::comm
