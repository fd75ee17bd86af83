// Programs that make something which appears whole, and signals.
#include "cli/interruption.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

namespace fm::cli {
namespace {

void raise_here(int signal) { ::kill(::getpid(), signal); }

// Of a process that ignores none of them, as the runner of the tests may.
struct Process {
  Process() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
  }
};

// Until the listener has taken a signal, which ends the process.
[[noreturn]] void wait_for_the_end() {
  while (true) ::pause();
}

TEST(Interruption, EndsTheProcessAtOnceWhereNobodyAsks) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const Process process;
          const Interruption interruption;
          raise_here(signal);
          wait_for_the_end();
        },
        testing::KilledBySignal(signal), "");
  }
}

TEST(Interruption, WhoAsksEndsTheWorkAndThenTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          const Process process;
          Interruption interruption;
          const std::function<bool()> stop = interruption.question();
          if (stop()) ::_exit(1);
          interruption.end_as_asked();  // nothing came
          raise_here(signal);
          if (!stop() || !stop()) ::_exit(2);
          interruption.end_as_asked();
          ::_exit(3);
        },
        testing::KilledBySignal(signal), "");
  }
}

TEST(Interruption, ASecondSignalEndsAtOnce) {
  EXPECT_EXIT(
      {
        const Process process;
        Interruption interruption;
        const std::function<bool()> stop = interruption.question();
        stop();
        raise_here(SIGINT);
        if (!stop()) ::_exit(2);
        raise_here(SIGTERM);
        wait_for_the_end();
      },
      testing::KilledBySignal(SIGTERM), "");
}

// As nohup starts a program, and a shell's & in a script.
TEST(Interruption, WhatTheProcessIgnoresStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);
        Interruption interruption;
        const std::function<bool()> stop = interruption.question();
        raise_here(SIGHUP);
        ::_exit(stop() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Interruption, OtherThreadsDoNotTakeTheSignal) {
  EXPECT_EXIT(
      {
        const Process process;
        Interruption interruption;
        const std::function<bool()> stop = interruption.question();
        stop();
        std::thread other([] { raise_here(SIGTERM); });
        other.join();
        ::_exit(stop() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fm::cli
