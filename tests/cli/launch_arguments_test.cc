// How many ranks "gpu" and "auto" are.
#include "cli/flags/launch_arguments.h"

#include <fstream>

#include "device/card_files.h"
#include "tests/cli/expect_refusal.h"

namespace fm::cli {
namespace {

// A folder with such files; it stands for /dev.
std::filesystem::path devices_of(const std::vector<std::string>& names) {
  std::filesystem::path folder = testing::TempDir() + "/fm_devices";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const std::string& name : names) std::ofstream(folder / name).put('x');
  return folder;
}

TEST(LaunchArguments, EveryNumberedDeviceIsAGpu) {
  const std::optional<std::string> unset;
  EXPECT_EQ(usable_gpus(unset, devices_of({})), 0);
  EXPECT_EQ(usable_gpus(unset, devices_of({"nvidia0", "nvidia1", "nvidia10"})), 3);
  EXPECT_EQ(usable_gpus(unset, devices_of({"nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm",
                                           "nvidia-caps", "nvidia", "null"})),
            2);
  EXPECT_EQ(usable_gpus(unset, "/nowhere"), 0);
}

TEST(LaunchArguments, FilesOfGpusStandByTheirNumbers) {
  const std::filesystem::path folder = devices_of({"nvidia10", "nvidia2", "nvidiactl"});
  EXPECT_EQ(device::card_files(folder),
            (std::vector<std::string>{folder / "nvidia2", folder / "nvidia10"}));
}

// CUDA ignores what follows an entry that names none.
TEST(LaunchArguments, TheVariableHidesGpus) {
  const char* const devices = "/nowhere";  // nobody looks there
  EXPECT_EQ(usable_gpus("", devices), 0);
  EXPECT_EQ(usable_gpus("-1", devices), 0);
  EXPECT_EQ(usable_gpus("1", devices), 1);
  EXPECT_EQ(usable_gpus("0,1", devices), 2);
  EXPECT_EQ(usable_gpus("1,-1,0", devices), 1);
  EXPECT_EQ(usable_gpus("0,,1", devices), 1);
  EXPECT_EQ(usable_gpus("GPU-6c3e,MIG-12", devices), 2);
}

TEST(LaunchArguments, RanksOfGpusFollowTheVariable) {
  const auto ranks = [](const char* word, const char* visible) {
    const std::vector<std::string> words = {"--nproc_per_node", word, "train"};
    const core::Environment environment = [visible](const std::string& name) {
      return name == "CUDA_VISIBLE_DEVICES" ? std::optional<std::string>(visible) : std::nullopt;
    };
    return parse_run_command(words, environment, "/programs").job.ranks;
  };
  EXPECT_EQ(ranks("gpu", "4,5,6"), 3);
  EXPECT_EQ(ranks("auto", "4,5"), 2);
  EXPECT_EQ(ranks("auto", "-1"), ranks("cpu", "0"));
  EXPECT_TRUE(holds(refusal_of([&] { ranks("gpu", "-1"); }), "needs a GPU on this host"));
}

}  // namespace
}  // namespace fm::cli
