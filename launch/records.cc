#include "launch/records.h"

#include <unistd.h>

#include <charconv>
#include <sstream>
#include <string_view>

#include "core/check.h"

namespace fm::launch {
namespace {

constexpr const char* kFirstWord = "fmengine-agent ";
constexpr char kSeparator = '\x1e';

[[noreturn]] void refuse_job(const std::string& why) {
  FM_MACHINE_CHECK(
      false, core::ExitCode::kRendezvousFailed,
      "an agent needs the job that fmengine launch of the same version writes; install "
      "one version on all hosts (",
      why, ")");
}

std::string read_whole(int fd, std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t have = 0; have < size;) {
    const ssize_t got = read(fd, text.data() + have, size - have);
    if (got <= 0) refuse_job("it ended early");
    have += static_cast<std::size_t>(got);
  }
  return text;
}

int number_of(std::string_view text) {
  int value = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
    refuse_job("no number: " + std::string(text));
  }
  return value;
}

// One text of a job: NAME, a blank, the value.
void take(const std::string& name, const std::string& value, int node, AgentJob& job) {
  if (name == "word") job.words.push_back(value);
  if (name == "variable") job.variables.push_back(value);
  if (name == "folder") job.folder = value;
  if (name == "address") job.master_addr = value;
  if (name == "port") job.master_port = number_of(value);
  if (name == "logs") job.log_dir = value;
  if (name == "token") job.token = value;
  if (name == "token") job.token_in_file = value.empty();
  if (name == "restart") job.restart = value;
  if (name == "bind") job.bind_cores = value == "1";
  if (name != "node") return;
  const std::size_t blank = value.find(' ');
  const int ranks = number_of(std::string_view(value).substr(0, blank));
  if (job.nodes == node) {
    job.first_rank = job.world_size;
    job.ranks = ranks;
    job.slots = value.substr(blank + 1);
  }
  job.world_size += ranks;
  ++job.nodes;
}

}  // namespace

std::string job_text(const AgentJob& job, const std::vector<NodePart>& nodes) {
  std::string body;
  const auto add = [&body](const char* name, const std::string& value) {
    body += core::concat(name, ' ', value, '\0');
  };
  for (const std::string& word : job.words) add("word", word);
  for (const std::string& variable : job.variables) add("variable", variable);
  add("folder", job.folder);
  add("address", job.master_addr);
  add("port", std::to_string(job.master_port));
  add("logs", job.log_dir);
  add("token", job.token);
  add("restart", job.restart);
  add("bind", job.bind_cores ? "1" : "0");
  for (const NodePart& node : nodes) add("node", core::concat(node.ranks, ' ', node.slots));
  return core::concat(kFirstWord, body.size(), '\n', body);
}

AgentJob read_job(int fd, int node) {
  constexpr std::size_t kMost = 16'000'000;
  std::string head;
  while (!head.ends_with('\n') && head.size() < 40) head += read_whole(fd, 1);
  if (!head.starts_with(kFirstWord) || !head.ends_with('\n')) refuse_job("another first line");
  const std::size_t begin = std::string_view(kFirstWord).size();
  const int size = number_of(std::string_view(head).substr(begin, head.size() - begin - 1));
  if (size < 0 || static_cast<std::size_t>(size) > kMost) refuse_job(head);
  std::istringstream body(read_whole(fd, static_cast<std::size_t>(size)));
  AgentJob job{.node = node, .nodes = 0, .ranks = 0, .world_size = 0};
  for (std::string text; std::getline(body, text, '\0');) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string::npos) refuse_job("a text without a name");
    take(text.substr(0, blank), text.substr(blank + 1), node, job);
  }
  if (job.ranks == 0 || job.words.empty()) refuse_job("it has no ranks for this node");
  return job;
}

std::string text_of(const Record& record) {
  return core::concat(kSeparator, static_cast<int>(record.kind), ' ', record.node, ' ', record.rank,
                      ' ', record.code, ' ', record.line);
}

std::optional<Record> record_in(const std::string& line) {
  if (!line.starts_with(kSeparator)) return std::nullopt;
  std::istringstream text(line.substr(1));
  int kind = -1;
  Record record;
  if (!(text >> kind >> record.node >> record.rank >> record.code)) return std::nullopt;
  if (kind < 0 || kind > 2) return std::nullopt;
  record.kind = static_cast<Record::Kind>(kind);
  text.get();
  std::getline(text, record.line, '\0');
  return record;
}

}  // namespace fm::launch
