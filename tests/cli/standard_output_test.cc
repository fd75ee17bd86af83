// What is printed is there, or the program says that it is not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>

#include "cli/outputs.h"
#include "core/check.h"

namespace fm::cli {
namespace {

TEST(StandardOutput, ALineEndsOnce) {
  testing::internal::CaptureStdout();
  print_line("a");
  print_line("b\n");
  print("c");
  print_line("");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\nb\nc\n");
}

// Of a process with this standard output: what print throws as its exit code.
int code_of_printing(int out) {
  if (out < 0) {
    ::close(STDOUT_FILENO);
  } else {
    ::dup2(out, STDOUT_FILENO);
  }
  hold_standard_files();
  try {
    print("text");
  } catch (const core::MachineError& error) {
    std::fprintf(stderr, "%s", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}

TEST(StandardOutput, AFullOrClosedOneIsAnError) {
  EXPECT_EXIT(::_exit(code_of_printing(::open("/dev/full", O_WRONLY | O_CLOEXEC))),
              testing::ExitedWithCode(26), "must take what is printed.*No space left on device");
  EXPECT_EXIT(::_exit(code_of_printing(-1)), testing::ExitedWithCode(26), "Bad file descriptor");
}

TEST(StandardOutput, AReaderThatHasGoneEndsTheProcessQuietly) {
  int ends[2] = {};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  EXPECT_EXIT(::_exit(code_of_printing(ends[1])), testing::KilledBySignal(SIGPIPE), "^$");
  ::close(ends[1]);
}

// A file that is opened next would be standard output.
TEST(StandardOutput, NoFileTakesThePlaceOfAClosedOne) {
  EXPECT_EXIT(
      {
        for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) ::close(fd);
        hold_standard_files();
        ::_exit(::open("/dev/null", O_RDWR | O_CLOEXEC) > STDERR_FILENO ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace fm::cli
