// The parameters of one unit and their place in its flat buffer.
#pragma once

#include <string>
#include <vector>

#include "core/types.h"

namespace fm::core {

enum class ParamKind : std::uint8_t { kMatrix, kEmbedding, kNorm, kBias };

// Which kinds `--no_decay` exempts from weight decay; DeepSpeed (and we, by default) exempt none.
struct NoDecay {
  bool norm = false;
  bool bias = false;
  bool embedding = false;  // token embedding and language-model head
};

// The part that one of `count` tensor-parallel ranks has of what is split.
struct Share {
  int index = 0;
  int count = 1;
};

struct ParamEntry {
  std::string name;                 // Hugging Face name, e.g. model.layers.0.mlp.up_proj.weight
  std::vector<std::int64_t> shape;  // global shape
  ParamKind kind = ParamKind::kMatrix;
  Elements offset{};   // from the start of the unit's flat buffer; a multiple of 16 (64 bytes)
  Elements numel{};    // of this rank's part
  int split_dim = -1;  // that tensor-parallel ranks cut into equal parts; -1: each has the whole
  Share share = {};    // of the tensor that this table has

  // A part is rows of consecutive elements, one behind the other here, `stride` apart in the
  // tensor.
  Elements row() const;
  Elements stride() const;
};

// Invariant: decayed entries come first, offsets ascend, gaps hold zeros for ever.
class ParamTable {
 public:
  ParamTable() = default;
  // Entries need name, shape and kind; offsets are assigned here, decayed ones first,
  // otherwise in the order given.
  ParamTable(std::vector<ParamEntry> entries, const NoDecay& no_decay, Share share = {});

  const std::vector<ParamEntry>& entries() const { return entries_; }
  Elements elements() const { return elements_; }      // flat length, gaps included
  Elements decayed() const { return decayed_; }        // [0, decayed) get weight decay
  Elements parameters() const { return parameters_; }  // gaps excluded
  const ParamEntry& at(std::size_t index) const { return entries_[index]; }
  const ParamEntry* find_at(Elements flat_offset) const;  // entry that covers it, or null (gap)

 private:
  std::vector<ParamEntry> entries_;
  Elements elements_;
  Elements decayed_;
  Elements parameters_;
};

}  // namespace fm::core
