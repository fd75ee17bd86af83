// Plans of attention by NVIDIA's cuDNN for cards that are not here: they exist, and work in no more
// memory than the plan of a run counts.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/check.h"
#include "core/text.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/cudnn_faults.h"

namespace fm::device::cuda {
namespace {

constexpr core::Bytes kRoom = core::Bytes(std::int64_t{1104} << 20);

struct Card {
  int architecture;
  int shared_memory;  // bytes that a block may ask for
  int multiprocessors;
};
constexpr Card kCards[] = {{80, 166912, 108}, {90, 232448, 132}, {100, 232448, 148}};

// As cuDNN writes it, with the numbers of NVIDIA's A100, H100 and B200.
std::string description_of(const Card& card) {
  return core::concat(
      R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], )",
      R"("deviceVer": )", card.architecture * 10, R"(, "driverVer": 13000, )",
      R"("multiProcessorCount": )", card.multiprocessors,
      R"(, "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, )",
      R"("maxSharedMemoryPerBlockOptin": )", card.shared_memory,
      R"(, "reservedSharedMemoryPerBlock": 1024, "smClockRateKHz": 1980000, )",
      R"("memClockRateKHz": 2619000, "l2CacheSize": 52428800, "maxRegistersPerSM": 65536, )",
      R"("maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, )",
      R"("isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 84929347584, )",
      R"("deviceName": "a card", "cudaDeviceId": 0, "pciDeviceId": 0, "version": 1})");
}

// Whatever asks for libcuda.so.1 behind it gets this one.
void open_driver() {
  ASSERT_NE(dlopen(FM_PLAN_DRIVER "/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
}

std::unique_ptr<AttentionLibrary> open_for(const Card& card, std::filesystem::path folder = {}) {
  OpenedCudnn opened = open_cudnn({.name = "a card",
                                   .architecture = card.architecture,
                                   .description = description_of(card),
                                   .folder = std::move(folder)});
  EXPECT_NE(opened.library, nullptr) << opened.problem;
  return std::move(opened.library);
}

kernels::AttentionShape shape_of(std::int64_t rows, std::int64_t tokens, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t dim, std::int64_t window = 0) {
  kernels::AttentionShape shape;
  shape.batch = {rows, tokens};
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = dim;
  shape.window = window;
  return shape;
}

class CudnnPlans : public testing::TestWithParam<Card> {
 protected:
  void SetUp() override { open_driver(); }
};

TEST_P(CudnnPlans, WorkInTheMemoryThatIsCounted) {
  const std::unique_ptr<AttentionLibrary> library = open_for(GetParam());
  ASSERT_NE(library, nullptr);
  const struct {
    kernels::AttentionShape shape;
    core::DType element;
    bool repeatable;
  } cases[] = {
      {shape_of(4, 4096, 32, 8, 64), core::DType::kBF16, true},  // Llama 3.2 1B
      {shape_of(4, 4096, 32, 8, 64), core::DType::kF16, false},
      {shape_of(1, 8192, 32, 8, 128, 1024), core::DType::kBF16, true},  // 8B, with a window
      {shape_of(2, 333, 6, 6, 40), core::DType::kBF16, true},
  };
  for (const auto& each : cases) {
    const auto pieces =
        attention_pieces(each.shape, each.element, each.repeatable, GetParam().architecture, kRoom);
    ASSERT_TRUE(pieces.has_value());
    for (const AttentionPiece& piece : {pieces->forward, pieces->backward}) {
      SCOPED_TRACE(core::concat(piece.tokens, " tokens, ", piece.heads, " heads of ",
                                piece.head_dim, piece.backward ? ", backward" : ", forward",
                                each.repeatable ? "" : ", fast"));
      const std::optional<core::Bytes> wanted = library->prepare(piece);
      ASSERT_TRUE(wanted.has_value()) << library->reason();
      const core::Bytes counted = attention_workspace(piece, GetParam().architecture);
      EXPECT_LE(wanted->count(), counted.count());
      // No more than what is spared, and a quarter where tokens are rounded up.
      EXPECT_GE(wanted->count() * 5 / 4 + (3 << 20), counted.count());
      EXPECT_LE(counted, kRoom);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cards, CudnnPlans, testing::ValuesIn(kCards), [](const auto& card) {
  return "Architecture" + std::to_string(card.param.architecture);
});

TEST(CudnnPlan, IsKeptAndReadAgain) {
  open_driver();
  const std::filesystem::path folder = testing::TempDir() + "/plans";
  std::filesystem::remove_all(folder);
  const AttentionPiece piece =
      attention_pieces(shape_of(1, 256, 4, 2, 64), core::DType::kBF16, true, 90, kRoom)->backward;
  const auto first = open_for(kCards[1], folder);
  ASSERT_NE(first, nullptr);
  const auto wanted = first->prepare(piece);
  ASSERT_TRUE(wanted.has_value()) << first->reason();
  std::vector<std::filesystem::path> kept;
  for (const auto& each : std::filesystem::directory_iterator(folder)) kept.push_back(each.path());
  ASSERT_EQ(kept.size(), 1U);

  std::string warning;
  const auto open_again = [&] {
    return open_cudnn({.name = "a card",
                       .architecture = 90,
                       .description = description_of(kCards[1]),
                       .folder = folder,
                       .warn = [&](const std::string& text) { warning = text; }});
  };
  const auto written = std::filesystem::last_write_time(kept[0]);
  EXPECT_EQ(open_again().library->prepare(piece), wanted);
  EXPECT_EQ(warning, "");
  EXPECT_EQ(std::filesystem::last_write_time(kept[0]), written) << "it was made again";
  // Of another card: not this file, and not its plan.
  const auto other = open_for(kCards[0], folder);
  ASSERT_TRUE(other->prepare(piece).has_value()) << other->reason();

  std::ofstream(kept[0], std::ios::app) << "damage";
  EXPECT_EQ(open_again().library->prepare(piece), wanted);
  EXPECT_NE(warning.find(kept[0].string()), warning.npos) << warning;
}

TEST(CudnnPlan, VersionsThatComputeWrongNumbersAreRefused) {
  AttentionPiece piece{.tokens = 4096};
  EXPECT_EQ(fault_of(91900, piece), "");
  EXPECT_EQ(fault_of(91500, piece), "");
  EXPECT_EQ(fault_of(91002, piece), "before 9.11.0 plans cannot be kept");
  EXPECT_EQ(fault_of(91002, {}), "before 9.11.0 plans cannot be kept");
  EXPECT_EQ(fault_of(91100, {}), "");
  piece.tokens = 4032;
  EXPECT_EQ(fault_of(91900, piece), "");
  EXPECT_EQ(fault_of(91500, piece),
            "before 9.15.1 rows of other than a multiple of 128 tokens are wrong");
}

}  // namespace
}  // namespace fm::device::cuda
