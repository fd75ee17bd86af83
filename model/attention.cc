#include "model/attention.h"

#include "model/attention_kinds.h"

namespace fm::model {

void attention_forward(const AttentionShape& shape, const AttentionForward& at,
                       core::Arena& scratch) {
  switch (shape.kind) {
    case AttentionKind::kOwn: return own_attention_forward(shape, at, scratch);
    case AttentionKind::kTorch: return torch_attention_forward(shape, at);
  }
}

void attention_backward(const AttentionShape& shape, const AttentionBackward& at,
                        core::Arena& scratch) {
  switch (shape.kind) {
    case AttentionKind::kOwn: return own_attention_backward(shape, at, scratch);
    case AttentionKind::kTorch: return torch_attention_backward(shape, at);
  }
}

AttentionScratch attention_scratch(const AttentionShape& shape) {
  switch (shape.kind) {
    case AttentionKind::kOwn: return own_attention_scratch(shape);
    case AttentionKind::kTorch: break;
  }
  return {};
}

std::string attention_library(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kOwn: break;
    case AttentionKind::kTorch: return torch_attention_library();
  }
  return "own";
}

}  // namespace fm::model
