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

}  // namespace
}  // namespace fm::engine
