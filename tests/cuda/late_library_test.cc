// Where a library is sought that is opened late, and what is said where there is none.
#include "device/cuda/late_library.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/cuda/fake_library.h"

namespace fm::device::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libfm_late_example.so.1";

LateLibraryName example() { return {"example", {"libfm_late_other.so.1", kFile}, "some-package"}; }

class LateLibraryTest : public testing::Test {
 protected:
  LateLibraryTest() {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / (std::string("fm_late_") + test->name());
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~LateLibraryTest() override { fs::remove_all(root_); }

  // The folder below the test's, with a library in it.
  fs::path with_library(const std::string& folder) {
    fs::create_directories(root_ / folder);
    fs::copy_file(fake_library_path(), root_ / folder / kFile);
    return root_ / folder;
  }
  fs::path program(const std::string& name) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << "#!/bin/false\n";
    fs::permissions(root_ / name, fs::perms::owner_all);
    return root_ / name;
  }

  fs::path root_;
  Variable libraries_{"FME_CUDA_LIBS", ""};
  Variable home_{"HOME", "/nowhere"};
  Variable python_{"FME_PYTHON", "/nowhere/bin/python"};
};

constexpr const char* kPackages = "python/lib/python3.11/site-packages/nvidia/cudnn/lib";

TEST_F(LateLibraryTest, LiesInTheFirstFolderOfTheVariableThatHasIt) {
  fs::create_directories(root_ / "empty");
  const fs::path first = with_library("first");
  const fs::path second = with_library("second");
  with_library(kPackages);
  const Variable python("FME_PYTHON", program("python/bin/python3").string());
  const Variable libraries("FME_CUDA_LIBS", (root_ / "empty").string() + "::/nowhere:" +
                                                first.string() + ":" + second.string());
  const LateLibrary library(example());
  EXPECT_EQ(library.path(), (first / kFile).string());
  decltype(fme_fake_calls)* calls = nullptr;
  library.find("fme_fake_calls", calls);
  EXPECT_EQ(calls("matmul"), 0);
}

TEST_F(LateLibraryTest, LiesInPackagesOfThePythonThatTheVariableNames) {
  const fs::path folder = with_library(kPackages);
  const Variable python("FME_PYTHON", program("python/bin/python3").string());
  EXPECT_EQ(LateLibrary(example()).path(), (folder / kFile).string());
}

TEST_F(LateLibraryTest, LiesInPackagesOfThePythonInThePath) {
  const fs::path folder = with_library(kPackages);
  const fs::path bin = program("python/bin/python3").parent_path();
  const Variable path("PATH", "/nowhere:" + bin.string());
  {
    const Variable python("FME_PYTHON", "");
    EXPECT_EQ(LateLibrary(example()).path(), (folder / kFile).string());
  }
  program("python/bin/another");
  const Variable python("FME_PYTHON", "another");
  EXPECT_EQ(LateLibrary(example()).path(), (folder / kFile).string());
}

TEST_F(LateLibraryTest, LiesInPackagesOfAVirtualEnvironmentOrOfThePythonBehindIt) {
  program("python/bin/python3");
  fs::create_directories(root_ / "virtual/bin");
  fs::create_symlink(root_ / "python/bin/python3", root_ / "virtual/bin/python");
  const Variable python("FME_PYTHON", (root_ / "virtual/bin/python").string());
  const fs::path behind = with_library(kPackages);
  EXPECT_EQ(LateLibrary(example()).path(), (behind / kFile).string());
  const fs::path own = with_library("virtual/lib/python3.11/site-packages/nvidia/cu13/lib");
  EXPECT_EQ(LateLibrary(example()).path(), (own / kFile).string());
}

TEST_F(LateLibraryTest, MissingIsSaidWithWhereItWasSought) {
  fs::create_directories(root_ / kPackages);
  const std::string program_path = program("python/bin/python3").string();
  const Variable python("FME_PYTHON", program_path);
  const Variable libraries("FME_CUDA_LIBS", "/nowhere:/else");
  const std::string message = message_of<core::UserError>(
      core::ExitCode::kConfigError, [] { const LateLibrary library(example()); });
  EXPECT_EQ(message,
            "the library example is required; `pip install some-package` for the Python that "
            "FME_PYTHON or PATH names, or set FME_CUDA_LIBS to the folder of "
            "libfm_late_other.so.1, libfm_late_example.so.1 (folders of FME_CUDA_LIBS: /nowhere, "
            "/else; the system's loader: has none; Python: " +
                program_path + ", with packages of NVIDIA in: " + (root_ / kPackages).string() +
                ")");
}

TEST_F(LateLibraryTest, WithoutAPythonTheMessageSaysSo) {
  const Variable python("FME_PYTHON", "");
  const Variable path("PATH", "/nowhere");
  const std::string message = message_of<core::UserError>(
      core::ExitCode::kConfigError, [] { const LateLibrary library(example()); });
  EXPECT_TRUE(has(message, "Python: none, with packages of NVIDIA in: none)")) << message;
}

TEST_F(LateLibraryTest, AFileThatIsNoLibraryIsNotPassedOver) {
  with_library(kPackages);
  const Variable python("FME_PYTHON", program("python/bin/python3").string());
  std::ofstream(root_ / kFile) << "no library";
  const Variable libraries("FME_CUDA_LIBS", root_.string());
  const std::string message = message_of<core::UserError>(
      core::ExitCode::kConfigError, [] { const LateLibrary library(example()); });
  EXPECT_TRUE(has(message, "the library example must be loadable where it lies; ")) << message;
  EXPECT_TRUE(has(message, (root_ / kFile).string())) << message;
}

TEST_F(LateLibraryTest, AFunctionThatItLacksIsNamed) {
  const Variable libraries("FME_CUDA_LIBS", with_library("first").string());
  const LateLibrary library(example());
  void (*function)() = nullptr;
  const std::string message = message_of<core::UserError>(
      core::ExitCode::kConfigError, [&] { library.find("fme_not_there", function); });
  EXPECT_TRUE(has(message,
                  "the library example must have the function fme_not_there; install a "
                  "newer package some-package ("))
      << message;
  EXPECT_EQ(function, nullptr);
}

TEST_F(LateLibraryTest, AReportSaysWhereEachIsOrHowToGetIt) {
  const fs::path folder = with_library("first");
  fs::rename(folder / kFile, folder / "libcublasLt.so.13");
  fs::copy_file(folder / "libcublasLt.so.13", folder / "libnccl.so.2");
  const Variable libraries("FME_CUDA_LIBS", folder.string());
  const std::vector<std::string> lines = library_lines();
  ASSERT_EQ(lines.size(), 5U);
  // What stands for cuBLASLt says that it is 130100.
  EXPECT_EQ(lines[0], "           cuBLASLt 13, for products: " +
                          (folder / "libcublasLt.so.13").string() + ", 13.1.0");
  // The system may have these.
  EXPECT_TRUE(lines[1].starts_with("           cuDNN 9, for fast attention: ")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("           CUDA's runtime 13, for cuDNN: ")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("           NVRTC 13, for cuDNN: ")) << lines[3];
  EXPECT_EQ(lines[4], "           NCCL 2, for several GPUs: " + (folder / "libnccl.so.2").string());
}

}  // namespace
}  // namespace fm::device::cuda
