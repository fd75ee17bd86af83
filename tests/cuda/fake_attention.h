// A library of attention that is this CPU's kernels: pieces are copied out of their arrays and
// back.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/card_attention.h"

namespace fm::device::cuda {

// Thread:   as AttentionLibrary.
// Lifetime: outlives what it has queued, unless tasks run at once.
class FakeAttention : public AttentionLibrary {
 public:
  // How a task is queued, and where a kernel sees memory.
  struct Place {
    std::function<void(void* stream, std::function<void()> task)> push =
        [](void*, const std::function<void()>& task) { task(); };
    std::function<const void*(void* stream, const void*)> see = [](void*, const void* at) {
      return at;
    };
  };
  FakeAttention() = default;
  explicit FakeAttention(Place place) : place_(std::move(place)) {}

  std::string name() const override { return "a fake library"; }
  std::optional<core::Bytes> prepare(const AttentionPiece& piece) override;
  std::string reason() const override { return "it is told to refuse"; }
  // BugError where the piece was not prepared.
  void run(void* stream, const AttentionPiece& piece, const PieceArrays& arrays,
           void* workspace) override;

  std::function<bool(const AttentionPiece&)> refuses = [](const AttentionPiece&) { return false; };
  core::Bytes wants = core::Bytes(0);  // of each piece, to work in
  std::vector<AttentionPiece> prepared;
  std::vector<AttentionPiece> ran;

 private:
  Place place_;
};

}  // namespace fm::device::cuda
