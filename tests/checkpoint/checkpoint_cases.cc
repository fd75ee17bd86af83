#include "tests/checkpoint/checkpoint_cases.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "checkpoint/load_checkpoint.h"
#include "comm/meet/world.h"
#include "core/text.h"

namespace fm::testing {
namespace {

namespace fs = std::filesystem;

std::int64_t numel(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

}  // namespace

std::vector<checkpoint::FileSpec> state_files() {
  return {
      {.file = "weights.safetensors", .tensors = {{"a", {5, 3}}, {"b", {7}}, {"empty", {0, 4}}}},
      {.file = "moments.safetensors", .tensors = {{"b", {7}}, {"a", {5, 3}}}}};
}

float state_value(std::int64_t step, std::size_t file, std::size_t tensor, std::int64_t index) {
  return static_cast<float>(10000 * file + 1000 * tensor) + static_cast<float>(index) +
         static_cast<float>(step) / 8;
}

OwnedState empty_part_of_state(int rank, int size) {
  OwnedState part;
  for (const checkpoint::FileSpec& file : state_files()) {
    for (const checkpoint::TensorSpec& tensor : file.tensors) {
      const std::int64_t count = numel(tensor.shape);
      const std::int64_t begin = count * rank / size;
      const std::int64_t end = count * (rank + 1) / size;
      part.memory.emplace_back(static_cast<std::size_t>(end - begin),
                               std::numeric_limits<float>::quiet_NaN());
      part.slices.push_back(
          {file.file,
           core::slice_in_memory(tensor.name, tensor.shape, core::Elements(begin),
                                 part.memory.back().data(), core::Elements(end - begin))});
    }
  }
  return part;
}

namespace {

// Calls visit(slice number, index in the slice, right value).
void visit_values(const OwnedState& part, std::int64_t step,
                  const std::function<void(std::size_t, std::size_t, float)>& visit) {
  std::size_t slice = 0;
  const std::vector<checkpoint::FileSpec> files = state_files();
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (std::size_t k = 0; k < files[f].tensors.size(); ++k, ++slice) {
      const std::int64_t first = part.slices[slice].slice.first.count();
      for (std::size_t i = 0; i < part.memory[slice].size(); ++i) {
        visit(slice, i, state_value(step, f, k, first + static_cast<std::int64_t>(i)));
      }
    }
  }
}

}  // namespace

OwnedState part_of_state(std::int64_t step, int rank, int size) {
  OwnedState part = empty_part_of_state(rank, size);
  visit_values(part, step, [&](std::size_t slice, std::size_t i, float value) {
    part.memory[slice][i] = value;
  });
  return part;
}

std::string difference(const OwnedState& part, std::int64_t step) {
  std::string first;
  visit_values(part, step, [&](std::size_t slice, std::size_t i, float value) {
    const float found = part.memory[slice][i];
    if (found == value || !first.empty()) return;
    const checkpoint::FileSlice& where = part.slices[slice];
    first = core::concat(where.file, " ", where.slice.name, " element ",
                         where.slice.first.count() + static_cast<std::int64_t>(i), " is ", found,
                         ", expected ", value);
  });
  return first;
}

std::string state_text(std::int64_t step) { return core::concat("{\"step\": ", step, "}\n"); }

checkpoint::SaveResult save_state(const fs::path& output_dir, std::int64_t step, int ranks,
                                  const SavedState& saved) {
  std::vector<checkpoint::SaveResult> results(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const OwnedState part = part_of_state(step, world.rank(), ranks);
    checkpoint::SaveCourse course({.output_dir = output_dir,
                                   .step = step,
                                   .files = state_files(),
                                   .mine = part.slices,
                                   .state_json = state_text(step),
                                   .keep_last = saved.keep_last,
                                   .lineage = saved.lineage},
                                  world, saved.where);
    while (!course.over()) course.meet();
    results[static_cast<std::size_t>(world.rank())] = course.result();
  });
  for (const checkpoint::SaveResult& result : results) {
    FM_CHECK(result.durable == results[0].durable && result.problem == results[0].problem,
             "ranks disagree: ", result.problem, " / ", results[0].problem);
  }
  return results[0];
}

checkpoint::Lineage lineage_of_start(const fs::path& output_dir, checkpoint::Resume resume,
                                     const fs::path& path, const std::vector<std::string>& jobs) {
  checkpoint::Lineage lineage;
  comm::run_ranks(1, [&](comm::Communicator& world) {
    const auto found = checkpoint::find_checkpoint(output_dir, resume, path, world);
    lineage =
        checkpoint::lineage_of_start(output_dir, resume, found ? &*found : nullptr, world, jobs);
  });
  return lineage;
}

std::int64_t load_state(const fs::path& output_dir, int ranks) {
  std::int64_t step = -1;
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const auto found =
        checkpoint::find_checkpoint(output_dir, checkpoint::Resume::kAuto, "", world);
    if (!found) return;
    OwnedState part = empty_part_of_state(world.rank(), ranks);
    checkpoint::load_checkpoint(*found, state_files(), part.slices, world);
    const std::string wrong = difference(part, found->step);
    FM_CHECK(wrong.empty(), wrong);
    FM_CHECK(found->state_json == state_text(found->step), "state.json: ", found->state_json);
    if (world.rank() == 0) step = found->step;
  });
  return step;
}

std::string listing(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return core::join(names, " ");
}

}  // namespace fm::testing
