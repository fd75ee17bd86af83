// Hostfiles, the choice of slots, and files of variables, by DeepSpeed's help and unit tests.
#include "launch/hostfile.h"

#include <gtest/gtest.h>

#include "core/check.h"
#include "core/text.h"

namespace fm::launch {
namespace {

std::string shown(const std::vector<HostSlots>& hosts) {
  std::string text;
  for (const HostSlots& host : hosts) {
    std::vector<std::string> slots;
    for (const int slot : host.slots) slots.push_back(std::to_string(slot));
    text += (text.empty() ? "" : " ") + host.host + ":" + core::join(slots, ",");
  }
  return text;
}

template <class Body>
std::string refusal_of(Body body) {
  try {
    body();
  } catch (const core::UserError& error) {
    return error.what();
  }
  return "not refused";
}

std::string hosts(const std::string& text) { return shown(hosts_in(text, "hosts")); }

TEST(Hostfile, HasALineForEachHost) {
  EXPECT_EQ(hosts("w0 slots=2\nw1 slots=1\n"), "w0:0,1 w1:0");
  EXPECT_EQ(hosts("# first\n\n  \nw1\tslots=1 # big\r\n#w2 slots=9\nw0   slots=1"), "w1:0 w0:0");
}

TEST(Hostfile, RefusesWithFileAndLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"w0 slots=2\nw1", "hosts:2: a line of a hostfile must be NAME slots=N"},
      {"w0 slots=", "hosts:1: "},
      {"w0 slots=0", "hosts:1: "},
      {"w0 slots=2x", "hosts:1: "},
      {"w0 slots=-1", "hosts:1: "},
      {"w0 2", "hosts:1: "},
      {"w0 slots=2 slots=3", "hosts:1: "},
      {"w0 slots=99999999999999999999", "hosts:1: "},
      {"w0 slots=1\n\nw0 slots=2", "hosts:3: a host must be named once"},
      {"", "a hostfile must name a host"},
      {"# w0 slots=1\n", "a hostfile must name a host"}};
  for (const auto& [text, said] : cases) {
    const std::string refusal = refusal_of([&] { hosts_in(text, "hosts"); });
    EXPECT_NE(refusal.find(said), std::string::npos) << text << " -> " << refusal;
  }
}

const std::vector<HostSlots> kPool = {{"w0", {0, 1, 2, 3}}, {"w1", {0, 1, 2, 3}}};

std::string include(const std::string& choice) { return shown(chosen_hosts(kPool, choice, "")); }
std::string exclude(const std::string& choice) { return shown(chosen_hosts(kPool, "", choice)); }

// The first four are where DeepSpeed 0.19's own command line breaks what its help says, as are the
// two of RefusesSlotsThatAreNot and the last of Exclude.
TEST(Include, TakesHostsAndSlots) {
  EXPECT_EQ(include("w0"), "w0:0,1,2,3");
  EXPECT_EQ(include("w0@w1:0,2"), "w0:0,1,2,3 w1:0,2");
  EXPECT_EQ(include("w0:2,2"), "w0:2");
  EXPECT_EQ(include("w1:3@w0:1@w1:0"), "w0:1 w1:0,3");
  EXPECT_EQ(include("w1@w0"), "w0:0,1,2,3 w1:0,1,2,3");
  EXPECT_EQ(include("w1:0@w1"), "w1:0,1,2,3");
  EXPECT_EQ(include(""), "w0:0,1,2,3 w1:0,1,2,3");
}

TEST(Exclude, LeavesOutHostsAndSlots) {
  EXPECT_EQ(exclude("w0"), "w1:0,1,2,3");
  EXPECT_EQ(exclude("w1:0"), "w0:0,1,2,3 w1:1,2,3");
  EXPECT_EQ(exclude("w1:0,1@w1:2,3"), "w0:0,1,2,3");
  EXPECT_EQ(exclude("w1:0@w0:3,3"), "w0:0,1,2 w1:1,2,3");
}

TEST(Include, RefusesSlotsThatAreNot) {
  EXPECT_NE(refusal_of([] { include("w1:9"); }).find("w1 has no slot \"9\", but 4 slots"),
            std::string::npos);
  EXPECT_NE(refusal_of([] { exclude("w1:9"); }).find("--exclude"), std::string::npos);
  EXPECT_NE(refusal_of([] { include("w2"); }).find("w2 is none"), std::string::npos);
  for (const char* const bad : {"w0:0:1", "@", "w0@", ":1", "w0:", "w0:a", "w0:-1", "w0:0,"}) {
    EXPECT_NE(refusal_of([&] { include(bad); }), "not refused") << bad;
  }
  EXPECT_NE(refusal_of([] { exclude("w0@w1"); }).find("a slot must be left"), std::string::npos);
  EXPECT_NE(refusal_of([] { chosen_hosts(kPool, "w0", "w1"); }).find("keep one"),
            std::string::npos);
}

TEST(Limits, TakeTheFirstOfBoth) {
  EXPECT_EQ(shown(first_hosts(kPool, -1, -1)), "w0:0,1,2,3 w1:0,1,2,3");
  EXPECT_EQ(shown(first_hosts(kPool, 1, 2)), "w0:0,1");
  EXPECT_NE(refusal_of([] { first_hosts(kPool, 3, -1); }).find("(--num_nodes 3, 2 hosts)"),
            std::string::npos);
  EXPECT_NE(refusal_of([] { first_hosts(kPool, -1, 5); }).find("(--num_gpus 5, w0 has 4)"),
            std::string::npos);
}

TEST(VariableFile, HasCommentsBlanksAndQuotes) {
  EXPECT_EQ(variables_in("# a\n\nA=1\n  B=two words  \nC=\"x = y\"\nD='it''s'\nE=\nF=#1\n", "env"),
            (std::vector<std::string>{"A=1", "B=two words", "C=x = y", "D=it''s", "E=", "F=#1"}));
  for (const char* const bad : {"A", "=1", "A B=1", "1A=2", "A-B=3"}) {
    const std::string refusal = refusal_of([&] { variables_in(core::concat("\n", bad), "env"); });
    EXPECT_NE(refusal.find("env:2: a line must be NAME=VALUE"), std::string::npos) << refusal;
  }
}

}  // namespace
}  // namespace fm::launch
