#include "pipeline/partition.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <regex>

#include "core/check.h"
#include "core/text.h"

namespace fm::pipeline {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
using Criterion = PartitionMethod::Criterion;

struct Named {
  std::string_view name;
  Criterion kind;
};
constexpr Named kNames[] = {{"cost", Criterion::kCost},
                            {"best", Criterion::kCost},
                            {"uniform", Criterion::kUniform},
                            {"parameters", Criterion::kParameters}};
constexpr std::string_view kType = "type:";

std::vector<int> read_layers(const std::string& words) {
  std::vector<int> layers;
  for (const std::string& word : core::split(words, ',')) {
    int count = -1;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, count);
    FM_USER_CHECK(error == std::errc() && stop == end && count >= 0,
                  "the partition method must be cost, uniform, parameters, type:REGEX, or the "
                  "layers of every chunk, as 3,2; choose one (",
                  words, ")");
    layers.push_back(count);
  }
  return layers;
}

// The type names of a unit that a pattern may match, as several projects call them.
std::span<const std::string_view> types_of(int unit, int count) {
  static constexpr std::string_view kEmbedding[] = {"Embedding", "EmbeddingPipe"};
  static constexpr std::string_view kBlock[] = {"Block", "TransformerLayer",
                                                "ParallelTransformerLayer", "DecoderLayer"};
  static constexpr std::string_view kHead[] = {"Head", "LMHead", "LMHeadPipe"};
  if (unit == 0) return kEmbedding;
  return unit == count - 1 ? std::span<const std::string_view>(kHead) : kBlock;
}

std::vector<double> weights_of_type(const std::string& pattern, int count) {
  std::regex regex;
  try {
    regex = std::regex(pattern, std::regex::icase);
  } catch (const std::regex_error&) {
    FM_USER_CHECK(false, "type: needs a regular expression; correct it (type:", pattern, ")");
  }
  std::vector<double> weights;
  for (int unit = 0; unit < count; ++unit) {
    const auto matches = [&](std::string_view type) {
      return std::regex_search(type.begin(), type.end(), regex);
    };
    weights.push_back(std::ranges::any_of(types_of(unit, count), matches) ? 1.0 : 0.0);
  }
  FM_USER_CHECK(std::ranges::max(weights) > 0.0,
                "type:REGEX must match a type of unit: Embedding, TransformerLayer (or Block, "
                "DecoderLayer) or LMHead; correct it (type:",
                pattern, ")");
  return weights;
}

std::vector<int> cuts_of_layers(const std::vector<int>& layers, int blocks, int parts) {
  const int sum = std::accumulate(layers.begin(), layers.end(), 0);
  FM_USER_CHECK(static_cast<int>(layers.size()) == parts && sum == blocks,
                "a list of layers must have one number for each chunk, and their sum must be the "
                "number of layers; correct it (",
                layers.size(), " numbers with the sum ", sum, "; chunks=", parts,
                ", num_hidden_layers=", blocks, ")");
  std::vector<int> cuts = {0};
  int next = 1;  // after the embedding
  for (const int count : layers) cuts.push_back(next += count);
  ++cuts.back();  // the head
  return cuts;
}

// The boundaries by cost, where the head stays with the last block.
std::vector<int> cuts_by_cost(std::vector<double> costs, int parts) {
  const double head = costs.back();
  costs.pop_back();
  costs.back() += head;
  std::vector<int> cuts = partition_by_cost(costs, parts);
  ++cuts.back();
  return cuts;
}

// The best partition from unit `first` on, by cost under a limit for each part.
struct Best {
  double cost = kInfinite;
  int cut = 0;
};

}  // namespace

PartitionMethod partition_named(const std::string& words) {
  const std::string word = core::lower(words);
  for (const Named& each : kNames) {
    if (word == each.name) return {each.kind};
  }
  if (word.starts_with(kType)) return {Criterion::kType, words.substr(kType.size())};
  return {Criterion::kLayers, "", read_layers(words)};
}

std::string name_of(const PartitionMethod& method) {
  if (method.kind == Criterion::kType) return std::string(kType) + method.pattern;
  for (const Named& each : kNames) {
    if (each.kind == method.kind) return std::string(each.name);
  }
  std::vector<std::string> counts;
  for (const int count : method.layers) counts.push_back(std::to_string(count));
  return core::join(counts, ",");
}

std::vector<int> partition_uniform(int items, int parts) {
  std::vector<int> cuts;
  for (int part = 0; part <= parts; ++part) {
    const bool few = items <= parts;
    cuts.push_back(few ? std::min(part, items)
                       : part * (items / parts) + std::min(part, items % parts));
  }
  return cuts;
}

std::vector<int> partition_balanced(std::span<const double> weights, int parts) {
  const auto items = weights.size();
  const auto most = static_cast<std::size_t>(parts);
  if (items <= most) return partition_uniform(static_cast<int>(items), parts);
  struct Cell {
    double heaviest = kInfinite, lightest = kInfinite, difference = kInfinite;
    std::size_t cut = 0;
  };
  std::vector<std::vector<Cell>> best(items + 1, std::vector<Cell>(most + 1));
  std::vector<double> sum(items + 1, 0.0);
  std::partial_sum(weights.begin(), weights.end(), sum.begin() + 1);
  best[0][0] = {0.0, kInfinite, 0.0};
  for (std::size_t end = 1; end <= items; ++end) {
    for (std::size_t part = 1; part <= std::min(end, most); ++part) {
      Cell& cell = best[end][part];
      for (std::size_t cut = 0; cut < end; ++cut) {
        const Cell& before = best[cut][part - 1];
        const double heaviest = std::max(before.heaviest, sum[end] - sum[cut]);
        const double lightest = std::min(before.lightest, sum[end] - sum[cut]);
        if (heaviest - lightest > cell.difference) continue;
        cell = {heaviest, lightest, heaviest - lightest, cut};
      }
    }
  }
  std::vector<int> cuts(most + 1, static_cast<int>(items));
  for (std::size_t part = most; part > 0; --part) {
    cuts[part - 1] = static_cast<int>(best[static_cast<std::size_t>(cuts[part])][part].cut);
  }
  return cuts;
}

std::vector<int> partition_by_cost(std::span<const double> costs, int parts) {
  const auto items = static_cast<int>(costs.size());
  if (items < parts) return {};
  std::vector<double> sum(costs.size() + 1, 0.0);
  std::partial_sum(costs.begin(), costs.end(), sum.begin() + 1);
  const double slack = 1e-9 * sum.back();
  std::vector<std::vector<Best>> best;  // by parts left, by first item
  // Combines the costs of parts by `join`; a part above `limit` costs infinity.
  const auto solve = [&](double limit, auto join, auto cost_of) {
    best.assign(static_cast<std::size_t>(parts) + 1,
                std::vector<Best>(static_cast<std::size_t>(items) + 1));
    best[0].back().cost = 0.0;
    for (int left = 1; left <= parts; ++left) {
      const auto& behind = best[static_cast<std::size_t>(left) - 1];
      for (int first = items - left; first >= 0; --first) {
        Best& here = best[static_cast<std::size_t>(left)][static_cast<std::size_t>(first)];
        for (int cut = first + 1; cut <= items - left + 1; ++cut) {
          const double part =
              sum[static_cast<std::size_t>(cut)] - sum[static_cast<std::size_t>(first)];
          if (part > limit) break;
          const double cost = join(cost_of(part), behind[static_cast<std::size_t>(cut)].cost);
          if (cost < kInfinite && cost <= here.cost * (1.0 + 1e-12)) here = {cost, cut};
        }
      }
    }
    return best.back().front().cost;
  };
  const double most = solve(
      kInfinite, [](double a, double b) { return std::max(a, b); },
      [](double part) { return part; });
  solve(
      most + slack, [](double a, double b) { return a + b; },
      [](double part) { return part * part; });
  std::vector<int> cuts = {0};
  for (int left = parts; left > 0; --left) {
    cuts.push_back(best[static_cast<std::size_t>(left)][static_cast<std::size_t>(cuts.back())].cut);
  }
  return cuts;
}

Placement split_units(const PartitionMethod& method, const UnitWeights& units,
                      const PipeShape& shape, bool tied) {
  const auto count = static_cast<int>(units.costs.size());
  const int parts = shape.chunk_count();
  const int blocks = count - 2;
  FM_USER_CHECK(shape.pipe_ranks >= 1 && blocks >= parts - 1 && count >= parts,
                "every chunk but the first needs at least one transformer block; use fewer pipe "
                "ranks or chunks per rank (pipe_parallel_size=",
                shape.pipe_ranks, ", num_hidden_layers=", blocks, ", chunks=", parts, ")");
  std::vector<int> cuts;
  switch (method.kind) {
    case Criterion::kCost: cuts = cuts_by_cost(units.costs, parts); break;
    case Criterion::kUniform: cuts = partition_uniform(count, parts); break;
    case Criterion::kParameters: cuts = partition_balanced(units.parameters, parts); break;
    case Criterion::kType:
      cuts = partition_balanced(weights_of_type(method.pattern, count), parts);
      break;
    case Criterion::kLayers: cuts = cuts_of_layers(method.layers, blocks, parts); break;
  }
  std::vector<Chunk> chunks;
  for (int chunk = 0; chunk < parts; ++chunk) {
    const auto at = static_cast<std::size_t>(chunk);
    const bool last = chunk == parts - 1;
    FM_USER_CHECK(cuts[at + 1] - cuts[at] >= (last && count > 2 ? 2 : 1),
                  "every chunk must hold a layer, the first one at least the embedding; choose "
                  "another --partition_method (chunk ",
                  chunk, " of ", parts, " has none)");
    chunks.push_back({{cuts[at], cuts[at + 1]}, shape.owner_of_chunk(chunk)});
  }
  Placement placement(std::move(chunks), shape.pipe_ranks);
  placement.tied = tied;
  return placement;
}

}  // namespace fm::pipeline
