// The wire format of the rendezvous: frames survive encoding, and anything else is refused.
#include <gtest/gtest.h>

#include <random>

#include "comm/meet/frames.h"

namespace fm::comm {
namespace {

PeerInfo somebody() {
  return {.member = {.world_rank = 3, .host = "node7", .pid = 4711},
          .world_size = 8,
          .endpoint = {"fd00::12", 40123},
          .job = "--output_dir=/a path\nof two lines"};
}

JobRoster everybody(int ranks) {
  JobRoster all{.token = random_token()};
  for (int rank = 0; rank < ranks; ++rank) {
    PeerInfo who = somebody();
    who.job.clear();
    who.world_size = ranks;
    who.member.world_rank = rank;
    who.member.pid += rank;
    all.ranks.push_back(who);
  }
  return all;
}

TEST(RendezvousFrames, LieAsTheGrammarSays) {
  EXPECT_EQ(encode({FrameKind::kRefusal, 14, "no"}),
            std::string("fmemeet1\x04\x00\x0e\x00\x02\x00\x00\x00no", 18));
  EXPECT_EQ(text_of(somebody()),
            "3 8 node7 4711 fd00::12 40123\n--output_dir=/a path\nof two lines");
}

TEST(RendezvousFrames, AreReadAsSoonAsTheyAreWhole) {
  const std::string bytes = encode({FrameKind::kWelcome, 0, "some text"});
  Frame frame;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(decode(bytes.substr(0, length), 9, frame), FrameStatus::kIncomplete) << length;
  }
  EXPECT_EQ(decode(bytes, 9, frame), FrameStatus::kComplete);
  EXPECT_EQ(frame.kind, FrameKind::kWelcome);
  EXPECT_EQ(frame.text, "some text");
  EXPECT_EQ(announced_length(bytes), 9U);
  EXPECT_EQ(decode(bytes + "x", 9, frame), FrameStatus::kInvalid);
  EXPECT_EQ(decode(bytes, 8, frame), FrameStatus::kInvalid) << "longer than it may be";
  EXPECT_EQ(decode("fmenot", 9, frame), FrameStatus::kInvalid) << "the first bytes are enough";
}

TEST(RendezvousFrames, IntroductionsAndRostersSurviveTheirText) {
  const auto who = peer_info_of(text_of(somebody()));
  ASSERT_TRUE(who.has_value());
  EXPECT_EQ(text_of(*who), text_of(somebody()));
  EXPECT_EQ(who->endpoint.port, 40123);
  EXPECT_EQ(who->job, somebody().job);
  const JobRoster all = everybody(5);
  const auto read = job_roster_of(text_of(all), 5);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->token, all.token);
  EXPECT_EQ(text_of(*read), text_of(all));
  EXPECT_LE(text_of(all).size(), longest_roster(5));
  EXPECT_FALSE(job_roster_of(text_of(all), 4).has_value());
  EXPECT_FALSE(job_roster_of(text_of(all), 6).has_value());
}

TEST(RendezvousFrames, AHostMayHaveAnyName) {
  PeerInfo odd = somebody();
  odd.member.host = "my host\n";
  EXPECT_EQ(peer_info_of(text_of(odd)).value().member.host, "my?host?");
  odd.member.host = "";
  EXPECT_EQ(peer_info_of(text_of(odd)).value().member.host, "?");
}

TEST(RendezvousFrames, WhatIsNoIntroductionIsRefused) {
  for (const char* const text :
       {"", "\n", "3 8 node7 4711 fd00::12 40123", "3 8 node7 4711 fd00::12\n",
        "3 8 node7 4711 fd00::12 40123 1\n", "x 8 node7 4711 fd00::12 40123\n",
        "-1 8 node7 4711 fd00::12 40123\n", "3 0 node7 4711 fd00::12 40123\n",
        "3 8  4711 fd00::12 40123\n", "3 8 no\x1b 4711 fd00::12 40123\n",
        "3 8 node7 0 fd00::12 40123\n", "3 8 node7 4711 fd00::12 0\n",
        "3 8 node7 4711 fd00::12 65536\n", "3 8 node7 4711x fd00::12 40123\n",
        "3 99999999999 node7 4711 fd00::12 40123\n"}) {
    EXPECT_FALSE(peer_info_of(text).has_value()) << text;
  }
}

std::string mutated(std::string bytes, std::mt19937& random) {
  const auto how = random() % 4;
  if (how == 0) bytes.resize(random() % (bytes.size() + 1));
  if (how == 1) bytes.insert(random() % (bytes.size() + 1), 1, static_cast<char>(random()));
  if (how == 2) bytes.erase(random() % bytes.size(), 1 + random() % 4);
  if (how == 3) bytes[random() % bytes.size()] = static_cast<char>(random());
  return bytes;
}

// Any bytes are refused, or encode to the same bytes again.
TEST(RendezvousFrames, MutatedBytesAreRefusedOrMeanWhatTheySay) {
  std::mt19937 random(11);
  const std::string texts[] = {text_of(somebody()), text_of(everybody(3))};
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = encode({FrameKind::kHello, 0, texts[random() % 2]});
    for (auto change = random() % 3; change > 0 && !bytes.empty(); --change) {
      bytes = mutated(bytes, random);
    }
    Frame frame;
    if (decode(bytes, kLongestFrameText, frame) == FrameStatus::kComplete) {
      EXPECT_EQ(encode(frame), bytes);
    }
    const std::string text = bytes.substr(std::min(bytes.size(), kFrameHeader));
    if (const auto who = peer_info_of(text)) {
      EXPECT_EQ(peer_info_of(text_of(*who)).value().job, who->job);
      EXPECT_GE(who->member.world_rank, 0);
      EXPECT_GE(who->endpoint.port, 1);
      EXPECT_LE(who->endpoint.port, 65'535);
    }
    if (const auto all = job_roster_of(text, 3)) {
      EXPECT_EQ(text_of(job_roster_of(text_of(*all), 3).value()), text_of(*all));
    }
    for (const char c : printable(text)) EXPECT_TRUE(c >= 0x20 && c < 0x7F);
  }
}

}  // namespace
}  // namespace fm::comm
