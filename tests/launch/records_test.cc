// What launcher and agent tell each other.
#include "launch/records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/check.h"

namespace fm::launch {
namespace {

// Through a pipe, as ssh has it; what follows stays there.
AgentJob through_pipe(const std::string& text, int node, std::string* rest = nullptr) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  struct Closed {
    int fd;
    ~Closed() { close(fd); }
  } const closed{ends[0]};
  AgentJob job = read_job(ends[0], node);
  char more[16];
  const ssize_t got = read(ends[0], more, sizeof(more));
  if (rest != nullptr) rest->assign(more, static_cast<std::size_t>(got));
  return job;
}

const std::vector<NodePart> kNodes = {{"a", "0,2", 2}, {"b", "1", 1}};

TEST(Job, ReachesEachNodeWithItsPart) {
  const AgentJob sent{.words = {"program", "two words", ""},
                      .variables = {"A=line\nline", "B=\"quoted\" $HOME"},
                      .folder = "/a b",
                      .master_addr = "a",
                      .master_port = 29500,
                      .log_dir = "logs",
                      .token = "cafe",
                      .restart = "2",
                      .bind_cores = true};
  std::string rest;
  const AgentJob first = through_pipe(job_text(sent, kNodes) + "stop\n", 0, &rest);
  EXPECT_EQ(rest, "stop\n");
  EXPECT_EQ(first.words, sent.words);
  EXPECT_EQ(first.variables, sent.variables);
  EXPECT_EQ(first.folder, "/a b");
  EXPECT_EQ(first.token, "cafe");
  EXPECT_EQ(first.restart, "2");
  EXPECT_TRUE(first.bind_cores);
  EXPECT_EQ(first.slots, "0,2");
  EXPECT_EQ(first.world_size, 3);
  EXPECT_EQ(first.nodes, 2);
  const AgentJob second = through_pipe(job_text(sent, kNodes), 1);
  EXPECT_EQ(second.first_rank, 2);
  EXPECT_EQ(second.ranks, 1);
  EXPECT_EQ(second.slots, "1");
}

TEST(Job, OfAnotherVersionIsRefused) {
  const std::string whole = job_text({.words = {"p"}}, kNodes);
  for (const std::string& bad :
       {std::string(), std::string("hello\n"), whole.substr(0, 40),
        std::string("fmengine-agent 99999999999\n"), std::string("fmengine-agent 3\nabc")}) {
    EXPECT_THROW(through_pipe(bad, 0), core::MachineError) << bad;
  }
  EXPECT_THROW(through_pipe(whole, 2), core::MachineError);
}

TEST(Record, IsALineThatNoTextIs) {
  const auto read = record_in(text_of({Record::Kind::kLastLine, 3, 12, 137, " a  line "}));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->node, 3);
  EXPECT_EQ(read->rank, 12);
  EXPECT_EQ(read->code, 137);
  EXPECT_EQ(read->line, " a  line ");
  EXPECT_FALSE(record_in("1 3 12 137 line"));
  EXPECT_FALSE(
      record_in("\x1e"
                "9 1 1 1 "));
}

}  // namespace
}  // namespace fm::launch
