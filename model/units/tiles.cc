#include "model/units/tiles.h"

#include <algorithm>

#include "core/check.h"

namespace fm::model {

std::vector<core::IndexRange> tile_ranges(std::int64_t rows, std::int64_t each) {
  FM_CHECK(each > 0 && each % kTileStep == 0, "tiles have a multiple of ", kTileStep, " rows, not ",
           each);
  std::vector<core::IndexRange> out;
  std::int64_t first = 0;
  for (; first + each + kTileStep <= rows; first += each) {
    out.push_back({.first = first, .count = each});
  }
  out.push_back({.first = first, .count = rows - first});
  return out;
}

std::string why_whole(const DecoderConfig& config, const ModelChoices& choices) {
  if (config.tied) return "the head uses the embedding's matrix";
  if (config.head_bias) return "the head has a bias";
  if (choices.share.count > 1) return "tensor-parallel ranks have parts of them";
  if (choices.lora.rank > 0 || choices.trains) return "not all parameters are trained";
  return "";
}

std::vector<Tile> make_tiles(const DecoderConfig& config, const ModelChoices& choices) {
  std::vector<Tile> out;
  if (choices.tile_rows == 0) return out;
  const std::string whole = why_whole(config, choices);
  FM_CHECK(whole.empty(), "no tiles are made where ", whole);
  const auto add = [&](Tile::Matrix end, const std::string& name) {
    for (const core::IndexRange& rows : tile_ranges(config.vocab, choices.tile_rows)) {
      core::ParamEntry entry{.name = name,
                             .shape = {config.vocab, config.hidden},
                             .kind = core::ParamKind::kEmbedding,
                             .split_dim = 0,
                             .parts = {rows}};
      out.push_back({end, rows, core::ParamTable({std::move(entry)}, choices.no_decay)});
    }
  };
  add(Tile::Matrix::kEmbedding, config.names.base + config.names.embedding + ".weight");
  add(Tile::Matrix::kHead, config.names.head + ".weight");
  return out;
}

}  // namespace fm::model
