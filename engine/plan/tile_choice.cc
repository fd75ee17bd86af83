#include "engine/plan/tile_choice.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/shard_plan.h"
#include "optim/optimizer.h"

namespace fm::engine {
namespace {

bool may_sleep(const TrainOptions& options) {
  return options.offload.params == core::Tier::kNvme && options.zero_stage == 3 &&
         options.device.kind == DeviceKind::kCpu;
}

// Why the run cannot have tiles; "": it can.
std::string whole_because(const TrainOptions& options, const model::OpenedModel& opened) {
  const optim::OptimizerRow& rule = *options.optimizer.rule;
  const std::pair<bool, const char*> reasons[] = {
      {!may_sleep(options), "tiles are for parameters that sleep on NVMe under ZeRO 3"},
      {rule.by_tensor != nullptr || rule.by_matrix != nullptr,
       "the optimizer looks at a tensor as a whole"},
      {options.regather == core::Regather::kPhase, "\"regather\" keeps what a phase gathers"}};
  for (const auto& [holds, reason] : reasons) {
    if (holds) return reason;
  }
  return opened.facts.whole_because;
}

core::Elements largest_block(const model::Model& model) {
  core::Elements largest;
  for (int unit = 1; unit < model.head_unit(); ++unit) {
    largest = std::max(largest, model.table(unit).elements());
  }
  return largest;
}

core::Elements elements_of(const model::Model& model) {
  core::Elements all;
  for (int unit = 0; unit < model.unit_count(); ++unit) all += model.table(unit).elements();
  return all;
}

// Blocks of the norm begin where they do in the whole table: at the matrix, which its tiles follow,
// and at what comes behind it.
bool keeps_norm(const core::ParamTable& whole) {
  core::Elements end;
  bool before = false;
  for (const core::ParamEntry& entry : whole.entries()) {
    const bool matrix = entry.kind == core::ParamKind::kEmbedding && entry.split_dim == 0;
    const bool first_behind = end.count() > 0 && entry.offset >= end;
    if ((matrix || first_behind) && entry.offset.count() % core::kBlock.count() != 0) return false;
    if (first_behind && before) return false;
    if (matrix) {
      before = entry.offset.count() > 0;
      end = entry.offset + entry.numel;
    }
    if (first_behind) break;
  }
  return true;
}

}  // namespace

std::int64_t tile_rows_of(const TrainOptions& options, const model::OpenedModel& opened) {
  const model::Model& model = opened.model;
  const std::int64_t asked = options.offload.tile_rows;
  const std::string because = whole_because(options, opened);
  FM_USER_CHECK(asked % model::kTileStep == 0, "--tile_rows must be a multiple of ",
                model::kTileStep,
                ", so that sums over the vocabulary keep their bits; use such a number, or 0 "
                "(tile_rows=",
                asked, ")");
  if (options.device.kind == DeviceKind::kAuto) return 0;  // asked again where it is known
  FM_USER_CHECK(asked == 0 || because.empty(),
                "--tile_rows cuts the embedding's and the head's matrix, which must be whole in "
                "this run; leave it out (tile_rows=",
                asked, ": ", because, ")");
  if (!because.empty()) return 0;
  FM_USER_CHECK(asked == 0 || asked + model::kTileStep <= model.vocab,
                "--tile_rows must leave at least ", model::kTileStep,
                " rows to a second tile; use a smaller number, or 0 (tile_rows=", asked,
                ", vocabulary=", model.vocab, ")");
  if (asked > 0) return asked;
  const bool fits = elements_of(model).count() <= options.offload.params_in_host;
  if (fits || !keeps_norm(model.table(0)) || !keeps_norm(model.table(model.head_unit()))) return 0;
  const std::int64_t of_block = largest_block(model).count() / model.hidden;
  const std::int64_t rows =
      std::max<std::int64_t>(1, of_block / model::kTileStep) * model::kTileStep;
  return rows + model::kTileStep <= model.vocab && of_block < model.vocab ? rows : 0;
}

std::string tile_words(const TrainOptions& options, const model::OpenedModel& opened) {
  const model::Model& model = opened.model;
  if (!may_sleep(options)) return "";
  if (!model.tiles.empty()) {
    const int first = model.unit_count();
    const int of_head = first + model.tiles_at(model::Tile::Matrix::kEmbedding);
    return core::concat("the embedding's matrix is in tiles (units ", first, " to ", of_head - 1,
                        "), and so is the head's (", of_head, " to ", model.table_count() - 1,
                        "), of ", model.tile_rows, " rows");
  }
  if (model.vocab * model.hidden <= largest_block(model).count()) return "";
  const std::string because = whole_because(options, opened);
  return core::concat("embedding and head are whole in memory when they are used, ",
                      because.empty()
                          ? "where tiles would be small, cut blocks of the norm, or are not needed"
                          : "because " + because);
}

}  // namespace fm::engine
