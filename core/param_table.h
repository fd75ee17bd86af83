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

struct ParamEntry {
  std::string name;                 // Hugging Face name, e.g. model.layers.0.mlp.up_proj.weight
  std::vector<std::int64_t> shape;  // global shape
  ParamKind kind = ParamKind::kMatrix;
  Elements offset{};  // from the start of the unit's flat buffer; a multiple of 16 (64 bytes)
  Elements numel{};
};

// Invariant: decayed entries come first, offsets ascend, gaps hold zeros for ever.
class ParamTable {
 public:
  ParamTable() = default;
  // Entries need name, shape and kind; offsets are assigned here, decayed ones first,
  // otherwise in the order given.
  ParamTable(std::vector<ParamEntry> entries, const NoDecay& no_decay);

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

// A contiguous run of one named tensor: elements [first, first + count) of its
// row-major flattening. What checkpoints are made of.
struct TensorSlice {
  std::string name;
  std::vector<std::int64_t> shape;  // global
  Elements first;
  float* data = nullptr;
  Elements count;
};

// The named tensors inside flat elements [first, first + count) of a table; base points at `first`.
// Gaps and padding belong to no tensor.
std::vector<TensorSlice> cut_slices(const ParamTable& table, Elements first, Elements count,
                                    float* base);

}  // namespace fm::core
