// Compiled once per instruction set, beside the kernels it lists.
#include "kernels/variant.h"

#define FM_TEXT(word) #word
#define FM_NAME(word) FM_TEXT(word)

namespace fm::kernels::FM_SIMD {

extern decltype(kernels::add) add;
extern decltype(kernels::adamw) adamw;
extern decltype(kernels::attention_forward) attention_forward;
extern decltype(kernels::attention_backward) attention_backward;
extern decltype(kernels::cross_entropy) cross_entropy;
extern decltype(kernels::cross_entropy_loss) cross_entropy_loss;
extern decltype(kernels::embedding) embedding;
extern decltype(kernels::embedding_backward) embedding_backward;
extern decltype(kernels::normals) normals;
extern decltype(kernels::rmsnorm_rstd) rmsnorm_rstd;
extern decltype(kernels::rmsnorm_apply) rmsnorm_apply;
extern decltype(kernels::rmsnorm_backward) rmsnorm_backward;
extern decltype(kernels::rope_table) rope_table;
extern decltype(kernels::rope) rope;
extern decltype(kernels::rope_inverse) rope_inverse;
extern decltype(kernels::sgd) sgd;
extern decltype(kernels::squared_norm) squared_norm;
extern decltype(kernels::swiglu) swiglu;
extern decltype(kernels::swiglu_backward) swiglu_backward;
extern decltype(kernels::tile_product) tile_product;
extern decltype(kernels::tree_add) tree_add;

extern const Variant kVariant;
constinit const Variant kVariant = {.name = FM_NAME(FM_SIMD),
                                    .add = add,
                                    .adamw = adamw,
                                    .attention_forward = attention_forward,
                                    .attention_backward = attention_backward,
                                    .cross_entropy = cross_entropy,
                                    .cross_entropy_loss = cross_entropy_loss,
                                    .embedding = embedding,
                                    .embedding_backward = embedding_backward,
                                    .normals = normals,
                                    .rmsnorm_rstd = rmsnorm_rstd,
                                    .rmsnorm_apply = rmsnorm_apply,
                                    .rmsnorm_backward = rmsnorm_backward,
                                    .rope_table = rope_table,
                                    .rope = rope,
                                    .rope_inverse = rope_inverse,
                                    .sgd = sgd,
                                    .squared_norm = squared_norm,
                                    .swiglu = swiglu,
                                    .swiglu_backward = swiglu_backward,
                                    .tile_product = tile_product,
                                    .tree_add = tree_add};

}  // namespace fm::kernels::FM_SIMD
