// Child processes of one job on this host: started, listened to and ended by one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fm::core {

// What becomes of a child's standard input.
enum class Input : std::uint8_t { kNull, kPipe };

struct ChildSpec {
  std::vector<std::string> words;        // the program, which may lie in PATH, and its arguments
  std::vector<std::string> environment;  // all of it, as NAME=value
  Input input = Input::kNull;
  std::string log_folder = {};  // of stdout.log and stderr.log; "": lines go to on_line
  int part = 0;                 // of `parts` equal parts of the cores; 0 parts: all cores
  int parts = 0;
};

enum class Stream : std::uint8_t { kOut, kErr };

// A shell that SIGTERM, SIGINT or SIGHUP ended stands for what it has started. Where that was asked
// of it (signal(), within 3 s), it has ended when no process of its group lives, with the code of
// one of them that is neither 0 nor such a signal's, where there is one.
struct ChildEnd {
  int child = 0;  // by order of start
  int code = 0;   // 128 + the signal's number where a signal ended it
};

struct SignalFrom {
  int number = 0;
  pid_t sender = 0;  // 0: the kernel, for a terminal
};

struct Happened {
  std::vector<ChildEnd> ends;         // in the order in which they were noticed
  std::vector<SignalFrom> signals;    // that came to this process
  std::vector<std::string> controls;  // lines that came through the control file
  bool control_closed = false;
};

// Every child leads a process group of its own and dies with the thread that started it. What loses
// its parent below this process becomes its child.
//
// Invariant: SIGCHLD, SIGTERM, SIGINT and SIGHUP are blocked while it lives.
// Thread:    one, which lives as long as the children shall.
// Lifetime:  kills what is left when it goes.
class Children {
 public:
  using OnLine = std::function<void(int child, Stream stream, const std::string& line)>;
  // `control`: a file whose lines are orders; -1: none.
  explicit Children(OnLine on_line, int control = -1);
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void start(const ChildSpec& spec);
  // Waits until something happens, `limit_ms` at most (-1: without limit).
  Happened wait(int limit_ms);
  // To the group of a child that lives, or of all.
  void signal(int child, int number);
  void signal_all(int number);
  // Nothing where the pipe is closed.
  void say(int child, const std::string& text);
  void close_input(int child);
  int living() const;
  bool lives(int child) const;
  int count() const { return static_cast<int>(children_.size()); }
  // Of its errors, where it wrote none of what it printed.
  std::vector<std::string> last_lines(int child) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct LineReader {
    int fd = -1;
    std::string rest = {};               // of a line that has not ended
    std::vector<std::string> last = {};  // lines
  };
  struct Child {
    pid_t pid = 0;                 // and of its group; 0: it has ended
    bool asked = false;            // to end
    std::optional<int> code = {};  // of a leader that has ended before its group
    Clock::time_point held = {};   // until when its group may live, then
    int input = -1;
    LineReader out = {}, err = {};
    std::string log_folder;
    std::int64_t out_begin = 0, err_begin = 0;  // what earlier starts wrote to its files
  };
  bool read(int child, Stream stream);
  void finish(int child, Stream stream);
  void read_control(Happened& happened);
  void reap(Happened& happened);

  OnLine on_line_;
  int control_;
  std::string control_rest_;
  int signals_ = -1;
  sigset_t before_{};
  std::vector<Child> children_;
};

}  // namespace fm::core
