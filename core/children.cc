#include "core/children.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/check.h"

namespace fm::core {
namespace {

constexpr std::size_t kLastLines = 10;
constexpr std::size_t kLongestLine = 1'000'000;  // then it is cut

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  int ends[2];
  FM_MACHINE_CHECK(pipe2(ends, O_CLOEXEC) == 0, ExitCode::kRendezvousFailed,
                   "a process needs pipes to its children; raise `ulimit -n` (",
                   std::strerror(errno), ")");
  return {ends[0], ends[1]};
}

int open_log(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  FM_MACHINE_CHECK(fd >= 0, ExitCode::kStorageFailed, "the file of a rank must be writable (", path,
                   ": ", std::strerror(errno), ")");
  return fd;
}

// The part of the cores of this process that a child may use.
cpu_set_t cores_of(int part, int parts) {
  cpu_set_t all;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof(all), &all);
  const int count = CPU_COUNT(&all);
  cpu_set_t own;
  CPU_ZERO(&own);
  for (int cpu = 0, index = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    const bool mine = count < parts ? index == part % count : index * parts / count == part;
    if (mine) CPU_SET(cpu, &own);
    ++index;
  }
  return own;
}

// In the child: becomes the program, or says why not. Nothing that another thread's lock may hold.
[[noreturn]] void become(std::vector<char*>& argv, std::vector<char*>& envp, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above
  std::signal(SIGPIPE, SIG_DFL);
  execvpe(argv[0], argv.data(), envp.data());
  dprintf(STDERR_FILENO, "fmengine: a program is required that can be started (%s: %s)\n", argv[0],
          std::strerror(errno));
  _exit(127);
}

bool asks(int signal) { return signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }

// Of the codes of one group the heaviest counts.
int weight_of(int code) {
  if (code > 128 && asks(code - 128)) return 1;
  return code == 0 ? 0 : 2;
}

// A file's end, where ranks write into files.
// Of what is behind `begin`.
std::vector<std::string> tail_of(const std::filesystem::path& path, std::int64_t begin) {
  std::ifstream file(path);
  file.seekg(begin);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (lines.size() == kLastLines) lines.erase(lines.begin());
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

Children::Children(OnLine on_line, int control) : on_line_(std::move(on_line)), control_(control) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&set, number);  // as nohup asks
  }
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  signals_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  FM_CHECK(signals_ >= 0, "signals cannot be queued");
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);  // an ignored one would be nobody's to wait for
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Children::~Children() {
  signal_all(SIGKILL);
  for (int child = 0; child < count(); ++child) {
    Child& own = children_[static_cast<std::size_t>(child)];
    if (own.pid != 0) waitpid(own.pid, nullptr, 0);
    close_input(child);
    for (const int fd : {own.out.fd, own.err.fd}) {
      if (fd >= 0) close(fd);
    }
  }
  close(signals_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Children::start(const ChildSpec& spec) {
  std::vector<std::string> words = spec.words;
  std::vector<std::string> settings = spec.environment;
  std::vector<char*> argv = pointers_to(words);
  std::vector<char*> envp = pointers_to(settings);
  Child child{.log_folder = spec.log_folder};
  Pipe in{open("/dev/null", O_RDONLY | O_CLOEXEC), -1};
  if (spec.input == Input::kPipe) {
    close(in.read);
    in = make_pipe();
  }
  Pipe out, err;
  if (spec.log_folder.empty()) {
    out = make_pipe();
    err = make_pipe();
  } else {
    std::error_code ignored;
    std::filesystem::create_directories(spec.log_folder, ignored);
    out.write = open_log(spec.log_folder + "/stdout.log");
    err.write = open_log(spec.log_folder + "/stderr.log");
    child.out_begin = lseek(out.write, 0, SEEK_END);
    child.err_begin = lseek(err.write, 0, SEEK_END);
  }
  const cpu_set_t cores = cores_of(spec.part, std::max(spec.parts, 1));
  const pid_t parent = getpid();
  child.pid = fork();
  FM_MACHINE_CHECK(child.pid >= 0, ExitCode::kRendezvousFailed,
                   "a process must be able to start another; raise `ulimit -u` (",
                   std::strerror(errno), ")");
  if (child.pid == 0) {
    setpgid(0, 0);
    if (spec.parts > 0) sched_setaffinity(0, sizeof(cores), &cores);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    dup2(in.read, STDIN_FILENO);
    dup2(out.write, STDOUT_FILENO);
    dup2(err.write, STDERR_FILENO);
    become(argv, envp, parent);
  }
  setpgid(child.pid, child.pid);
  for (const int fd : {in.read, out.write, err.write}) close(fd);
  for (const int fd : {out.read, err.read}) {
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  child.input = in.write;
  child.out.fd = out.read;
  child.err.fd = err.read;
  children_.push_back(std::move(child));
}

// Some of what is there: one that is never empty keeps nobody from anything else. False: nothing
// is.
bool Children::read(int child, Stream stream) {
  Child& own = children_[static_cast<std::size_t>(child)];
  LineReader& from = stream == Stream::kOut ? own.out : own.err;
  std::array<char, 65536> bytes;
  const ssize_t got = from.fd < 0 ? -1 : ::read(from.fd, bytes.data(), bytes.size());
  if (got == 0) finish(child, stream);
  if (got <= 0) return false;
  from.rest.append(bytes.data(), static_cast<std::size_t>(got));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = from.rest.find('\n', begin)) != std::string::npos;) {
    const std::string line = from.rest.substr(begin, end - begin);
    begin = end + 1;
    if (from.last.size() == kLastLines) from.last.erase(from.last.begin());
    from.last.push_back(line);
    on_line_(child, stream, line);
  }
  from.rest.erase(0, begin);
  if (from.rest.size() > kLongestLine) on_line_(child, stream, std::exchange(from.rest, ""));
  return true;
}

void Children::finish(int child, Stream stream) {
  Child& own = children_[static_cast<std::size_t>(child)];
  LineReader& from = stream == Stream::kOut ? own.out : own.err;
  if (from.fd < 0) return;
  if (!from.rest.empty()) {
    from.last.push_back(from.rest);
    on_line_(child, stream, std::exchange(from.rest, ""));
  }
  close(std::exchange(from.fd, -1));
}

void Children::read_control(Happened& happened) {
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(control_, bytes.data(), bytes.size());
  if (got <= 0) {
    happened.control_closed = true;
    control_ = -1;
    return;
  }
  control_rest_.append(bytes.data(), static_cast<std::size_t>(got));
  for (std::size_t end = 0; (end = control_rest_.find('\n')) != std::string::npos;) {
    happened.controls.push_back(control_rest_.substr(0, end));
    control_rest_.erase(0, end + 1);
  }
}

void Children::reap(Happened& happened) {
  constexpr auto kToBeAsked = std::chrono::seconds(3);  // where others have the signal before us
  siginfo_t dead{};
  while (waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 && dead.si_pid != 0) {
    const pid_t group = getpgid(dead.si_pid);
    int status = 0;
    waitpid(dead.si_pid, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const auto at = std::ranges::find_if(children_, [&](const Child& child) {
      return child.pid == dead.si_pid || (child.pid == group && child.code);
    });
    if (at == children_.end()) continue;
    if (at->pid == dead.si_pid && WIFSIGNALED(status) && asks(WTERMSIG(status))) {
      at->held = at->asked ? Clock::time_point::max() : Clock::now() + kToBeAsked;
    }
    if (!at->code || weight_of(code) > weight_of(*at->code)) at->code = code;
  }
  for (int child = 0; child < count(); ++child) {
    Child& own = children_[static_cast<std::size_t>(child)];
    if (own.pid == 0 || !own.code) continue;
    if (Clock::now() < own.held && kill(-own.pid, 0) == 0) continue;
    own.pid = 0;
    happened.ends.push_back({child, *own.code});
    for (const Stream stream : {Stream::kOut, Stream::kErr}) {  // what it said last
      constexpr int kLargestPipe = 16;                          // reads
      for (int left = kLargestPipe; left > 0 && read(child, stream);) --left;
      finish(child, stream);
    }
    close_input(child);
  }
}

Happened Children::wait(int limit_ms) {
  std::vector<pollfd> waits = {{signals_, POLLIN, 0}, {control_, POLLIN, 0}};
  for (const Child& child : children_) {
    waits.push_back({child.out.fd, POLLIN, 0});
    waits.push_back({child.err.fd, POLLIN, 0});
  }
  Happened happened;
  constexpr int kLookMs = 100;  // at groups whose leaders have ended
  const bool looks = std::ranges::any_of(
      children_, [](const Child& child) { return child.pid != 0 && child.code.has_value(); });
  const bool often = looks && (limit_ms < 0 || limit_ms > kLookMs);
  poll(waits.data(), waits.size(), often ? kLookMs : limit_ms);
  for (int child = 0; child < count(); ++child) {
    const auto at = static_cast<std::size_t>(2 + 2 * child);
    if (waits[at].revents != 0) read(child, Stream::kOut);
    if (waits[at + 1].revents != 0) read(child, Stream::kErr);
  }
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number != SIGCHLD) {
      happened.signals.push_back({number, static_cast<pid_t>(info.ssi_pid)});
    }
  }
  reap(happened);
  if (control_ >= 0 && waits[1].revents != 0) read_control(happened);
  return happened;
}

void Children::signal(int child, int number) {
  constexpr auto kToDie = std::chrono::seconds(1);
  Child& own = children_[static_cast<std::size_t>(child)];
  if (own.pid == 0) return;
  kill(-own.pid, number);
  own.asked = own.asked || asks(number);
  if (!own.code) return;
  own.held = number == SIGKILL ? Clock::now() + kToDie : Clock::time_point::max();
}

void Children::signal_all(int number) {
  for (int child = 0; child < count(); ++child) signal(child, number);
}

void Children::say(int child, const std::string& text) {
  const int fd = children_[static_cast<std::size_t>(child)].input;
  std::size_t sent = 0;
  while (fd >= 0 && sent < text.size()) {
    const ssize_t now = write(fd, text.data() + sent, text.size() - sent);
    if (now <= 0) return;
    sent += static_cast<std::size_t>(now);
  }
}

void Children::close_input(int child) {
  const int fd = std::exchange(children_[static_cast<std::size_t>(child)].input, -1);
  if (fd >= 0) close(fd);
}

int Children::living() const {
  return static_cast<int>(
      std::ranges::count_if(children_, [](const Child& child) { return child.pid != 0; }));
}

bool Children::lives(int child) const {
  return children_[static_cast<std::size_t>(child)].pid != 0;
}

std::vector<std::string> Children::last_lines(int child) const {
  const Child& own = children_[static_cast<std::size_t>(child)];
  if (own.log_folder.empty()) return own.err.last.empty() ? own.out.last : own.err.last;
  const std::vector<std::string> errors = tail_of(own.log_folder + "/stderr.log", own.err_begin);
  return errors.empty() ? tail_of(own.log_folder + "/stdout.log", own.out_begin) : errors;
}

}  // namespace fm::core
