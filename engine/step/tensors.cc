#include "engine/step/tensors.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "checkpoint/safetensors_plan.h"
#include "core/check.h"
#include "core/files/durable_file.h"
#include "core/files/output_file.h"
#include "core/whole_table.h"
#include "offload/stored_numbers.h"

namespace fm::engine {
namespace {

using checkpoint::FileSlice;
using checkpoint::FileSpec;
using checkpoint::TensorSpec;
using core::DType;

int unit_of_tile(const model::Model& model, const model::Tile& tile) {
  return tile.end == model::Tile::Matrix::kEmbedding ? 0 : model.head_unit();
}

void append(std::vector<TensorSpec>& out, const core::ParamTable& table) {
  for (const core::ParamEntry& entry : table.entries()) out.push_back({entry.name, entry.shape});
}

// What is trained of a unit, in the order of its whole table; a matrix in tiles once.
void append_trained(std::vector<TensorSpec>& out, const model::Model& model, int unit) {
  const core::ParamTable& rest = model.table(unit);
  const auto tile = std::ranges::find_if(model.tiles, [&](const model::Tile& each) {
    return unit_of_tile(model, each) == unit && each.rows.first == 0;
  });
  if (tile == model.tiles.end()) return append(out, rest);
  const bool before = unit > 0 && core::lies_before(rest, tile->table);
  append(out, before ? rest : tile->table);
  append(out, before ? tile->table : rest);
}

std::string file_name(const std::string& kind, int unit) {
  char name[64];
  std::snprintf(name, sizeof(name), "-%04d.safetensors", unit);
  return kind + name;
}

// Flat elements of a flat parameter that a rank names, and where they lie in the buffer that holds
// `kept`.
struct Run {
  core::Elements first;
  core::Elements count;
  core::Elements at;  // from the start of the kept buffer
};
Run run_of(const zero::FlatParam& flat_param, const zero::Range& kept, Part part) {
  if (part == Part::kKept) return {kept.first, kept.count, core::Elements(0)};
  return {flat_param.owned.first, flat_param.owned.count, flat_param.owned.first - kept.first};
}

// Of what is owned, every tensor-parallel rank writes what it is the first holder of.
core::Repeats repeats_of(Part part) {
  return part == Part::kKept ? core::Repeats::kCut : core::Repeats::kLeaveOut;
}

bool takes_part(const zero::FlatParam& flat_param, Part part) {
  return part == Part::kKept ? flat_param.alias < 0 : !flat_param.tied_end;
}

std::shared_ptr<core::TensorSource> numbers_in(const RankState& state, void* data, DType element) {
  return core::in_memory_of(state.crossing.get(), data, element);
}
// Of the optimizer, which may keep it in the host's memory.
std::shared_ptr<core::TensorSource> state_in(RankState& state, int flat_param, float* data) {
  if (!state.layout.at(flat_param).on_host) return numbers_in(state, data, DType::kF32);
  state.on_host->finish();
  return core::in_memory(data);
}

// Part of an array that sleeps, or of one in memory.
std::vector<core::TensorSlice> named(const zero::FlatParam& at, const Run& run, Part part,
                                     const std::shared_ptr<core::TensorSource>& numbers) {
  return core::cut_slices(*at.table, run.first, run.count, numbers, run.at, repeats_of(part));
}

// Of what sleeps: through `held`, as it is now; null: while nothing changes it.
std::shared_ptr<core::TensorSource> asleep_in(zero::SleepingState& sleeping,
                                              const zero::Sleeper& array, offload::PartRoom* held) {
  return held == nullptr ? sleeping.numbers(array.role, array.flat_param, array.moment)
                         : sleeping.held(array.role, array.flat_param, array.moment, *held);
}

// Moment `index` of everything that this rank keeps.
std::vector<core::TensorSlice> moment_slices(RankState& state, int flat_param, int index, Part part,
                                             offload::PartRoom* held) {
  const zero::FlatParam& at = state.layout.at(flat_param);
  const Run run = run_of(at, at.optimizer, part);
  if (state.layout.sleeps(zero::Role::kMoment)) {
    return offload::in_parts(named(
        at, run, part, asleep_in(*state.sleeping, {zero::Role::kMoment, flat_param, index}, held)));
  }
  return named(at, run, part, state_in(state, flat_param, state.optimizer.kept(flat_param, index)));
}

// Trained or not, asleep or not.
std::shared_ptr<core::TensorSource> weights_in(RankState& state, int flat_param,
                                               offload::PartRoom* held) {
  const zero::Layout& layout = state.layout;
  if (layout.has_master(flat_param)) {
    if (layout.sleeps(zero::Role::kMaster)) {
      return asleep_in(*state.sleeping, {zero::Role::kMaster, flat_param}, held);
    }
    return state_in(state, flat_param, state.optimizer.master(flat_param));
  }
  const int home = layout.home_of(flat_param);
  if (layout.at(home).sleeps) {
    return asleep_in(*state.params.asleep(), {zero::Role::kParams, home}, held);
  }
  void* const kept = state.params.kept(flat_param);
  if (layout.at(home).params_on_host) return core::in_memory_of(nullptr, kept, layout.element);
  return numbers_in(state, kept, layout.element);
}

std::vector<core::TensorSlice> weight_slices(RankState& state, int flat_param, Part part,
                                             offload::PartRoom* held = nullptr) {
  const zero::FlatParam& at = state.layout.at(flat_param);
  const bool master = state.layout.has_master(flat_param);
  const Run run = run_of(at, master ? at.optimizer : at.params, part);
  std::vector<core::TensorSlice> slices = named(at, run, part, weights_in(state, flat_param, held));
  const bool sleeps = master ? state.layout.sleeps(zero::Role::kMaster) : at.sleeps;
  return sleeps ? offload::in_parts(slices) : slices;
}

// File index of a flat parameter: the tied end is stored with the embedding, tiles with their end.
int file_unit(const RankState& state, const zero::FlatParam& flat_param) {
  if (flat_param.tied_end) return 0;
  const pipeline::Placement& units = state.plan.units();
  return units.is_tile(flat_param.unit) ? units.end_of(flat_param.unit) : flat_param.unit;
}

// Where no stored name has the prefix, the part without the head was saved.
void add_base_prefix(const std::string& prefix, const std::set<std::string>& known,
                     checkpoint::HfFolder& folder) {
  const std::vector<std::string> stored = folder.names();
  if (std::ranges::any_of(stored, [&](const auto& name) { return name.starts_with(prefix); })) {
    return;
  }
  for (const std::string& name : stored) {
    if (known.contains(prefix + name)) folder.rename(name, prefix + name);
  }
}

// Gives tensors of a larger model the names of the tables.
void rename_stored(const model::TensorNames& names, checkpoint::HfFolder& folder) {
  for (const std::string& stored : folder.names()) {
    const std::string name = meant_by(names, stored);
    if (name != stored) folder.rename(stored, name);
  }
}

bool is_derived(const model::TensorNames& names, const std::string& stored) {
  return std::ranges::any_of(names.derived_suffixes,
                             [&](const auto& suffix) { return stored.ends_with(suffix); });
}

bool is_copy(const model::TensorNames& names, const checkpoint::HfFolder& folder,
             const std::string& stored) {
  return std::ranges::any_of(names.copies, [&](const auto& copy) {
    return copy.first == stored && folder.same(stored, copy.second);
  });
}

void append(std::vector<FileSlice>& out, const std::string& file,
            std::vector<core::TensorSlice> slices) {
  for (core::TensorSlice& slice : slices) out.push_back({file, std::move(slice)});
}

}  // namespace

std::shared_ptr<core::TensorSource> weights_of(RankState& state, int flat_param) {
  return weights_in(state, flat_param, nullptr);
}

std::vector<core::TensorSlice> param_slices(RankState& state, Part part) {
  std::vector<core::TensorSlice> out;
  const zero::Layout& layout = state.layout;
  for (int flat_param = 0; flat_param < layout.count(); ++flat_param) {
    if (!takes_part(layout.at(flat_param), part)) continue;
    for (core::TensorSlice& slice : weight_slices(state, flat_param, part)) {
      out.push_back(std::move(slice));
    }
  }
  return out;
}

std::vector<core::TensorSlice> owned_slices(RankState& state, int flat_param) {
  return weight_slices(state, flat_param, Part::kOwned);
}

std::vector<core::TensorSlice> gradient_slices(RankState& state) {
  std::vector<core::TensorSlice> out;
  const zero::Layout& layout = state.layout;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    if (layout.at(flat_param).tied_end) continue;
    for (core::TensorSlice& slice :
         core::cut_slices(*layout.at(flat_param).table, layout.at(flat_param).owned.first,
                          layout.at(flat_param).owned.count,
                          numbers_in(state, state.grads.slice(flat_param).data(), DType::kF32),
                          core::Elements(0), core::Repeats::kLeaveOut)) {
      out.push_back(std::move(slice));
    }
  }
  return out;
}

std::vector<TensorSpec> trained_specs(const model::Model& model) {
  std::vector<TensorSpec> out;
  for (int unit = 0; unit < model.unit_count(); ++unit) append_trained(out, model, unit);
  return out;
}

std::vector<TensorSpec> tensor_specs(const model::Model& model) {
  std::vector<TensorSpec> out;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    append_trained(out, model, unit);
    if (model.frozen_table(unit) != nullptr) append(out, *model.frozen_table(unit));
  }
  return out;
}

std::vector<FileSpec> checkpoint_files(const model::Model& model,
                                       const optim::OptimizerOptions& optimizer) {
  std::vector<FileSpec> files;
  for (int unit = 0; unit < model.unit_count(); ++unit) {
    std::vector<TensorSpec> specs;
    append_trained(specs, model, unit);
    if (specs.empty()) continue;
    files.push_back({file_name("weights", unit), specs});
    for (const std::string& moment : optim::moments_of(optimizer)) {
      files.push_back({file_name(moment, unit), specs});
    }
  }
  return files;
}

std::vector<FileSlice> checkpoint_slices(RankState& state, const optim::OptimizerOptions& optimizer,
                                         Part part, offload::PartRoom* held) {
  std::vector<FileSlice> out;
  const std::vector<std::string> names = optim::moments_of(optimizer);
  const zero::Layout& layout = state.layout;
  for (int flat_param = 0; flat_param < layout.trained; ++flat_param) {
    const zero::FlatParam& at = layout.at(flat_param);
    if (!takes_part(at, part)) continue;
    append(out, file_name("weights", file_unit(state, at)),
           weight_slices(state, flat_param, part, held));
    for (int index = 0; index < state.optimizer.moments(); ++index) {
      append(out, file_name(names[static_cast<std::size_t>(index)], file_unit(state, at)),
             moment_slices(state, flat_param, index, part, held));
    }
  }
  return out;
}

void dump_gradients(const std::string& name, double loss_scale, RankState& state) {
  const std::string path = core::behind_links(name).string();
  const std::vector<FileSpec> files = {{path, trained_specs(state.model)}};
  const std::vector<checkpoint::SafetensorsPlan> plans = {checkpoint::plan_f32(files[0].tensors)};
  if (state.world.rank() == 0) {
    std::error_code ignored;  // what stays shows when the file is made
    std::filesystem::remove(path, ignored);
    auto file = core::WritableFile::create(path, plans[0].file_bytes);
    file.write_at(core::Bytes(0), std::as_bytes(std::span(plans[0].head)));
    file.sync_and_close();
  }
  state.world.barrier().finish();
  std::vector<FileSlice> mine;
  append(mine, path, gradient_slices(state));
  auto file = core::WritableFile::open(path);
  for (const checkpoint::SlicePlace& place : checkpoint::place_slices(files, plans, mine)) {
    const core::FetchedRow row(*place.slice, place.row, core::FetchedRow::Use::kRead);
    std::vector<float> gradients(row.floats().begin(), row.floats().end());
    for (float& gradient : gradients) gradient /= static_cast<float>(loss_scale);
    file.write_at(place.begin, std::as_bytes(std::span<const float>(gradients)));
  }
  file.sync_and_close();
  state.world.barrier().finish();
}

std::string meant_by(const model::TensorNames& names, const std::string& stored) {
  for (const auto& [prefix, meant] : names.stored_prefixes) {
    if (stored.starts_with(meant)) return stored;
  }
  for (const auto& [prefix, meant] : names.stored_prefixes) {
    if (stored.starts_with(prefix)) return meant + stored.substr(prefix.size());
  }
  return stored;
}

std::string stored_as(const model::TensorNames& names, const std::string& name) {
  for (const auto& [prefix, meant] : names.stored_prefixes) {
    if (name.starts_with(meant)) return prefix + name.substr(meant.size());
  }
  return name;
}

bool is_carried(const model::TensorNames& names, const std::string& name) {
  return std::ranges::any_of(names.carried,
                             [&](const auto& prefix) { return name.starts_with(prefix); });
}

void match_tensors(const model::OpenedModel& opened, checkpoint::HfFolder& folder,
                   const std::filesystem::path& path) {
  const model::TensorNames& names = opened.facts.names;
  std::set<std::string> known;
  for (const checkpoint::TensorSpec& spec : tensor_specs(opened.model)) known.insert(spec.name);
  rename_stored(names, folder);
  add_base_prefix(names.base_prefix, known, folder);
  for (const auto& [stored, meant] : names.copies) folder.stand_in(stored, meant);
  std::vector<std::string> unused;
  for (const std::string& name : folder.names()) {
    const bool has_place = known.contains(name) || is_carried(names, name) ||
                           is_derived(names, name) || is_copy(names, folder, name);
    if (!has_place) unused.push_back(name);
  }
  FM_DATA_CHECK(unused.empty(), path.string(),
                ": every tensor must have a place in the model of config.json; correct the config "
                "(num_hidden_layers, tie_word_embeddings, biases) or remove the tensor (",
                unused.size(), " without a place, the first is ", unused.front(), ")");
}

}  // namespace fm::engine
