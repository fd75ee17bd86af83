#include "engine/state/persistence.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "checkpoint/find_checkpoint.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/load_checkpoint.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/files/output_file.h"
#include "core/finite.h"
#include "core/json_edit.h"
#include "core/philox.h"
#include "engine/plan/export_dtype.h"
#include "engine/plan/part_start.h"
#include "engine/plan/run_tokens.h"
#include "engine/state/adapters.h"
#include "engine/step/tensors.h"
#include "model/units/lora.h"

namespace fm::engine {
namespace {

void round_sleeping_master(RankState& state, int flat_param) {
  const zero::AwakeForAWhile awake(state.sleeping.get(), flat_param);
  zero::SleepingState* const params = state.params.asleep();
  if (params != nullptr) {
    params->fetch(flat_param);
    params->wake(flat_param);
  }
  if (state.layout.at(flat_param).on_host) {
    state.on_host->refresh(flat_param, state.params);
  } else {
    state.optimizer.round_master(state.work, flat_param, state.params);
  }
  if (params != nullptr) params->store(flat_param);
}

// Parameters follow from the masters that were filled, on every rank that reads them.
void publish_masters(RankState& state) {
  for (int flat_param = 0; flat_param < state.layout.trained; ++flat_param) {
    if (state.layout.at(flat_param).alias >= 0 || !state.layout.has_master(flat_param)) continue;
    round_sleeping_master(state, flat_param);
    if (state.layout.plan.publishes()) state.params.publish(flat_param).wait(state.work);
  }
  if (state.params.asleep() == nullptr) return;
  state.params.asleep()->settle();
  state.params.asleep()->accept();
}

void fill_from_folder(const std::filesystem::path& path, const model::OpenedModel& opened,
                      RankState& state) {
  checkpoint::HfFolder folder(path);
  match_tensors(opened, folder, path);
  for (const std::string& name : opened.facts.vocab_tensors) {
    folder.grow(name, opened.facts.stored_vocab, opened.model.vocab);
  }
  // Each rank reads other numbers, and all must end when some of them are wrong.
  const std::string problem = comm::first_problem(
      state.world, comm::attempt([&] {
        for (const core::TensorSlice& slice : param_slices(state, Part::kKept)) {
          if (!model::is_adapter(slice.name)) folder.read(slice);
        }
      }));
  FM_DATA_CHECK(problem.empty(), problem);
}

// A sum over elements, so that slices of a tensor add up to the whole.
std::uint64_t hash_of(const core::TensorSlice& slice) {
  const std::uint64_t key = core::stream_key(0, slice.name);
  std::uint64_t sum = 0;
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kRead);
    auto element = static_cast<std::uint64_t>(slice.first_of(row).count());
    for (const float value : fetched.floats()) {
      std::uint64_t bits = key + (element << 32) + std::bit_cast<std::uint32_t>(value);
      bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;  // splitmix64
      bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
      sum += bits ^ (bits >> 31);
      ++element;
    }
  }
  return sum;
}

std::filesystem::path export_folder(const TrainOptions& options) {
  return std::filesystem::path(options.output_dir) / "hf";
}

// Before a step is spent on them.
void check_gradient_file(const TrainOptions& options) {
  if (options.dump_gradients.empty()) return;
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path path = fs::absolute(core::behind_links(options.dump_gradients));
  const fs::file_status there = fs::status(path, ignored);
  FM_USER_CHECK(
      fs::is_directory(path.parent_path()) && (fs::is_regular_file(there) || !fs::exists(there)),
      "--dump_gradients must name a regular file, which all ranks write, in a folder "
      "that is there; make the folder or choose another name (",
      options.dump_gradients, ")");
}

bool exports(const TrainOptions& options) {
  return options.saves && !options.dry_run && !options.eval_only && options.dump_gradients.empty();
}

// The export takes the place of an older one alone. Of rank 0.
void check_export_names(const TrainOptions& options) {
  if (!exports(options)) return;
  checkpoint::check_export_folder(export_folder(options));
  if (options.lora.r > 0) checkpoint::check_export_folder(adapter_folder(options));
}

void check_export_target(const TrainOptions& options) {
  const auto resolved = [](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(path / "").parent_path();
  };
  const auto check = [&](const std::string& start, const std::filesystem::path& target) {
    FM_USER_CHECK(start.empty() || !exports(options) || resolved(start) != resolved(target),
                  "the model to start from must not be the folder that this run exports to; use "
                  "another --output_dir, or move the model (init_ckpt=",
                  start, ", output_dir=", options.output_dir, ")");
  };
  check(options.init_ckpt, export_folder(options));
  check(options.lora.start, adapter_folder(options));
}

// Only now is it known which checkpoint is loadable.
void say_what_was_passed(const checkpoint::FoundCheckpoint& found, std::int64_t newest) {
  for (const std::string& note : found.notes) std::fprintf(stderr, "fmengine: %s\n", note.c_str());
  if (newest == found.step) return;
  std::fprintf(stderr, "fmengine: resuming from step %lld, %lld steps are lost\n",
               static_cast<long long>(found.step), static_cast<long long>(newest - found.step));
}

// "nan at element 7 of name", "" where all is finite.
std::string non_finite_in(const core::TensorSlice& slice) {
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kRead);
    const auto at = core::first_non_finite(fetched.floats());
    if (!at) continue;
    const std::int64_t element = slice.first_of(row).count() + static_cast<std::int64_t>(*at);
    return core::concat(fetched.floats()[*at], " at element ", element, " of ", slice.name);
  }
  return "";
}

// Calls init(first element, numbers to write) for parts of a row by the rank's threads; a long row
// is in the host's memory in pieces.
template <class Init>
void fill_row(const core::TensorSlice& slice, std::int64_t row, int threads, const Init& init) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 24;
  constexpr std::int64_t kPart = std::int64_t{1} << 18;
  const std::int64_t columns = slice.columns.count();
  for (std::int64_t begin = 0; begin < columns; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, columns - begin);
    const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kFill, core::Elements(begin),
                                   core::Elements(count));
    const std::span<float> floats = fetched.floats();
    const core::Elements first = slice.first_of(row) + core::Elements(begin);
    const std::int64_t parts = core::ceil_div(count, kPart);
#pragma omp parallel for num_threads(threads) schedule(static) if (parts > 1)
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t at = part * kPart;
      init(first + core::Elements(at),
           floats.subspan(static_cast<std::size_t>(at),
                          static_cast<std::size_t>(std::min(kPart, count - at))));
    }
  }
}

enum class Moments : std::uint8_t { kRead, kLeaveOut };

// Collective.
void load(const checkpoint::FoundCheckpoint& found, const TrainOptions& options, Moments moments,
          RankState& state) {
  std::vector<checkpoint::FileSpec> files = checkpoint_files(state.model, options.optimizer);
  std::vector<checkpoint::FileSlice> slices =
      checkpoint_slices(state, options.optimizer, Part::kKept);
  if (moments == Moments::kLeaveOut) {
    const auto is_moment = [](const std::string& file) { return !file.starts_with("weights-"); };
    std::erase_if(files, [&](const auto& spec) { return is_moment(spec.file); });
    std::erase_if(slices, [&](const auto& slice) { return is_moment(slice.file); });
  }
  checkpoint::load_checkpoint(found, files, slices, state.world);
  publish_masters(state);
  state.world.barrier().finish();  // others read what this rank has loaded
}

}  // namespace

void fill_random(const TrainOptions& options, const model::OpenedModel& opened, RankState& state,
                 const std::function<bool(const std::string&)>& fills) {
  std::map<std::string, const core::ParamEntry*> entries;
  for (int unit = 0; unit < opened.model.table_count(); ++unit) {
    for (const core::ParamTable* table :
         {&opened.model.table(unit), opened.model.frozen_table(unit)}) {
      if (table == nullptr) continue;
      for (const core::ParamEntry& entry : table->entries()) entries[entry.name] = &entry;
    }
  }
  for (const core::TensorSlice& slice : param_slices(state, Part::kKept)) {
    if (fills && !fills(slice.name)) continue;
    const core::ParamEntry& entry = *entries.at(slice.name);
    const auto init = [&](core::Elements first, std::span<float> out) {
      opened.init(entry, options.seed, first, out);
    };
    for (std::int64_t row = 0; row < slice.rows; ++row)
      fill_row(slice, row, state.work.threads, init);
  }
}

void fill_state(const TrainOptions& options, const model::OpenedModel& opened, RankState& state) {
  const std::filesystem::path folder = weights_folder(options);
  FM_USER_CHECK(!folder.empty() || opened.facts.names.carried.empty(),
                "the part of text of a model of text and images begins with that model's weights, "
                "as an export needs the other parts; name the folder by --init_ckpt (model_config=",
                options.model_config, ")");
  if (folder.empty()) {
    fill_random(options, opened, state);
  } else {
    fill_from_folder(folder, opened, state);
  }
  fill_adapters(options, opened, state);
  publish_masters(state);
  state.world.barrier().finish();  // others read what this rank has filled
}

std::string fingerprint_of_frozen(RankState& state) {
  std::uint64_t mine = 0;
  for (int flat_param = state.layout.trained; flat_param < state.layout.count(); ++flat_param) {
    if (state.layout.at(flat_param).tied_end) continue;
    for (const core::TensorSlice& slice : owned_slices(state, flat_param)) mine += hash_of(slice);
  }
  std::uint64_t sum = 0;
  for (const std::string& part : comm::gather_texts(state.world, std::to_string(mine))) {
    sum += std::stoull(part);
  }
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(sum));
  return digits;
}

void check_output_dir(const std::string& output_dir) {
  FM_USER_CHECK(!output_dir.empty(),
                "--output_dir must name a folder; give one, or leave it out for ./output");
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(output_dir, ignored);
  FM_USER_CHECK(!std::filesystem::exists(status) || std::filesystem::is_directory(status),
                "--output_dir must name a folder, not a file; choose another name (", output_dir,
                ")");
}

std::optional<ProgressState> resume_state(const TrainOptions& options, RankState& state) {
  check_export_target(options);
  if (state.world.rank() == 0) check_export_names(options);
  check_gradient_file(options);
  std::int64_t newest = 0;
  while (const auto found = checkpoint::find_checkpoint(options.output_dir, options.resume,
                                                        options.resume_path, state.world)) {
    newest = std::max(newest, found->newest);
    try {
      load(*found, options, options.eval_only ? Moments::kLeaveOut : Moments::kRead, state);
    } catch (const checkpoint::DamagedCheckpoint& damage) {  // on all ranks alike
      const bool changes_nothing = options.dry_run || options.eval_only;
      if (options.resume == checkpoint::Resume::kPath || changes_nothing) throw;
      if (state.world.rank() == 0) std::fprintf(stderr, "fmengine: %s\n", damage.what());
      checkpoint::quarantine_checkpoint(*found, state.world);
      continue;
    }
    if (state.world.rank() == 0) say_what_was_passed(*found, newest);
    state.lineage = checkpoint::lineage_of_start(options.output_dir, options.resume, &*found,
                                                 state.world, options.jobs);
    state.save_ms = found->save_ms;
    return progress_from_json(found->state_json);
  }
  state.lineage = checkpoint::lineage_of_start(options.output_dir, options.resume, nullptr,
                                               state.world, options.jobs);
  return std::nullopt;
}

std::string load_best(const TrainOptions& options, std::int64_t step, std::int64_t last,
                      RankState& state) {
  const auto load_step = [&](std::int64_t number) {
    const std::string path = options.output_dir + "/" + checkpoint::tag_of_step(number);
    const auto found = checkpoint::find_checkpoint(options.output_dir, checkpoint::Resume::kPath,
                                                   path, state.world);
    FM_CHECK(found, "a path names a checkpoint, or finding it throws");
    load(*found, options, Moments::kRead, state);
  };
  std::error_code ignored;
  const std::string best = options.output_dir + "/" + checkpoint::tag_of_step(step);
  const bool missing = state.world.rank() == 0 && !std::filesystem::exists(best, ignored);
  if (!comm::first_problem(state.world, missing ? best : "").empty()) {
    return "its checkpoint is not in " + options.output_dir;
  }
  try {
    load_step(step);
    return "";
  } catch (const core::MachineError& error) {  // on all ranks alike
    if (error.code() != core::ExitCode::kNoCheckpoint) throw;
    const std::string problem =
        core::concat("its checkpoint cannot be loaded (", error.what(), ")");
    load_step(last);  // the state may be filled in part
    return problem;
  }
}

void load_weights(const checkpoint::FoundCheckpoint& found, const TrainOptions& options,
                  RankState& state) {
  load(found, options, Moments::kLeaveOut, state);
}

std::string non_finite_in(const std::vector<checkpoint::FileSlice>& slices) {
  for (const auto& [file, slice] : slices) {
    const std::string found = non_finite_in(slice);
    if (!found.empty()) return core::concat(found, " for ", file);
  }
  return "";
}

void check_finite(comm::Communicator& world, const std::string& mine, const std::string& way_back) {
  const std::string found = comm::first_problem(world, mine);
  FM_MACHINE_CHECK(found.empty(), core::ExitCode::kNumericLimit, not_finite_text(found, way_back));
}

std::string not_finite_text(const std::string& broken, const std::string& way_back) {
  return core::concat("what is saved must be finite; ", way_back, " and a lower learning rate (",
                      broken, ")");
}

checkpoint::SaveRequest save_request(const TrainOptions& options, RankState& state,
                                     const ProgressState& progress,
                                     std::vector<checkpoint::FileSlice> mine,
                                     std::vector<std::int64_t> spared) {
  return {.output_dir = options.output_dir,
          .step = progress.step,
          .files = checkpoint_files(state.model, options.optimizer),
          .mine = std::move(mine),
          .state_json = to_json(progress),
          .keep_last = options.keep_last,
          .spared = std::move(spared),
          .lineage = state.lineage,
          .fence = state.fence};
}

bool knows_tokenizer(const TrainOptions& options) {
  return reads_text(options) || !options.tokenizer.empty() ||
         (!options.init_ckpt.empty() && checkpoint::has_tokenizer(options.init_ckpt));
}

namespace {

// Generation without generation_config.json, and vLLM, end where config.json says.
std::string config_with_eos(const TrainOptions& options, const std::string& config_json) {
  if (options.eos_token.empty()) return config_json;
  return core::with_member(config_json, "eos_token_id", std::to_string(tokens_of(options).eos));
}

}  // namespace

ExportFacts export_facts(const TrainOptions& options, const model::ModelFacts& facts) {
  const auto absolute = [](const std::string& path) {
    return path.empty() ? "" : std::filesystem::absolute(path).string();
  };
  return {.config_json = config_with_eos(options, facts.config_json),
          .tokenizer_from = tokenizer_home(options).string(),
          .byte_tokenizer = knows_tokenizer(options),
          .start = start_of_part(options),
          .chat_template = absolute(options.chat_template),
          .add_tokens = options.add_tokens,
          .eos_token = options.eos_token,
          .weights_from = options.pretrain ? "" : absolute(options.init_ckpt),
          .stored_prefixes = facts.names.stored_prefixes,
          .carried = facts.names.carried};
}

void put_tokenizer(const ExportFacts& about, checkpoint::ExportRequest& request) {
  request.tokenizer_from = about.tokenizer_from;
  if (!about.tokenizer_from.empty()) {
    request.tokenizer_texts = read_tokens({.folder = about.tokenizer_from,
                                           .chat_template = about.chat_template,
                                           .add_tokens = about.add_tokens,
                                           .eos_token = about.eos_token,
                                           .weights = about.weights_from})
                                  .texts;
  }
  request.byte_tokenizer = about.byte_tokenizer;
  request.chat_template = about.chat_template;
}

void put_in_whole(const ExportFacts& about, checkpoint::ExportRequest& request) {
  if (about.carried.empty()) return;
  FM_USER_CHECK(std::filesystem::exists(about.weights_from),
                "an export takes what was not trained from the folder that the run began with; put "
                "it back (",
                about.weights_from, " is gone)");
  const model::TensorNames names{.stored_prefixes = about.stored_prefixes,
                                 .carried = about.carried};
  for (auto& tensor : request.tensors) tensor.name = stored_as(names, tensor.name);
  for (auto& slice : request.mine) slice.name = stored_as(names, slice.name);
  const checkpoint::HfFolder source(about.weights_from);
  for (const std::string& stored : source.names()) {
    const std::string name = meant_by(names, stored);
    if (is_carried(names, name)) request.carried.push_back({stored, stored_as(names, name)});
  }
  request.carried_from = about.weights_from;
}

ExportTarget export_target(const TrainOptions& options, const model::ModelFacts& facts) {
  return {.hf = export_folder(options),
          .adapter = adapter_folder(options),
          .about = export_facts(options, facts),
          .dtype = export_dtype_of(options, facts)};
}

void export_model(const TrainOptions& options, const model::ModelFacts& facts, RankState& state,
                  const ExportTarget& target) {
  // What is exported is in a checkpoint, and was looked at when that was written. Another look is
  // cheap in memory; what sleeps on a disk would be read twice.
  if (!state.plan.state.rules.tiers.has(core::Tier::kNvme)) {
    check_finite(state.world,
                 non_finite_in(checkpoint_slices(state, options.optimizer, Part::kOwned)),
                 "go back to an older checkpoint by --resume");
  }
  checkpoint::ExportRequest request;
  request.folder = target.hf;
  request.config_json = target.about.config_json;
  request.dtype = target.dtype;
  request.stop = target.stop;
  request.tensors = tensor_specs(state.model);
  std::erase_if(request.tensors, [](const auto& spec) { return model::is_adapter(spec.name); });
  request.mine = options.lora.r > 0 ? merged_slices(options.lora, facts, state)
                                    : param_slices(state, Part::kOwned);
  request.shards_like = target.about.weights_from;
  request.fence = state.fence;
  put_tokenizer(target.about, request);
  put_in_whole(target.about, request);
  checkpoint::export_hf_folder(request, state.world);
  if (options.lora.r > 0) export_adapter(options, facts, state, target);
}

}  // namespace fm::engine
