// A small training state whose numbers tell their address, written and read in any slicing.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/save_checkpoint.h"

namespace fm::testing {

// Two files: weights.safetensors (a [5, 3], b [7], empty [0, 4]) and moments.safetensors (a, b).
std::vector<checkpoint::FileSpec> state_files();

// Element i of tensor number k of file number f at `step` is 10000 f + 1000 k + i + step / 8.
float state_value(std::int64_t step, std::size_t file, std::size_t tensor, std::int64_t index);

// Part `rank` of `size` of every tensor, cut into contiguous pieces that differ by at most one
// element. Owns the numbers; `slices` point into them.
struct OwnedState {
  std::vector<std::vector<float>> memory;
  std::vector<checkpoint::FileSlice> slices;
};
OwnedState part_of_state(std::int64_t step, int rank, int size);  // filled
OwnedState empty_part_of_state(int rank, int size);               // filled with NaN
// "" when the part holds exactly the numbers of `step`, else the first that differs.
std::string difference(const OwnedState& part, std::int64_t step);

std::string state_text(std::int64_t step);  // the state.json of these tests

// Saves as `ranks` threads; checks that all ranks got the same answer.
struct SavedState {
  int keep_last = 0;
  checkpoint::Lineage lineage = {};
  checkpoint::SaveCourse::Where where = checkpoint::SaveCourse::Where::kHere;
};
checkpoint::SaveResult save_state(const std::filesystem::path& output_dir, std::int64_t step,
                                  int ranks, const SavedState& saved);
inline checkpoint::SaveResult save_state(const std::filesystem::path& output_dir, std::int64_t step,
                                         int ranks, int keep_last = 0,
                                         const checkpoint::Lineage& lineage = {}) {
  return save_state(output_dir, step, ranks, {.keep_last = keep_last, .lineage = lineage});
}
// Of a start with one rank; `path` as in find_checkpoint.
checkpoint::Lineage lineage_of_start(const std::filesystem::path& output_dir,
                                     checkpoint::Resume resume,
                                     const std::filesystem::path& path = "",
                                     const std::vector<std::string>& jobs = {});
// Finds (kAuto) and loads as `ranks` threads: the step, -1 for a fresh start; throws what they
// throw, and BugError when a number differs.
std::int64_t load_state(const std::filesystem::path& output_dir, int ranks);

// Names of the folder's entries, sorted, joined with spaces.
std::string listing(const std::filesystem::path& folder);

}  // namespace fm::testing
