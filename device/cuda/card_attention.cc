#include "device/cuda/card_attention.h"

#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/check.h"
#include "core/element.h"
#include "core/text.h"
#include "kernels/cuda/table.h"

namespace fm::device::cuda {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionForward;
using kernels::AttentionShape;

template <class... Arrays>
void check_aligned(const Arrays*... arrays) {
  constexpr std::uintptr_t kRow = 16;
  const bool all = ((reinterpret_cast<std::uintptr_t>(arrays) % kRow == 0) && ...);
  FM_CHECK(all, "attention by a library: arrays begin at multiples of 16 bytes");
}

// Numbers before a piece's first one.
struct PieceStart {
  std::int64_t q;
  std::int64_t k;
  std::int64_t sums;
};
PieceStart start_of(const AttentionPiece& piece, std::int64_t row, std::int64_t kv_head) {
  const std::int64_t head = kv_head * (piece.heads / piece.kv_heads);
  return {.q = (row * piece.tokens * piece.all_heads + head) * piece.head_dim,
          .k = (row * piece.tokens * piece.all_kv_heads + kv_head) * piece.head_dim,
          .sums = (row * piece.all_heads + head) * piece.tokens};
}

}  // namespace

CardAttention::CardAttention(std::unique_ptr<AttentionLibrary> library, AttentionOptions options)
    : library_(std::move(library)), options_(std::move(options)) {}

bool CardAttention::prepare(const AttentionPiece& piece) {
  const std::optional<core::Bytes> wanted = library_->prepare(piece);
  const auto tell = [&](const std::string& reason) {
    options_.warn(core::concat(library_->name(), " does not do attention of ", piece.tokens,
                               " tokens, ", piece.heads, " heads of ", piece.head_dim,
                               piece.backward ? ", backward" : ", forward", " (", reason,
                               "); our own kernels do, at about half the speed"));
  };
  if (!wanted) tell(library_->reason());
  if (!wanted) return false;
  if (*wanted <= options_.workspace.bytes) return true;
  tell(core::concat("it wants ", core::human(*wanted), " to work in, of ",
                    core::human(options_.workspace.bytes)));
  return false;
}

const AttentionPieces* CardAttention::pieces(const AttentionShape& shape, core::DType element) {
  std::optional<AttentionPieces> found = attention_pieces(
      shape, element, options_.repeatable, options_.architecture, options_.workspace.bytes);
  if (!found) return nullptr;
  auto known = prepared_.find(found->forward);
  if (known == prepared_.end()) {
    const AttentionPiece key = found->forward;
    if (!prepare(found->forward) || !prepare(found->backward)) found.reset();
    known = prepared_.emplace(key, found).first;
  }
  return known->second ? &*known->second : nullptr;
}

template <class T>
bool CardAttention::forward(void* stream, const AttentionShape& shape,
                            const AttentionForward<T>& arrays) {
  const AttentionPieces* const all = pieces(shape, core::kDTypeOf<T>);
  if (all == nullptr) return false;
  check_aligned(arrays.q, arrays.k, arrays.v, arrays.out);
  library_->run(
      stream, all->forward,
      {.q = arrays.q, .k = arrays.k, .v = arrays.v, .out = arrays.out, .sums = arrays.logsumexp},
      options_.workspace.data);
  return true;
}

template <class T>
bool CardAttention::backward(void* stream, const AttentionShape& shape,
                             const AttentionBackward<T>& arrays) {
  const AttentionPieces* const all = pieces(shape, core::kDTypeOf<T>);
  if (all == nullptr) return false;
  check_aligned(arrays.q, arrays.k, arrays.v, arrays.out, arrays.dout, arrays.dq, arrays.dk,
                arrays.dv);
  const AttentionPiece& piece = all->backward;
  for (std::int64_t row = 0; row < shape.batch.batch; row += piece.rows) {
    for (std::int64_t head = 0; head < shape.kv_heads; head += piece.kv_heads) {
      const PieceStart at = start_of(piece, row, head);
      library_->run(stream, piece,
                    {.q = arrays.q + at.q,
                     .k = arrays.k + at.k,
                     .v = arrays.v + at.k,
                     .out = const_cast<T*>(arrays.out) + at.q,
                     .sums = const_cast<float*>(arrays.logsumexp) + at.sums,
                     .dout = arrays.dout + at.q,
                     .dq = arrays.dq + at.q,
                     .dk = arrays.dk + at.k,
                     .dv = arrays.dv + at.k},
                    options_.workspace.data);
    }
  }
  return true;
}

namespace {

CardAttention* attention_of(const core::Work& work) {
  return dynamic_cast<const Attends&>(*work.queue).attention();
}

template <class T>
const kernels::DeviceProducts<T>& own() {
  const kernels::DeviceProductTable& products = kernels::cuda::own_kernels().products;
  if constexpr (std::is_same_v<T, core::Bf16>) return products.bf16;
  if constexpr (std::is_same_v<T, core::F16>) return products.fp16;
}

template <class T>
void forward(core::Work& work, const AttentionShape& shape, const AttentionForward<T>& arrays) {
  const auto& stream = dynamic_cast<const kernels::cuda::Stream&>(*work.queue);
  CardAttention* const card = attention_of(work);
  if (card != nullptr && card->forward(stream.handle(), shape, arrays)) {
    return stream.check_start("attention_forward, by cuDNN");
  }
  own<T>().attention_forward(work, shape, arrays);
}

template <class T>
void backward(core::Work& work, const AttentionShape& shape, const AttentionBackward<T>& arrays) {
  const auto& stream = dynamic_cast<const kernels::cuda::Stream&>(*work.queue);
  CardAttention* const card = attention_of(work);
  if (card != nullptr && card->backward(stream.handle(), shape, arrays)) {
    return stream.check_start("attention_backward, by cuDNN");
  }
  own<T>().attention_backward(work, shape, arrays);
}

}  // namespace

void fill_attention(kernels::DeviceKernels& table) {
  table.products.bf16.attention_forward = forward<core::Bf16>;
  table.products.bf16.attention_backward = backward<core::Bf16>;
  table.products.fp16.attention_forward = forward<core::F16>;
  table.products.fp16.attention_backward = backward<core::F16>;
}

template bool CardAttention::forward(void*, const AttentionShape&,
                                     const AttentionForward<core::Bf16>&);
template bool CardAttention::forward(void*, const AttentionShape&,
                                     const AttentionForward<core::F16>&);
template bool CardAttention::backward(void*, const AttentionShape&,
                                      const AttentionBackward<core::Bf16>&);
template bool CardAttention::backward(void*, const AttentionShape&,
                                      const AttentionBackward<core::F16>&);

}  // namespace fm::device::cuda
