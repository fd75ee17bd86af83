// The parameters of one unit and their place in its flat buffer.
#pragma once

#include <string>
#include <vector>

#include "core/types.h"

namespace fm::core {

enum class ParamKind : std::uint8_t { kMatrix, kEmbedding, kNorm, kBias };

// Which kinds have no weight decay: of DeepSpeed none, of the Trainer norms and biases.
struct NoDecay {
  bool norm = false;
  bool bias = false;
  bool embedding = false;  // token embedding and language-model head
};

// One of `count` tensor-parallel ranks.
struct Share {
  int index = 0;
  int count = 1;
};

// Indices [first, first + count) of one dim of a tensor. `holder`: this rank's number among those
// that have them; the first one saves them and counts them in the norm.
struct IndexRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  Share holder = {};
};

// What a rank has of `size` indices that are cut as evenly as can be; the first ranks have the
// larger parts.
IndexRange even_part(std::int64_t size, Share share);

struct ParamEntry {
  std::string name;                 // Hugging Face name, e.g. model.layers.0.mlp.up_proj.weight
  std::vector<std::int64_t> shape;  // global shape
  ParamKind kind = ParamKind::kMatrix;
  Elements offset{};   // from the start of the unit's flat buffer; a multiple of 16 (64 bytes)
  Elements numel{};    // of this rank's part
  int split_dim = -1;  // that tensor-parallel ranks cut; -1: each has the whole
  // What this rank has of that dim (of the first one where nothing is cut), one behind the other.
  // None are given: an even part.
  std::vector<IndexRange> parts = {};

  // A part is rows of consecutive elements, one behind the other here, `stride` apart in the
  // tensor. A row is all ranges of `parts`, `inner` elements of each index.
  Elements row() const;
  Elements stride() const;
  Elements inner() const;
};

// Elements of a flat buffer.
struct FlatRange {
  Elements first;
  Elements count;
};

// Invariant: decayed entries come first, offsets ascend, gaps hold zeros for ever.
class ParamTable {
 public:
  ParamTable() = default;
  // Entries need name, shape and kind; offsets are assigned here, decayed ones first,
  // otherwise in the order given. `share`: whose table it is.
  ParamTable(std::vector<ParamEntry> entries, const NoDecay& no_decay, Share share = {});

  const std::vector<ParamEntry>& entries() const { return entries_; }
  Elements elements() const { return elements_; }      // flat length, gaps included
  Elements decayed() const { return decayed_; }        // [0, decayed) get weight decay
  Elements parameters() const { return parameters_; }  // of the whole model: gaps excluded
  // What another tensor-parallel rank is the first holder of, ascending.
  std::vector<FlatRange> repeats() const;
  const ParamEntry& at(std::size_t index) const { return entries_[index]; }
  const ParamEntry* find_at(Elements flat_offset) const;  // entry that covers it, or null (gap)

 private:
  std::vector<ParamEntry> entries_;
  Elements elements_;
  Elements decayed_;
  Elements parameters_;
};

}  // namespace fm::core
