#include "launch/agent.h"

#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "comm/waiting.h"
#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "launch/records.h"

namespace fm::launch {
namespace {

using core::ChildEnd;
using core::Children;
using core::Happened;
using core::Stream;

constexpr int kPeerLost = static_cast<int>(core::ExitCode::kPeerLost);
constexpr int kPreempted = static_cast<int>(core::ExitCode::kPreempted);
constexpr int kOurs =
    10;  // the first code of fmengine's programs; others return 1 when told to end

// A port of all addresses of this host that is bound and not listened at: the kernel gives it to
// nobody else, and rank 0, which also sets SO_REUSEADDR, may listen there.
class OwnPort {
 public:
  OwnPort() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t size = sizeof(any);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    auto* const where = reinterpret_cast<sockaddr*>(&any);
    FM_MACHINE_CHECK(bind(fd_, where, size) == 0 && getsockname(fd_, where, &size) == 0,
                     core::ExitCode::kRendezvousFailed,
                     "ranks need a free port to meet at; give --master_port (",
                     std::strerror(errno), ")");
    number_ = ntohs(any.sin_port);
  }
  ~OwnPort() { close(fd_); }
  OwnPort(const OwnPort&) = delete;
  OwnPort& operator=(const OwnPort&) = delete;
  int number() const { return number_; }

 private:
  int fd_ = -1;
  int number_ = 0;
};

struct Noticed {
  ChildEnd end;
  bool told = false;  // to end, because of another
};

bool is_stop(int code) {
  return code == 0 || code == kPreempted || code == 128 + SIGTERM || code == 128 + SIGINT;
}

const Noticed* first_failure(const std::vector<Noticed>& ends) {
  const auto first = [&ends](auto&& fits) -> const Noticed* {
    const auto at = std::ranges::find_if(ends, fits);
    return at == ends.end() ? nullptr : &*at;
  };
  const auto own = [](const Noticed& one) {
    return !is_stop(one.end.code) && one.end.code != kPeerLost;
  };
  using Fits = std::function<bool(const Noticed&)>;
  const Fits best_first[] = {
      [&](const Noticed& one) { return !one.told && own(one); },
      [&](const Noticed& one) { return !one.told && one.end.code > 128; },
      [&](const Noticed& one) { return own(one) && one.end.code >= kOurs && one.end.code < 128; },
      [&](const Noticed& one) { return !one.told && !is_stop(one.end.code); }};
  for (const Fits& fits : best_first) {
    if (const Noticed* const at = first(fits)) return at;
  }
  return nullptr;
}

// What oversee knows.
struct Watched {
  enum class Ordered : std::uint8_t { kNothing, kStop, kEnd, kKill };
  Ordered ordered = Ordered::kNothing;
  std::optional<comm::Deadline> deadline;
  std::optional<comm::Deadline> patience;  // of an effect, whose cause is not known yet
  std::vector<Noticed> ends;
  int asked = 0;                            // the signal
  pid_t sender = 0;                         // of it
  std::optional<comm::Deadline> same = {};  // until when another signal means the first one
  int code = 0;                             // where no child is the cause
  bool lost = false;

  // For how long nothing is to be done; -1: without limit.
  int limit_ms(int look_ms) const {
    if (deadline) return deadline->left_ms();
    if (!patience || ordered >= Ordered::kEnd) return look_ms;
    return patience->left_ms(look_ms < 0 ? 1'000'000'000 : look_ms);
  }
  void stop(Children& children, const Orders& orders) {
    if (ordered != Ordered::kNothing) return;
    ordered = Ordered::kStop;
    for (int child = 0; child < children.count(); ++child) orders.stop(child);
  }
  void end(Children& children, const Orders& orders) {
    if (ordered >= Ordered::kEnd) return;
    ordered = Ordered::kEnd;
    deadline.emplace(orders.grace_ms);
    for (int child = 0; child < children.count(); ++child) orders.end(child);
  }
};

// `told`: all were told to end before.
void take_ends(const Happened& now, bool told, Children& children, const Orders& orders,
               Watched& watched) {
  for (const ChildEnd& end : now.ends) watched.ends.push_back({end, told});
  for (const ChildEnd& end : now.ends) {
    const bool asked = watched.asked != 0 || watched.ordered == Watched::Ordered::kStop;
    const bool fails = asked ? !is_stop(end.code) : end.code != 0 && end.code != kPreempted;
    if (fails && end.code == kPeerLost && !asked) {
      if (!watched.patience) watched.patience.emplace(orders.patience_ms);
    } else if (fails) {
      watched.end(children, orders);
    }
    if (end.code == kPreempted) watched.stop(children, orders);
  }
}

void take_orders(const Happened& now, Children& children, const Orders& orders, Watched& watched) {
  // One order to stop may come by several ways, and through a terminal to several processes.
  constexpr int kSameMs = 5'000;
  const auto ask = [&](const core::SignalFrom& signal) {
    const int number = signal.number;
    const bool again = watched.asked != 0 && watched.ordered != Watched::Ordered::kKill;
    const bool by_hand =
        number == SIGINT && watched.asked == SIGINT && signal.sender == watched.sender;
    if (again && (by_hand || watched.same->passed())) {
      watched.ordered = Watched::Ordered::kKill;
      watched.code = 128 + number;
      children.signal_all(SIGKILL);
    }
    if (watched.asked == 0) watched.same.emplace(kSameMs);
    watched.sender = signal.sender;
    watched.asked = number;
    watched.stop(children, orders);
  };
  const bool by_launcher =
      std::ranges::find(now.controls, "stop") != now.controls.end() ||
      (!orders.stop_file.empty() && access(orders.stop_file.c_str(), F_OK) == 0);
  if (by_launcher && watched.asked == 0) ask({SIGTERM});
  for (const core::SignalFrom& each : now.signals) ask(each);
  if (now.control_closed || (orders.failed && orders.failed())) {
    watched.code = kPeerLost;
    watched.lost = watched.lost || now.control_closed;
    watched.end(children, orders);
  }
}

// Lines of several ranks do not mix.
void print_line(Stream stream, const std::string& line) {
  const std::string whole = line + "\n";
  const int fd = stream == Stream::kOut ? STDOUT_FILENO : STDERR_FILENO;
  for (std::size_t sent = 0; sent < whole.size();) {
    const ssize_t now = write(fd, whole.data() + sent, whole.size() - sent);
    if (now <= 0) return;  // nobody reads it any more
    sent += static_cast<std::size_t>(now);
  }
}

void tell_failure(const AgentJob& job, const Outcome& outcome, const Children& children,
                  const Service& service) {
  const int rank = outcome.child < 0 ? -1 : job.first_rank + outcome.child;
  std::vector<std::string> last;
  if (outcome.child >= 0) last = children.last_lines(outcome.child);
  if (service.for_launcher) {
    // The lines first: the launcher ends everything, this connection too, when it knows the end.
    for (const std::string& line : last) {
      print_line(Stream::kOut, text_of({Record::Kind::kLastLine, job.node, rank, 0, line}));
    }
    print_line(Stream::kOut, text_of({Record::Kind::kEnded, job.node, rank, outcome.code, ""}));
    return;
  }
  if (rank < 0) return;
  print_line(Stream::kErr, core::concat("fmengine-run: rank ", rank, " of ", core::host_name(),
                                        " ended first, with exit code ", outcome.code,
                                        last.empty() ? "" : "; its last lines:"));
  for (const std::string& line : last) print_line(Stream::kErr, "  " + line);
}

}  // namespace

Outcome oversee(core::Children& children, const Orders& orders) {
  constexpr int kLookMs = 300;  // at what is not polled
  const bool looks = !orders.stop_file.empty() || orders.failed;
  Watched watched;
  while (children.living() > 0) {
    const Happened now = children.wait(watched.limit_ms(looks ? kLookMs : -1));
    const bool told = watched.ordered >= Watched::Ordered::kEnd;
    take_orders(now, children, orders, watched);  // first: an end may be what a signal asked for
    take_ends(now, told, children, orders, watched);
    if (watched.patience && watched.patience->passed()) watched.end(children, orders);
    if (watched.deadline && watched.deadline->passed()) {
      watched.deadline.reset();
      children.signal_all(SIGKILL);
    }
  }
  const bool asked = watched.asked != 0;
  if (watched.ordered == Watched::Ordered::kKill) return {watched.code, -1, asked, watched.lost};
  const bool failed = watched.ordered == Watched::Ordered::kEnd || watched.patience;
  if (const Noticed* const first = failed ? first_failure(watched.ends) : nullptr) {
    return {first->end.code, first->end.child, asked, watched.lost};
  }
  if (watched.code != 0) return {watched.code, -1, asked, watched.lost};
  int code = 0;
  for (const Noticed& one : watched.ends) {
    if (one.end.code == kPreempted || code == 0) code = one.end.code;
  }
  return {code, -1, asked, watched.lost};
}

std::vector<std::string> variables_of(const AgentJob& job, int local_rank) {
  std::map<std::string, std::string> all;
  const auto add = [&all](const std::string& entry) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) all[entry.substr(0, equals)] = entry.substr(equals + 1);
  };
  for (char** at = environ; *at != nullptr; ++at) add(*at);
  for (const std::string& variable : job.variables) add(variable);
  // They would win over MASTER_PORT, or over this agent.
  for (const char* const name : {"FME_MASTER_PORT", "FMENGINE_MASTER_PORT", "TORCHELASTIC_RUN_ID",
                                 "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    all.erase(name);
  }
  if (!job.slots.empty()) all["CUDA_VISIBLE_DEVICES"] = job.slots;
  const auto set = [&all](const char* name, const auto& value) { all[name] = core::concat(value); };
  set("RANK", job.first_rank + local_rank);
  set("WORLD_SIZE", job.world_size);
  set("LOCAL_RANK", local_rank);
  set("LOCAL_WORLD_SIZE", job.ranks);
  set("GROUP_RANK", job.node);
  set("MASTER_ADDR", job.master_addr);
  set("MASTER_PORT", job.master_port);
  if (job.token.empty()) all.erase("FME_JOB_TOKEN");  // FME_JOB_TOKEN_FILE has it
  if (!job.token.empty()) set("FME_JOB_TOKEN", job.token);
  set("FME_RESTART_COUNT", job.restart);
  set("FME_AGENT", getpid());
  std::vector<std::string> list;
  for (const auto& [name, value] : all) list.push_back(core::concat(name, "=", value));
  return list;
}

std::string new_token() {
  std::array<unsigned char, 32> bytes{};
  FM_MACHINE_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
                   core::ExitCode::kRendezvousFailed,
                   "a job needs 32 random bytes for its token; set FME_JOB_TOKEN (",
                   std::strerror(errno), ")");
  std::string text;
  for (const unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

int run_ranks(AgentJob job, const Service& service) {
  FM_USER_CHECK(job.folder.empty() || chdir(job.folder.c_str()) == 0,
                "the working folder must be on every host; share it, or start in one that is (",
                job.folder, ": ", std::strerror(errno), ")");
  std::optional<OwnPort> port;
  if (job.master_addr.empty()) job.master_addr = "127.0.0.1";
  if (job.master_port == 0) job.master_port = port.emplace().number();
  if (job.token.empty() && !job.token_in_file) job.token = new_token();
  Children ranks(
      [first = job.first_rank](int child, Stream stream, const std::string& line) {
        const int rank = first + child;
        print_line(stream, rank == 0 ? line : core::concat("[rank ", rank, "] ", line));
      },
      service.control);
  if (service.for_launcher) {
    print_line(Stream::kOut, text_of({Record::Kind::kStarted, job.node, -1, 0, ""}));
  }
  for (int local = 0; local < job.ranks; ++local) {
    const std::string folder =
        core::concat(job.log_dir, "/attempt_", job.restart, "/", job.first_rank + local);
    ranks.start({.words = job.words,
                 .environment = variables_of(job, local),
                 .log_folder = job.log_dir.empty() ? "" : folder,
                 .part = local,
                 .parts = job.bind_cores ? job.ranks : 0});
  }
  const Outcome outcome =
      oversee(ranks, {.stop = [&ranks](int child) { ranks.signal(child, SIGTERM); },
                      .end = [&ranks](int child) { ranks.signal(child, SIGTERM); },
                      .grace_ms = service.for_launcher ? 1'000 : 5'000,
                      .stop_file = service.stop_file});
  if (outcome.code != 0 && !outcome.lost) tell_failure(job, outcome, ranks, service);
  return outcome.code;
}

}  // namespace fm::launch
