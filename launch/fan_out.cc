#include "launch/fan_out.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "comm/waiting.h"
#include "core/check.h"
#include "core/exit_codes.h"
#include "core/shell_word.h"
#include "core/text.h"

namespace fm::launch {
namespace {

using core::ChildEnd;
using core::Children;
using core::Happened;
using core::Input;
using core::Stream;

using Words = std::vector<std::string>;

constexpr int kSshFailed = 255;
constexpr int kPatienceMs = 5'000;  // an agent may need its own patience and grace to tell a cause
constexpr int kPeerLost = static_cast<int>(core::ExitCode::kPeerLost);
constexpr int kPreempted = static_cast<int>(core::ExitCode::kPreempted);
constexpr int kNotFound = static_cast<int>(core::ExitCode::kRendezvousFailed);

// A host that does not answer is noticed: in 10 s at the start, in 15 s later.
const Words kSshOptions = {"-o", "BatchMode=yes",         "-o", "ConnectTimeout=10",
                           "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};

std::string quoted(const Words& words) {
  Words all;
  for (const std::string& word : words) all.push_back(core::shell_word(word));
  return core::join(all, " ");
}

Words ssh_to(const LaunchPlan& plan, const std::string& host) {
  Words words = {"ssh"};
  words.insert(words.end(), kSshOptions.begin(), kSshOptions.end());
  if (plan.ssh_port > 0) words.insert(words.end(), {"-p", std::to_string(plan.ssh_port)});
  words.insert(words.end(), plan.launcher_args.begin(), plan.launcher_args.end());
  words.push_back(host);
  return words;
}

std::string names_of(const LaunchPlan& plan, std::string_view separator) {
  Words names;
  for (const HostSlots& host : plan.hosts) names.push_back(host.host);
  return core::join(names, separator);
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

bool by_pdsh(const LaunchPlan& plan) { return plan.transport == Transport::kPdsh && !plan.here; }

int ranks_of(const LaunchPlan& plan) {
  int ranks = 0;
  for (const HostSlots& host : plan.hosts) ranks += static_cast<int>(host.slots.size());
  return ranks;
}

// For launchers that start ranks themselves: the job's variables are in their own environment, and
// they are told the names.
Words variables_for_ranks(const LaunchPlan& plan) {
  Words all = plan.job.variables;
  if (!plan.job.token.empty()) all.push_back("FME_JOB_TOKEN=" + plan.job.token);
  all.push_back("FME_RESTART_COUNT=" + plan.job.restart);
  if (plan.transport != Transport::kSlurm) return all;  // ranks of mpirun meet by MPI
  if (!plan.fixed_address.empty()) all.push_back("MASTER_ADDR=" + plan.fixed_address);
  if (plan.job.master_port > 0) {
    all.push_back(core::concat("MASTER_PORT=", plan.job.master_port));
  }
  return all;
}

Words mpirun_words(const LaunchPlan& plan) {
  Words hosts;
  for (const HostSlots& host : plan.hosts) {
    hosts.push_back(core::concat(host.host, ":", host.slots.size()));
  }
  Words words = {"mpirun", "-np", std::to_string(ranks_of(plan)), "--host", core::join(hosts, ",")};
  if (plan.ssh_port > 0) {
    words.insert(words.end(), {"--mca", "plm_rsh_args", core::concat("-p ", plan.ssh_port)});
  }
  for (const std::string& variable : variables_for_ranks(plan)) {
    words.insert(words.end(), {"-x", name_of(variable)});
  }
  return words;
}

Words srun_words(const LaunchPlan& plan) {
  const std::size_t slots = plan.hosts[0].slots.size();
  for (const HostSlots& host : plan.hosts) {
    FM_USER_CHECK(host.slots.size() == slots,
                  "under --launcher slurm all hosts must have equally many slots; use --launcher "
                  "pdsh or ssh (",
                  host.host, " has ", host.slots.size(), ", ", plan.hosts[0].host, " ", slots, ")");
  }
  Words names;
  for (const std::string& variable : variables_for_ranks(plan)) names.push_back(name_of(variable));
  return {"srun",
          core::concat("--nodes=", plan.hosts.size()),
          core::concat("--ntasks=", ranks_of(plan)),
          core::concat("--ntasks-per-node=", slots),
          "--nodelist=" + names_of(plan, ","),
          "--kill-on-bad-exit=1",
          "--export=" + core::join(names, ",")};
}

std::string pdsh_ssh_arguments(const LaunchPlan& plan) {
  const char* const before = std::getenv("PDSH_SSH_ARGS_APPEND");
  Words all = kSshOptions;
  if (before != nullptr) all.insert(all.begin(), before);
  if (plan.ssh_port > 0) all.push_back(core::concat("-p ", plan.ssh_port));
  return core::join(all, " ");
}

// A file that only this user reads, in the working folder, which all hosts see.
class JobFile {
 public:
  JobFile(const std::string& text, const std::string& restart) : path_(name(restart)) {
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool whole = fd >= 0 &&
                       write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(fd) == 0;
    if (fd >= 0) close(fd);
    FM_MACHINE_CHECK(whole, core::ExitCode::kStorageFailed,
                     "pdsh's agents read the job in the working folder; make it writable, or use "
                     "--launcher ssh (",
                     path_, ": ", std::strerror(errno), ")");
  }
  ~JobFile() {
    remove();
    unlink(stop_file(path_).c_str());
  }
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  // Once all agents have read it.
  void remove() {
    if (!std::exchange(removed_, true)) unlink(path_.c_str());
  }
  void ask_to_stop() {
    if (std::exchange(stops_, true)) return;
    const int fd = open(stop_file(path_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) return void(close(fd));
    std::fprintf(stderr, "fmengine-launch: hosts cannot be told to stop (%s: %s)\n",
                 stop_file(path_).c_str(), std::strerror(errno));
  }
  const std::string& path() const { return path_; }
  // Of this process, where others on this host and on others may share the folder.
  static std::string name(const std::string& restart) {
    static const std::string kTag = new_token().substr(0, 16);
    return core::concat(std::filesystem::current_path().string(), "/.fmengine-launch-", kTag, "-",
                        restart);
  }
  static std::string stop_file(const std::string& path) { return path + ".stop"; }

 private:
  std::string path_;
  bool removed_ = false, stops_ = false;
};

// What agents have told.
struct Told {
  std::set<int> started;
  std::vector<Record> ends;
  std::map<int, Words> last_lines;         // by rank
  std::optional<comm::Deadline> patience;  // of the first failure: a better cause may follow
  // Whether all shall end. 75 ends nobody: all agents return it then.
  bool failed() const {
    if (ends.empty() || ends[0].code == kPreempted) return false;
    return (ends[0].rank >= 0 && ends[0].code != kPeerLost) || patience->passed();
  }
};

// pdsh tells on its standard error, "pdsh@here: HOST: ssh exited with exit code N", what became of
// ssh; it returns the largest code when all have ended, and 0 where a signal ended ssh.
int node_that_pdsh_lost(const LaunchPlan& plan, const std::string& line) {
  const Words parts = core::split(line, ' ');
  const bool ended =
      line.starts_with("pdsh@") && parts.size() > 3 &&
      (line.find(" exited with ") != line.npos || line.find(" killed by ") != line.npos);
  if (!ended) return -1;
  const std::string name = parts[1].substr(0, parts[1].size() - 1) + ".";
  const auto at = std::ranges::find_if(plan.hosts, [&](const HostSlots& one) {
    return (one.host + ".").starts_with(name);  // pdsh cuts a common domain off
  });
  return at == plan.hosts.end() ? -1 : static_cast<int>(at - plan.hosts.begin());
}

// An effect of another rank's end gives way to a cause, and the code of an agent, which pdsh tells
// on another stream, to what the agent itself has told.
void take_end(const Record& end, Told& told) {
  const auto weight = [](const Record& one) {
    const bool lost = one.code == kPeerLost || one.code == kNotFound;
    if (one.code == kPreempted) return 0;
    return one.rank >= 0 ? (one.code == kPeerLost ? 1 : 2) : (lost ? 2 : 1);
  };
  if (!told.patience) told.patience.emplace(kPatienceMs);
  if (!told.ends.empty() && weight(end) <= weight(told.ends[0])) return told.ends.push_back(end);
  told.ends.insert(told.ends.begin(), end);
}

void take_line(const LaunchPlan& plan, Stream stream, const std::string& line, Told& told) {
  if (const auto record = record_in(line)) {
    if (record->kind == Record::Kind::kStarted) told.started.insert(record->node);
    if (record->kind == Record::Kind::kLastLine) {
      told.last_lines[record->rank].push_back(record->line);
    }
    if (record->kind != Record::Kind::kEnded) return;
    return take_end(*record, told);
  }
  if (const int node = node_that_pdsh_lost(plan, line); node >= 0) {
    const bool known = std::ranges::find(told.ends, node, &Record::node) != told.ends.end();
    const int ssh = std::atoi(line.substr(line.rfind(' ') + 1).c_str());  // 255: its own
    const bool agents = line.find(" exited with ") != line.npos && ssh > 0 && ssh != kSshFailed;
    const int code = agents ? ssh : told.started.contains(node) ? kPeerLost : kNotFound;
    if (!known) take_end({Record::Kind::kEnded, node, -1, code, ""}, told);
    return;
  }
  std::fprintf(stream == Stream::kOut ? stdout : stderr, "%s\n", line.c_str());
  std::fflush(stream == Stream::kOut ? stdout : stderr);
}

int report(const LaunchPlan& plan, Told& told, const Outcome& outcome) {
  if (outcome.asked && outcome.child < 0 && outcome.code > 128) return outcome.code;  // killed
  const bool lost = outcome.code == kSshFailed && outcome.child >= 0 &&
                    plan.transport == Transport::kSsh && !plan.here;
  if (told.ends.empty() && !lost) return outcome.code;
  if (lost && (told.ends.empty() || told.ends[0].code == kPeerLost)) {
    const bool began = told.started.contains(outcome.child);
    std::fprintf(stderr, "fmengine-launch: %s %s\n",
                 plan.hosts[static_cast<std::size_t>(outcome.child)].host.c_str(),
                 began ? "was lost, or its agent was ended" : "must answer to ssh");
    return began ? kPeerLost : kNotFound;
  }
  const Record& first = told.ends[0];
  const std::string& host = plan.hosts[static_cast<std::size_t>(first.node)].host;
  if (first.code == kPreempted) return first.code;
  if (first.rank < 0) {
    std::fprintf(
        stderr, "fmengine-launch: %s %s (exit code %d)\n", host.c_str(),
        first.code == kNotFound ? "must answer to ssh" : "was lost, or its agent was ended",
        first.code);
    return first.code;
  }
  const Words& last = told.last_lines[first.rank];
  std::fprintf(stderr, "fmengine-launch: rank %d on %s ended first, with exit code %d%s\n",
               first.rank, host.c_str(), first.code, last.empty() ? "" : "; its last lines:");
  for (const std::string& line : last) std::fprintf(stderr, "  %s\n", line.c_str());
  return first.code;
}

Words environment_for(const LaunchPlan& plan) {
  Words all;
  const bool ranks_directly =
      plan.transport == Transport::kOpenMpi || plan.transport == Transport::kSlurm;
  const Words set = ranks_directly ? variables_for_ranks(plan) : Words();
  std::set<std::string> names;
  for (const std::string& variable : set) names.insert(name_of(variable));
  if (plan.transport == Transport::kPdsh) names = {"PDSH_RCMD_TYPE", "PDSH_SSH_ARGS_APPEND"};
  for (char** at = environ; *at != nullptr; ++at) {
    if (!names.contains(name_of(*at))) all.emplace_back(*at);
  }
  all.insert(all.end(), set.begin(), set.end());
  if (plan.transport == Transport::kPdsh) {
    all.push_back("PDSH_RCMD_TYPE=ssh");
    all.push_back("PDSH_SSH_ARGS_APPEND=" + pdsh_ssh_arguments(plan));
  }
  return all;
}

int run_once(const LaunchPlan& plan, bool* asked) {
  std::vector<NodePart> nodes;
  for (const HostSlots& host : plan.hosts) {
    Words slots;
    for (const int slot : host.slots) slots.push_back(std::to_string(slot));
    nodes.push_back({host.host, core::join(slots, ","), static_cast<int>(host.slots.size())});
  }
  const std::string text = job_text(plan.job, nodes);
  const bool by_file = by_pdsh(plan);
  const bool by_pipe = plan.transport == Transport::kSsh || plan.here;
  std::optional<JobFile> file;
  if (by_file) file.emplace(text, plan.job.restart);
  Told told;
  Children children([&](int, Stream stream, const std::string& line) {
    take_line(plan, stream, line, told);
    if (file && told.started.size() == plan.hosts.size()) file->remove();
    // As the end of ssh tells the agents of other hosts.
    if (file && !told.ends.empty() && told.ends[0].code == kPreempted) file->ask_to_stop();
  });
  for (const Words& words : commands_of(plan, by_file ? file->path() : "-")) {
    children.start({.words = words,
                    .environment = environment_for(plan),
                    .input = by_pipe ? Input::kPipe : Input::kNull});
  }
  for (int child = 0; by_pipe && child < children.count(); ++child) children.say(child, text);
  const Outcome outcome = oversee(children, {.stop =
                                                 [&](int child) {
                                                   if (by_pipe)
                                                     return children.say(child, "stop\n");
                                                   if (file) return file->ask_to_stop();
                                                   children.signal(child, SIGTERM);
                                                 },
                                             .end =
                                                 [&](int child) {
                                                   if (by_pipe) return children.close_input(child);
                                                   children.signal(child, file ? SIGKILL : SIGTERM);
                                                 },
                                             .grace_ms = 2'000,
                                             .patience_ms = kPatienceMs,
                                             .failed = [&told] { return told.failed(); }});
  *asked = outcome.asked;
  return report(plan, told, outcome);
}

// Those on which `true` works, in order. A signal ends the question, and is `asked` then.
std::vector<HostSlots> hosts_that_answer(const LaunchPlan& plan, int* asked) {
  std::set<int> answered;
  Children children([](int, Stream, const std::string&) {});
  const auto wait = [&](int limit_ms) {
    const Happened now = children.wait(limit_ms);
    if (!now.signals.empty()) *asked = now.signals[0].number;
    for (const ChildEnd& end : now.ends) {
      if (end.code == 0) answered.insert(end.child);
    }
  };
  // Behind a pdsh that was killed, agents may still be ending their ranks.
  const comm::Deadline pause(by_pdsh(plan) ? 2'000 : 0);
  while (!pause.passed() && *asked == 0) wait(pause.left_ms());
  for (const HostSlots& host : plan.hosts) {
    children.start({.words = question_to(plan, host.host), .environment = environment_for(plan)});
  }
  const comm::Deadline deadline(20'000);
  while (children.living() > 0 && !deadline.passed() && *asked == 0) wait(deadline.left_ms());
  std::vector<HostSlots> hosts;
  for (const int index : answered) hosts.push_back(plan.hosts[static_cast<std::size_t>(index)]);
  return hosts;
}

}  // namespace

std::vector<std::string> travelling(const std::vector<std::string>& environment) {
  constexpr std::array kPrefixes = {"NCCL_", "UCX_", "OMP_",  "FME_",    "FMENGINE_",
                                    "CUDA_", "HF_",  "WANDB", "MLFLOW_", "TORCH_"};
  const std::set<std::string> whole = {"PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL"};
  const std::set<std::string> stay = {"FME_HOST", "FME_AGENT", "FME_JOB_TOKEN", "FME_RESTART_COUNT",
                                      "CUDA_VISIBLE_DEVICES"};
  Words travel;
  for (const std::string& variable : environment) {
    const std::string name = name_of(variable);
    const bool listed = whole.contains(name) || std::ranges::any_of(kPrefixes, [&](const char* p) {
                          return name.starts_with(p);
                        });
    if (listed && !stay.contains(name)) travel.push_back(variable);
  }
  return travel;
}

std::vector<Words> commands_of(const LaunchPlan& plan, const std::string& job_file) {
  Words ranks;
  if (plan.transport == Transport::kOpenMpi) ranks = mpirun_words(plan);
  if (plan.transport == Transport::kSlurm) ranks = srun_words(plan);
  if (!ranks.empty()) {
    ranks.insert(ranks.end(), plan.launcher_args.begin(), plan.launcher_args.end());
    ranks.insert(ranks.end(), plan.job.words.begin(), plan.job.words.end());
    return {ranks};
  }
  const Words agent = {plan.agent, "--agent", job_file, "--node_rank"};
  const auto for_node = [&agent](const std::string& node) {
    Words words = agent;
    words.push_back(node);
    return words;
  };
  if (plan.here) return {for_node("0")};
  if (plan.transport == Transport::kPdsh) {
    Words words = {"pdsh", "-N", "-S", "-f", "1024", "-w", names_of(plan, ",")};
    words.insert(words.end(), plan.launcher_args.begin(), plan.launcher_args.end());
    words.push_back(quoted(for_node("%n")));
    return {words};
  }
  std::vector<Words> all;
  for (std::size_t node = 0; node < plan.hosts.size(); ++node) {
    Words words = ssh_to(plan, plan.hosts[node].host);
    words.push_back(quoted(for_node(std::to_string(node))));
    all.push_back(words);
  }
  return all;
}

std::vector<std::string> question_to(const LaunchPlan& plan, const std::string& host) {
  if (plan.here) return {"true"};
  LaunchPlan asked = plan;
  if (plan.transport == Transport::kOpenMpi) asked.launcher_args.clear();  // words of mpirun
  Words words = ssh_to(asked, host);
  if (by_pdsh(plan)) {
    words = {"pdsh", "-S", "-f", "1024", "-u", "20", "-w", host};
    words.insert(words.end(), plan.launcher_args.begin(), plan.launcher_args.end());
  }
  words.emplace_back("true");
  return words;
}

std::string printed(const LaunchPlan& plan) {
  std::string text;
  for (const Words& words : commands_of(plan, by_pdsh(plan) ? JobFile::name("0") : "-")) {
    const std::string append = core::shell_word(pdsh_ssh_arguments(plan));
    if (by_pdsh(plan)) text += "PDSH_RCMD_TYPE=ssh PDSH_SSH_ARGS_APPEND=" + append + " ";
    text += quoted(words) + "\n";
  }
  return text;
}

int launch_on(LaunchPlan plan, const Restarts& restarts) {
  const int wanted =
      restarts.min_nodes > 0 ? restarts.min_nodes : static_cast<int>(plan.hosts.size());
  const std::vector<HostSlots> all = plan.hosts;
  for (int start = 0;; ++start) {
    plan.job.restart = std::to_string(start);
    bool asked = false;
    const int code = run_once(plan, &asked);
    if (code == 0 || asked || !core::may_try_again(code) || start >= restarts.most) return code;
    plan.hosts = all;  // one may be back
    int number = 0;
    std::vector<HostSlots> hosts = hosts_that_answer(plan, &number);
    if (number != 0) return 128 + number;
    const int answer = static_cast<int>(hosts.size());
    std::fprintf(stderr,
                 "fmengine-launch: restart %d of %d after exit code %d, %d of %zu hosts answer\n",
                 start + 1, restarts.most, code, answer, all.size());
    if (answer < wanted) {
      std::fprintf(stderr,
                   "fmengine-launch: %d hosts are required; mend them, or give a smaller "
                   "--min_nodes\n",
                   wanted);
      return code;
    }
    plan.hosts = std::move(hosts);
    const bool moves = !plan.here && plan.fixed_address.empty();
    if (moves) plan.job.master_addr = plan.hosts[0].host;
  }
}

}  // namespace fm::launch
