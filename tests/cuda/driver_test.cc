// The programs on machines without a GPU that can be used, as a user starts them: a library that
// stands in for the driver gives the answers, the CUDA runtime is the real one.
#include <filesystem>
#include <fstream>

#include "core/process.h"
#include "tests/system/small_job.h"
#include "tests/system/system_case.h"

namespace fm::system {
namespace {

using Variables = std::vector<std::string>;

Variables with_driver(Variables more) {
  more.push_back("LD_LIBRARY_PATH=" FM_FAKE_DRIVER);
  return more;
}

class Driver : public SystemCase {
 protected:
  // A library that cannot be loaded hides the machine's, where it has one.
  Variables without_driver() {
    const std::filesystem::path empty = folder() / "no_driver";
    std::filesystem::create_directories(empty);
    std::ofstream(empty / "libcuda.so.1").flush();
    return {"LD_LIBRARY_PATH=" + empty.string()};
  }
  // What is said of the GPU.
  std::string report(const Variables& variables) {
    const Ended ended = run_well({.starter = Starter::kAlone,
                                  .words = {FM_PROGRAMS "/fmengine-train", "--report"},
                                  .variables = variables});
    const std::size_t line = ended.out.find("GPU        ");
    return line == std::string::npos ? ended.out : ended.out.substr(line);
  }
  Launch training(const std::string& device, const Variables& variables) {
    return {.starter = Starter::kAlone,
            .words = words_of({.config = small_config(folder(), 0),
                               .model = small_model(folder()),
                               .data = small_tokens(folder(), 40),
                               .output = folder() / "out",
                               .steps = 2,
                               .more = {"--device", device}}),
            .variables = variables};
  }
  void expect_refused(const std::string& device, const Variables& variables,
                      const std::string& part, int code = 10) {
    const Ended ended = run(training(device, variables));
    EXPECT_EQ(ended.codes, (std::vector<int>{code})) << ended.err;
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  }
};

TEST_F(Driver, ReportSaysWhatIsMissingAndTheCure) {
  EXPECT_NE(report(without_driver()).find("which is not installed here"), std::string::npos);
  const auto expect = [&](const Variables& variables, const std::string& part) {
    const std::string text = report(with_driver(variables));
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect({"FME_FAKE_DRIVER=12040"}, "it knows CUDA 12.4, this build was made with 13");
  expect({"FME_FAKE_INIT=100"}, "`nvidia-smi`");
  expect({"FME_FAKE_INIT=100", "CUDA_VISIBLE_DEVICES=5"}, "CUDA_VISIBLE_DEVICES=5");
  expect({"FME_FAKE_INIT=46"}, "another one has it for itself");
  expect({"FME_FAKE_INIT=802"}, "nvidia-fabricmanager");
  expect({"FME_FAKE_INIT=803"}, "of one version");
  expect({"FME_FAKE_INIT=999"}, "CUDA error 999");
}

TEST_F(Driver, ATrainingRunOnAGpuIsRefusedWithTheSameWords) {
  expect_refused("cuda", without_driver(),
                 "a GPU needs NVIDIA's driver, which is not installed here");
  expect_refused("cuda:1", with_driver({"FME_FAKE_INIT=100"}), "a GPU must be there");
}

TEST_F(Driver, AutoTrainsOnTheCpuAndSaysWhy) {
  const Ended ended = run_well(training("auto", without_driver()));
  EXPECT_NE(ended.out.find("no GPU for every rank"), std::string::npos) << ended.out;
}

TEST_F(Driver, WhatMayBeMendedEndsByACodeThatIsTriedAgain) {
  for (const char* const device : {"cuda", "auto"}) {
    expect_refused(device, with_driver({"FME_FAKE_INIT=802"}), "nvidia-fabricmanager", 27);
    expect_refused(device, with_driver({"FME_FAKE_INIT=999"}), "(on " + core::host_name(), 27);
  }
}

}  // namespace
}  // namespace fm::system
