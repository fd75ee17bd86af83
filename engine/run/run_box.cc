#include "engine/run/run_box.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "comm/agree.h"
#include "core/files/output_file.h"
#include "pipeline/executor.h"

namespace fm::engine {
namespace {

// What both names begin with, in whole words between dots.
std::string_view common_part(std::string_view a, std::string_view b) {
  const auto [end, unused] = std::ranges::mismatch(a, b);
  const auto length = static_cast<std::size_t>(end - a.begin());
  const auto ends_word = [length](std::string_view name) {
    return length == name.size() || name[length] == '.';
  };
  if (ends_word(a) && ends_word(b)) return a.substr(0, length);
  const std::size_t dot = a.substr(0, length).rfind('.');
  return dot == std::string_view::npos ? "" : a.substr(0, dot);
}

std::string unit_name(const core::ParamTable* params, const core::ParamTable* frozen) {
  std::string_view name;
  bool first = true;
  for (const core::ParamTable* table : {params, frozen}) {
    if (table == nullptr) continue;
    for (const core::ParamEntry& entry : table->entries()) {
      name = first ? std::string_view(entry.name) : common_part(name, entry.name);
      first = false;
    }
  }
  for (const std::string_view prefix : {"model.", "transformer."}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  return std::string(name);
}

}  // namespace

std::vector<std::string> unit_names(const model::Model& model) {
  std::vector<std::string> names;
  for (int unit = 0; unit < model.table_count(); ++unit) {
    const std::string name = unit_name(&model.table(unit), model.frozen_table(unit));
    const bool shown = unit > 0 && unit < model.head_unit() && !name.empty();
    names.push_back(shown                       ? name
                    : unit == 0                 ? "embedding"
                    : unit == model.head_unit() ? "head"
                    : model.is_tile(unit)       ? core::concat("tile ", unit - model.unit_count())
                                                : core::concat("block ", unit - 1));
  }
  return names;
}

void name_parts(core::BlackBox& box, const model::Model& model) {
  box.name_ops(pipeline::op_names());
  box.name_units(unit_names(model));
}

std::vector<int> pipe_ranks_of(const core::Mesh& mesh) {
  std::vector<int> ranks;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    ranks.push_back(mesh.position_of(rank).pipe_rank);
  }
  return ranks;
}

void keep_box(const TrainOptions& options, comm::Communicator& world, const RunContext& context) {
  if (context.box == nullptr) return;
  // Collective whatever the options say, which may differ.
  const std::string run = comm::text_of_rank0(world, core::random_tag());
  if (!options.blackbox || options.dry_run) return;
  char name[32];
  std::snprintf(name, sizeof(name), "rank%05d.ring", world.rank());
  const std::filesystem::path file = std::filesystem::path(options.output_dir) / "blackbox" / name;
  const std::string problem = context.box->keep_in(file, {.run = run,
                                                          .world_rank = world.rank(),
                                                          .world_size = world.size(),
                                                          .program = context.version});
  if (problem.empty()) return;
  std::fprintf(stderr,
               "fmengine-train: warning: rank %d has no black box, training goes on (%s: %s)\n",
               world.rank(), file.c_str(), problem.c_str());
}

}  // namespace fm::engine
