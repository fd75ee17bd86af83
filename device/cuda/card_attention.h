// Attention of a CUDA device by a library where it can, else by our own kernels.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "device/cuda/attention_pieces.h"
#include "kernels/cuda/stream.h"
#include "kernels/variants/table.h"

namespace fm::device::cuda {

// Of the device, at the piece's first row and head (kernels/attention/attention.h). Forward reads
// q, k, v and writes out and sums; backward reads these and dout and writes dq, dk, dv. A `sum` is
// the natural logarithm of the sum of e^(scaled score) over a query's keys.
struct PieceArrays {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* sums = nullptr;
  const void* dout = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

// cuDNN, or what stands in for it in tests.
//
// Thread:   the rank's.
// Lifetime: ends before its device's context does.
class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  virtual std::string name() const = 0;  // "cuDNN 9.19.0"
  // The work space of a piece that it can do; nothing: it cannot, for a reason that it keeps.
  virtual std::optional<core::Bytes> prepare(const AttentionPiece& piece) = 0;
  virtual std::string reason() const = 0;
  // A prepared one, on a cudaStream_t. MachineError (27) where it cannot be queued.
  virtual void run(void* stream, const AttentionPiece& piece, const PieceArrays& arrays,
                   void* workspace) = 0;
};

struct AttentionOptions {
  int architecture = 0;  // 90 for 9.0
  kernels::cuda::Workspace workspace = {};
  bool repeatable = true;  // backward adds in one order
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

// Whether the library does a call follows from its shape and element type alone, so that forward
// and backward agree, and so do ranks with the same card and libraries. Where it does, logsumexp
// holds its `sums`, which our own kernels cannot read.
//
// Thread:   the rank's.
// Lifetime: as the library.
class CardAttention {
 public:
  CardAttention(std::unique_ptr<AttentionLibrary> library, AttentionOptions options);

  // False: the caller must use our own kernels. Rows of 16 bytes are required of all arrays, which
  // an Arena gives (BugError).
  template <class T>
  bool forward(void* stream, const kernels::AttentionShape& shape,
               const kernels::AttentionForward<T>& arrays);
  template <class T>
  bool backward(void* stream, const kernels::AttentionShape& shape,
                const kernels::AttentionBackward<T>& arrays);

  std::string library() const { return library_->name(); }

 private:
  // The pieces of a shape, prepared at its first call.
  const AttentionPieces* pieces(const kernels::AttentionShape& shape, core::DType element);
  bool prepare(const AttentionPiece& piece);

  std::unique_ptr<AttentionLibrary> library_;
  AttentionOptions options_;
  std::map<AttentionPiece, std::optional<AttentionPieces>> prepared_;  // by the forward piece
};

// A core::Queue of a card is one, and a kernels::cuda::Stream.
//
// Thread:   as core::Queue.
// Lifetime: as core::Queue.
class Attends {
 public:
  virtual ~Attends() = default;
  virtual CardAttention* attention() const = 0;  // null: there is no library
};

// attention_forward and attention_backward of 16-bit types, for such queues; our own kernels do
// what the library does not.
void fill_attention(kernels::DeviceKernels& table);

}  // namespace fm::device::cuda
