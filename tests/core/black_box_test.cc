// The black box: what is written can be read at once by another thread, and after a kill by another
// process.
#include "core/blackbox/black_box.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::core {
namespace {

namespace fs = std::filesystem;

void name_a_model(BlackBox& box) {
  box.name_units({"embedding", "layers.0", "layers.1", "layers.2", "head"});
  box.name_ops({{"F", "forward"}, {"B", "backward"}});
}

std::uint64_t enter(BlackBox& box, int group, BoxVerb verb, std::int64_t elements,
                    int partner = -1) {
  return box.begin_verb({.verb = verb,
                         .group = group,
                         .partner = partner,
                         .elements = Elements(elements),
                         .dtype = DType::kF32});
}

TEST(BlackBox, SaysWhereItsRankIs) {
  BlackBox box;
  EXPECT_EQ(box.whereabouts(), "the start");
  name_a_model(box);
  const int dp = box.add_group("dp", {0, 1, 2, 3}, 2);
  box.begin_phase(RunPhase::kStep, 57);
  EXPECT_EQ(box.whereabouts(), "step 57");
  box.begin_instruction(1, 2, 3);
  EXPECT_EQ(box.whereabouts(), "step 57, backward B2.3 (layers.2)");
  EXPECT_FALSE(box.waits_for_peers());
  const std::uint64_t moves = box.moves();
  const std::uint64_t verb = enter(box, dp, BoxVerb::kReduceScatter, 270336);
  EXPECT_TRUE(box.waits_for_peers());
  EXPECT_GT(box.moves(), moves);
  EXPECT_EQ(box.whereabouts(),
            "step 57, backward B2.3 (layers.2), reduce_scatter #1 of group dp[0-3], 270336 x fp32");
  box.posted(verb);
  EXPECT_FALSE(box.waits_for_peers());
  EXPECT_EQ(box.whereabouts(), "step 57, backward B2.3 (layers.2)");
  box.waits(verb);
  EXPECT_TRUE(box.waits_for_peers());
  box.done(verb);
  EXPECT_FALSE(box.waits_for_peers());
  box.end_instructions();
  EXPECT_EQ(box.whereabouts(), "step 57");
}

TEST(BlackBox, NamesMessagesByTheirPeerAndItsCount) {
  BlackBox box;
  const int pipe = box.add_group("pipe", {1, 5}, 0);
  box.done(enter(box, pipe, BoxVerb::kSend, 8, 1));
  box.done(enter(box, pipe, BoxVerb::kReceive, 8, 1));
  enter(box, pipe, BoxVerb::kSend, 8, 1);
  EXPECT_EQ(box.whereabouts(), "the start, send #2 to rank 5 of group pipe[1,5], 8 x fp32");
}

// A number of a record is read as long as no newer one lies in its place.
TEST(BlackBox, KeepsTheNewestRecordsWhenTheRingIsFull) {
  BlackBox box;
  const int dp = box.add_group("dp", {0, 1}, 0);
  const std::uint64_t first = enter(box, dp, BoxVerb::kAllReduce, 1);
  std::uint64_t last = first;
  for (std::size_t more = 0; more < kBoxRecords; ++more) {
    last = enter(box, dp, BoxVerb::kAllReduce, static_cast<std::int64_t>(more));
  }
  EXPECT_FALSE(box.read(first));
  EXPECT_TRUE(box.read(first + 1));
  EXPECT_EQ(box.read(last)->sequence, kBoxRecords + 1);
  box.done(first);  // was overwritten: nothing changes
  EXPECT_EQ(box.read(last)->state, BoxState::kEntered);
  const std::vector<BoxRecord> kept = box.last_of(dp, 3);
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept.back().number, last);
  EXPECT_EQ(kept.front().number, last - 2);
}

TEST(BlackBox, ChainsOfAWorldAddUpWhereAllAreEqual) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 40U;
  const auto sum_of = [&](int odd_rank, const VerbCall& odd) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      BlackBox box;
      const int world = box.add_group("world", {0, 1, 2, 3}, rank);
      const int pair = box.add_group("dp", {rank % 2, rank % 2 + 2}, rank / 2);
      box.done(enter(box, world, BoxVerb::kBarrier, 0));
      for (int at = 0; at < 5; ++at) {
        VerbCall call{.verb = BoxVerb::kAllReduce,
                      .group = pair,
                      .elements = Elements(at + rank % 2),
                      .dtype = DType::kF32};
        if (rank == odd_rank && at == 3) {
          call = odd;
          call.group = pair;
        }
        box.done(box.begin_verb(call));
      }
      EXPECT_GE(box.chain_check(), 0);
      EXPECT_LT(box.chain_check(), kLimit);
      sum += box.chain_check();
    }
    return sum % kLimit;
  };
  const VerbCall usual{.verb = BoxVerb::kAllReduce, .elements = Elements(4), .dtype = DType::kF32};
  EXPECT_EQ(sum_of(-1, usual), 0);
  EXPECT_EQ(sum_of(1, usual), 0);  // 3 + 1: what it posts anyway
  VerbCall other = usual;
  other.elements = Elements(5);
  EXPECT_NE(sum_of(1, other), 0);
  other = usual;
  other.dtype = DType::kI32;
  EXPECT_NE(sum_of(3, other), 0);
  other = usual;
  other.verb = BoxVerb::kBroadcast;
  other.partner = 0;
  const std::int64_t root0 = sum_of(0, other);
  EXPECT_NE(root0, 0);
  other.partner = 1;
  EXPECT_NE(sum_of(0, other), root0);
}

// What the watch does. Every text is that of one moment.
TEST(BlackBox, IsReadByAnotherThreadWhileItIsWritten) {
  BlackBox box;
  name_a_model(box);
  const int dp = box.add_group("dp", {0, 1}, 0);
  box.begin_phase(RunPhase::kStep, 1);
  std::atomic<bool> ended = false;
  std::set<std::string> seen;
  std::thread watch([&] {
    std::uint64_t moves = 0;
    while (!ended) {
      const std::uint64_t now = box.moves();
      EXPECT_GE(now, moves);
      moves = now;
      seen.insert(box.whereabouts());
      box.waits_for_peers();
    }
  });
  for (int round = 0; round < 20'000; ++round) {
    box.begin_instruction(0, 0, 1);
    box.done(enter(box, dp, BoxVerb::kAllGather, 7));
    box.begin_instruction(1, 0, 2);
  }
  ended = true;
  watch.join();
  for (const std::string& text : seen) {
    const bool known = text.empty() || text == "step 1" ||
                       text == "step 1, forward F0.1 (layers.0)" ||
                       text == "step 1, backward B0.2 (layers.1)" ||
                       (text.starts_with("step 1, forward F0.1 (layers.0), all_gather #") &&
                        text.ends_with(" of group dp[0,1], 7 x fp32"));
    EXPECT_TRUE(known) << text;
  }
}

class BlackBoxFile : public ::testing::Test {
 protected:
  fs::path file() const { return scratch_.path() / "blackbox" / "rank00003.ring"; }
  BoxHeader header() const {
    BoxHeader header;
    std::ifstream(file(), std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof(header));
    return header;
  }
  BoxRecord record(std::uint64_t number) const {
    BoxWords words{};
    std::ifstream bytes(file(), std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(kBoxRecordsAt + (number - 1) * sizeof(BoxWords)));
    bytes.read(reinterpret_cast<char*>(words.data()), sizeof(words));
    BoxRecord record;
    EXPECT_TRUE(unpack(words, record));
    return record;
  }
  static BoxOwner owner() {
    return {.run = "r1", .world_rank = 3, .world_size = 4, .program = "v"};
  }

  testing::ScratchFolder scratch_;
};

TEST_F(BlackBoxFile, HoldsWhatWasRecordedBeforeItWasThere) {
  BlackBox box;
  const int dp = box.add_group("dp", {2, 3}, 1);
  box.begin_phase(RunPhase::kStep, 9);
  ASSERT_EQ(box.keep_in(file(), owner()), "");
  const std::uint64_t verb = enter(box, dp, BoxVerb::kBroadcast, 6, 0);
  EXPECT_EQ(std::string(header().magic, 8), kBoxMagic);
  EXPECT_EQ(header().world_rank, 3U);
  EXPECT_EQ(std::string(header().run), "r1");
  EXPECT_EQ(header().pid, ::getpid());
  EXPECT_EQ(header().live[0], verb);
  EXPECT_EQ(record(2).step, 9);
  EXPECT_EQ(record(verb).partner, 2) << "the world rank of the root";
  EXPECT_EQ(fs::file_size(file()), kBoxBytes);
}

TEST_F(BlackBoxFile, KeepsTheOneOfTheStartBefore) {
  for (const char* run : {"first", "second", "third"}) {
    BlackBox box;
    BoxOwner mine = owner();
    mine.run = run;
    ASSERT_EQ(box.keep_in(file(), mine), "");
  }
  EXPECT_EQ(std::string(header().run), "third");
  BoxHeader before;
  std::ifstream(file().parent_path() / "before" / file().filename(), std::ios::binary)
      .read(reinterpret_cast<char*>(&before), sizeof(before));
  EXPECT_EQ(std::string(before.run), "second");
}

TEST_F(BlackBoxFile, SaysWhyItCannotBeMade) {
  BlackBox box;
  std::ofstream(scratch_.path() / "blackbox") << "a file";
  EXPECT_NE(box.keep_in(file(), owner()).find("folder"), std::string::npos);
  box.begin_phase(RunPhase::kStep, 1);  // records on, in memory
  EXPECT_EQ(box.whereabouts(), "step 1");
}

// A full disk or an editor must not end a run.
TEST_F(BlackBoxFile, MayBeCutWhileItIsWritten) {
  BlackBox box;
  const int dp = box.add_group("dp", {0, 1}, 0);
  ASSERT_EQ(box.keep_in(file(), owner()), "");
  fs::resize_file(file(), 0);
  box.begin_phase(RunPhase::kStep, 3);  // is lost with the page that it went to
  box.done(enter(box, dp, BoxVerb::kAllReduce, 1));
  box.begin_phase(RunPhase::kStep, 4);
  EXPECT_EQ(box.whereabouts(), "step 4");
}

// The parent learns by a pipe that the child is inside its verb.
TEST_F(BlackBoxFile, OutlivesAKill) {
  int inside[2];
  ASSERT_EQ(::pipe(inside), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    BlackBox box;
    box.name_ops({{"F", "forward"}, {"R", "reduce"}});
    const int dp = box.add_group("dp", {0, 3}, 1);
    if (!box.keep_in(file(), owner()).empty()) ::_exit(1);
    box.begin_phase(RunPhase::kStep, 12);
    box.begin_instruction(1, 4, 7);
    enter(box, dp, BoxVerb::kReduceScatter, 4096);
    if (::write(inside[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char said = 0;
  ASSERT_EQ(::read(inside[0], &said, 1), 1);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(inside[0]);
  ::close(inside[1]);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(header().pid, child);
  EXPECT_EQ(header().live[static_cast<std::size_t>(BoxWord::kEnded)], 0U);
  const std::uint64_t waiting = header().live[static_cast<std::size_t>(BoxWord::kWaiting)];
  const BoxRecord last = record(waiting);
  EXPECT_EQ(last.state, BoxState::kEntered);
  EXPECT_EQ(last.verb(), BoxVerb::kReduceScatter);
  EXPECT_EQ(last.step, 12);
  EXPECT_EQ(last.op, 1);
  EXPECT_EQ(last.micro, 4);
  EXPECT_EQ(last.unit, 7);
  EXPECT_EQ(last.elements, 4096);
}

TEST(BoxNames, AreReadAsTheyAreWritten) {
  const BoxNames names{.groups = {{"dp", {0, 1, 2, 7}}, {"pipe words", {3}}},
                       .units = {"embedding", "layers.0"},
                       .ops = {{"F", "forward"}}};
  EXPECT_EQ(text_of(names),
            "group\tdp\t0-2,7\ngroup\tpipe words\t3\nunit\tembedding\nunit\tlayers.0\n"
            "op\tF\tforward\n");
  const BoxNames again = names_of(text_of(names));
  EXPECT_EQ(text_of(again), text_of(names));
  EXPECT_EQ(again.groups[0].key(), names.groups[0].key());
  EXPECT_THROW(names_of("group\tdp\t3-1\n"), UserError);
  EXPECT_THROW(names_of("group\tdp\t0-99999999999\n"), UserError);
  EXPECT_THROW(names_of("grp\tdp\t0\n"), UserError);
  const std::string million = "group\tdp\t0-1000000\n";
  EXPECT_NO_THROW(names_of(million));
  EXPECT_THROW(names_of(million + million + million + million + million), UserError);
}

}  // namespace
}  // namespace fm::core
