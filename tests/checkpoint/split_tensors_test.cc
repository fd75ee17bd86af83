// Tensors in columns, whose numbers are in memory only while they are asked for, through a
// checkpoint and an export.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/save_checkpoint.h"
#include "comm/meet/world.h"
#include "core/crc32c.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::checkpoint {
namespace {

using core::Elements;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kColumns = 8;

// Keeps its numbers elsewhere; what is fetched and not dropped is counted.
class Asleep : public core::TensorSource {
 public:
  explicit Asleep(std::vector<float> kept) : kept_(std::move(kept)) {}

  float* fetch(Elements first, Elements count) override {
    ++awake_;
    const auto begin = kept_.begin() + first.count();
    fetched_.assign(begin, begin + count.count());
    return fetched_.data();
  }
  void drop(Elements first, Elements /*count*/, bool written) override {
    --awake_;
    if (written) std::ranges::copy(fetched_, kept_.begin() + first.count());
    std::ranges::fill(fetched_, std::numeric_limits<float>::quiet_NaN());
  }
  const std::vector<float>& kept() const { return kept_; }
  int awake() const { return awake_; }

 private:
  std::vector<float> kept_;
  std::vector<float> fetched_;
  int awake_ = 0;
};

float value_at(std::int64_t element) { return 1.0F + 0.5F * static_cast<float>(element); }

// Columns [rank x width, + width) of "w".
std::vector<float> columns_of(int rank, int ranks) {
  const std::int64_t width = kColumns / ranks;
  std::vector<float> out;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t k = 0; k < width; ++k) {
      out.push_back(value_at(row * kColumns + rank * width + k));
    }
  }
  return out;
}

std::vector<core::TensorSlice> slices_of(int rank, int ranks,
                                         const std::shared_ptr<Asleep>& source) {
  const core::ParamTable table({{.name = "w", .shape = {kRows, kColumns}, .split_dim = 1}}, {},
                               {.index = rank, .count = ranks});
  return core::cut_slices(table, Elements(0), table.elements(), source, Elements(0));
}

std::vector<FileSlice> in_file(std::vector<core::TensorSlice> slices) {
  std::vector<FileSlice> out;
  for (core::TensorSlice& slice : slices) out.push_back({"w.safetensors", std::move(slice)});
  return out;
}

// A range for each row of each rank, as manifests were before.
void write_ranges_of_rows(const std::filesystem::path& folder) {
  Manifest manifest = open_manifest(folder);
  const std::string bytes = testing::file_content(folder / "w.safetensors");
  constexpr std::int64_t kBytes = 4 * kColumns / 2;
  const std::int64_t header = manifest.files[0].header_bytes.count();
  manifest.ranges.clear();
  for (std::int64_t at = header; at < std::ssize(bytes); at += kBytes) {
    const std::string part = bytes.substr(static_cast<std::size_t>(at), kBytes);
    manifest.ranges.push_back({0, at, kBytes, core::crc32c(part), 0});
  }
  std::ofstream(folder / kManifestName) << manifest_text(manifest);
}

TEST(SplitTensors, ASaveByTwoLoadsIntoOneTwoAndFour) {
  const testing::ScratchFolder folder;
  const std::vector<FileSpec> files = {
      {.file = "w.safetensors", .tensors = {{"w", {kRows, kColumns}}}}};
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto source = std::make_shared<Asleep>(columns_of(world.rank(), 2));
    const SaveRequest request = {.output_dir = folder.path(),
                                 .step = 1,
                                 .files = files,
                                 .mine = in_file(slices_of(world.rank(), 2, source)),
                                 .state_json = "{}"};
    const SaveResult result = save_checkpoint(request, world);
    EXPECT_TRUE(result.durable) << result.problem;
    EXPECT_EQ(source->awake(), 0);
  });
  // Rows of both ranks lie side by side: one range, or a model's manifest would be larger than
  // read.
  const std::filesystem::path saved = folder.path() / "global_step1";
  EXPECT_EQ(open_manifest(saved).ranges.size(), 1U);
  for (const int ranks : {1, 2, 4, -2}) {
    if (ranks < 0) write_ranges_of_rows(saved);
    comm::run_ranks(std::abs(ranks), [&, ranks = std::abs(ranks)](comm::Communicator& world) {
      const std::vector<float> wanted = columns_of(world.rank(), ranks);
      const auto source = std::make_shared<Asleep>(std::vector<float>(wanted.size()));
      const auto found = find_checkpoint(folder.path(), Resume::kMust, "", world);
      load_checkpoint(*found, files, in_file(slices_of(world.rank(), ranks, source)), world);
      EXPECT_EQ(source->kept(), wanted) << ranks;
      EXPECT_EQ(source->awake(), 0);
    });
  }
}

TEST(SplitTensors, AnExportIsReadWholeAndInColumns) {
  const testing::ScratchFolder folder;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    const auto source = std::make_shared<Asleep>(columns_of(world.rank(), 2));
    ExportRequest request;
    request.folder = folder.path() / "hf";
    request.config_json = "{}";
    request.tensors = {{"w", {kRows, kColumns}}};
    request.mine = slices_of(world.rank(), 2, source);
    export_hf_folder(request, world);
    EXPECT_EQ(source->awake(), 0);
  });
  const HfFolder exported(folder.path() / "hf");
  for (const int ranks : {1, 2}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<float> wanted = columns_of(rank, ranks);
      const auto source = std::make_shared<Asleep>(std::vector<float>(wanted.size()));
      for (const core::TensorSlice& slice : slices_of(rank, ranks, source)) exported.read(slice);
      EXPECT_EQ(source->kept(), wanted) << rank << " of " << ranks;
    }
  }
}

}  // namespace
}  // namespace fm::checkpoint
