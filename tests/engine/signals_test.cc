#include "engine/run/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace fm::engine {
namespace {

enum class Run : std::uint8_t { kNotBegun, kBegun };

// The exit code of a process that is sent `signal` (0: none) and asks then; 1 where none ended it.
int code_after(int signal, Run run) {
  const pid_t process = fork();
  if (process == 0) {
    SignalInbox inbox([](const char*, int code) { std::_Exit(code); });
    if (run == Run::kBegun) inbox.begin_run();
    if (signal != 0) kill(getpid(), signal);
    inbox.end_if_asked();
    std::_Exit(1);
  }
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST(Signals, WhatWasSentBeforeTheRunEndsTheProcessBeforeAnotherReasonDoes) {
  EXPECT_EQ(code_after(SIGTERM, Run::kNotBegun), 75);
  EXPECT_EQ(code_after(SIGINT, Run::kNotBegun), 75);
  EXPECT_EQ(code_after(SIGUSR1, Run::kNotBegun), 1);
  EXPECT_EQ(code_after(0, Run::kNotBegun), 1);
  EXPECT_EQ(code_after(SIGTERM, Run::kBegun), 1);
}

enum class From : std::uint8_t { kItself, kLauncher };

// Whether a process that gets a SIGTERM takes it for one of its launcher's.
bool takes_for_launchers(From from) {
  int begun[2];
  EXPECT_EQ(pipe(begun), 0);
  const pid_t process = fork();
  if (process == 0) {
    SignalInbox inbox([](const char*, int code) { std::_Exit(code); });
    inbox.begin_run();
    if (inbox.stopped() || write(begun[1], "x", 1) != 1) std::_Exit(3);
    if (from == From::kItself) kill(getpid(), SIGTERM);
    while (!inbox.waits()) usleep(1000);
    std::_Exit(inbox.stopped()->by_launcher ? 1 : 0);
  }
  char byte = 0;
  EXPECT_EQ(read(begun[0], &byte, 1), 1);
  if (from == From::kLauncher) kill(process, SIGTERM);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  close(begun[0]);
  close(begun[1]);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
  return WEXITSTATUS(status) == 1;
}

TEST(Signals, ASignalOfTheLauncherIsToldFromOthers) {
  EXPECT_TRUE(takes_for_launchers(From::kLauncher));
  EXPECT_FALSE(takes_for_launchers(From::kItself));
}

}  // namespace
}  // namespace fm::engine
