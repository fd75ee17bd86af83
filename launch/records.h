// What an agent and its launcher tell each other: the job, by standard input or a file of mode
// 0600, and records among the lines that the agent prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/agent.h"

namespace fm::launch {

struct NodePart {
  std::string host;
  std::string slots;  // "0,2"
  int ranks = 1;
};

// The job of all nodes: a line with the length of what follows, then texts that end in a zero byte.
std::string job_text(const AgentJob& job, const std::vector<NodePart>& nodes);
// Reads one from an open file; what follows it stays there. Throws MachineError (14).
AgentJob read_job(int fd, int node);

// A line that begins with a byte of ASCII that no text has: the record separator.
struct Record {
  enum class Kind : std::uint8_t { kStarted, kEnded, kLastLine };
  Kind kind = Kind::kStarted;
  int node = 0;
  int rank = -1;  // of kEnded: the first to fail
  int code = 0;
  std::string line = {};  // of kLastLine
};
std::string text_of(const Record& record);
std::optional<Record> record_in(const std::string& line);

}  // namespace fm::launch
