// Compiled once per instruction set, beside the kernels it lists.
#include "kernels/variants/variant.h"

#define FM_TEXT(word) #word
#define FM_NAME(word) FM_TEXT(word)

namespace fm::kernels::FM_SIMD {

// Kernels over elements, as their public headers declare them.
template <class T>
void activate(Activation kind, std::int64_t count, const T* x, T* y);
template <class T>
void activate_backward(Activation kind, std::int64_t count, const ActivateBackward<T>& at);
template <class T>
void add_bias(RowShape shape, const T* bias, T* y);
template <class T>
void add_residual(std::int64_t count, const float* x, const T* residual, T* y);
template <class T>
void attend_cached(const CachedKeys& shape, const CachedRow<T>& at, float* scratch);
template <class T>
void column_sums(RowShape shape, const T* x, float* sums);
template <class T>
void dropout(const Dropout& by, std::uint64_t first, std::int64_t count, T* x);
template <class T>
void embedding(std::span<const std::int32_t> tokens, const T* table, std::int64_t width, T* out);
template <class T>
void embedding_backward(std::span<const std::int32_t> tokens, const TableRows& rows, const T* dout,
                        std::int64_t width, float* dtable);
template <class T>
void embedding_part(std::span<const std::int32_t> tokens, const TableRows& rows, const T* table,
                    std::int64_t width, float* out);
template <class T>
void few_rows_tile(const FewRowsTile<T>& at);
template <class T>
void glu(Activation kind, std::int64_t count, const T* gate, const T* up, T* y);
template <class T>
void glu_backward(Activation kind, std::int64_t count, const SwigluBackward<T>& at);
template <class T>
void layernorm_statistics(RowShape shape, const T* x, double eps, float* mean, float* rstd);
template <class T>
void layernorm_apply(RowShape shape, const LayernormApply<T>& at);
template <class T>
void layernorm_backward(RowShape shape, const LayernormBackward<T>& at);
template <class T>
void packed_product(const GemmShape& shape, const Operand<T>& a, const Operand<T>& b,
                    const Target<float>& c);
template <class T>
void quantize8(std::int64_t count, const T* x, float* scales, std::int8_t* q);
template <class T>
void dequantize8(std::int64_t count, const float* scales, const std::int8_t* q, T* x);
template <class T>
void rmsnorm_rstd(RowShape shape, const T* x, double eps, float* rstd);
template <class T>
void rmsnorm_apply(RowShape shape, const T* x, NormWeight<T> weight, const float* rstd, T* y);
template <class T>
void rmsnorm_backward(RowShape shape, const RmsnormBackward<T>& at);
template <class T>
void rope(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x);
template <class T>
void rope_inverse(const RopeTable& table, core::BatchShape shape, std::int64_t heads, T* x);
template <class T>
void scale(std::int64_t count, float factor, T* x);
template <class T>
void split_input(const SplitShape& shape, const SplitNormBackward<T>& at, const double* products);
template <class T>
void split_products(const SplitShape& shape, const SplitNormBackward<T>& at, double* products);
template <class T>
void swiglu(std::int64_t count, const T* gate, const T* up, T* y);
template <class T>
void swiglu_backward(std::int64_t count, const SwigluBackward<T>& at);
template <class From, class To>
void cast_rows(RowShape shape, const From* from, std::int64_t from_stride, To* to,
               std::int64_t to_stride);

template <class T>
constexpr ElementTable<T, WithoutWork> kElements = {.activate = activate<T>,
                                                    .activate_backward = activate_backward<T>,
                                                    .add_bias = add_bias<T>,
                                                    .add_residual = add_residual<T>,
                                                    .column_sums = column_sums<T>,
                                                    .dropout = dropout<T>,
                                                    .embedding = embedding<T>,
                                                    .embedding_backward = embedding_backward<T>,
                                                    .embedding_part = embedding_part<T>,
                                                    .glu = glu<T>,
                                                    .glu_backward = glu_backward<T>,
                                                    .layernorm_statistics = layernorm_statistics<T>,
                                                    .layernorm_apply = layernorm_apply<T>,
                                                    .layernorm_backward = layernorm_backward<T>,
                                                    .rmsnorm_rstd = rmsnorm_rstd<T>,
                                                    .rmsnorm_apply = rmsnorm_apply<T>,
                                                    .rmsnorm_backward = rmsnorm_backward<T>,
                                                    .rope = rope<T>,
                                                    .rope_inverse = rope_inverse<T>,
                                                    .scale = scale<T>,
                                                    .split_input = split_input<T>,
                                                    .split_products = split_products<T>,
                                                    .swiglu = swiglu<T>,
                                                    .swiglu_backward = swiglu_backward<T>,
                                                    .widen = cast_rows<T, float>,
                                                    .narrow = cast_rows<float, T>};

template <class T>
constexpr ElementParts<T> kParts = {.attend_cached = attend_cached<T>,
                                    .few_rows_tile = few_rows_tile<T>,
                                    .packed_product = packed_product<T>,
                                    .quantize8 = quantize8<T>,
                                    .dequantize8 = dequantize8<T>};

extern WithoutWork<decltype(kernels::add)> add;
extern WithoutWork<decltype(kernels::add_squares)> add_squares;
extern WithoutWork<decltype(kernels::adamw)> adamw;
extern decltype(kernels::group_attention_forward) group_attention_forward;
extern decltype(kernels::group_attention_backward) group_attention_backward;
extern WithoutWork<decltype(kernels::cross_entropy)> cross_entropy;
extern WithoutWork<decltype(kernels::cross_entropy_loss)> cross_entropy_loss;
extern WithoutWork<decltype(kernels::cross_entropy_of_parts)> cross_entropy_of_parts;
extern WithoutWork<decltype(kernels::label_logits)> label_logits;
extern WithoutWork<decltype(kernels::tile_maxima)> tile_maxima;
extern WithoutWork<decltype(kernels::tile_sums)> tile_sums;
extern WithoutWork<decltype(kernels::tile_gradients)> tile_gradients;
extern WithoutWork<decltype(kernels::tiled_losses)> tiled_losses;
extern WithoutWork<decltype(kernels::split_squares)> split_squares;
extern WithoutWork<decltype(kernels::split_rstd)> split_rstd;
extern WithoutWork<decltype(kernels::muon_begin)> muon_begin;
extern WithoutWork<decltype(kernels::muon_move)> muon_move;
extern WithoutWork<decltype(kernels::divide_by_norm)> divide_by_norm;
extern WithoutWork<decltype(kernels::quintic_factor)> quintic_factor;
extern WithoutWork<decltype(kernels::exponentials)> exponentials;
extern WithoutWork<decltype(kernels::form_logits)> form_logits;
extern decltype(kernels::normals) normals;
extern decltype(kernels::quantize4) quantize4;
extern decltype(kernels::dequantize4) dequantize4;
extern WithoutWork<decltype(kernels::rope_table)> rope_table;
extern WithoutWork<decltype(kernels::adagrad)> adagrad;
extern WithoutWork<decltype(kernels::lamb_direction)> lamb_direction;
extern WithoutWork<decltype(kernels::lamb_move)> lamb_move;
extern WithoutWork<decltype(kernels::lion)> lion;
extern WithoutWork<decltype(kernels::sgd)> sgd;
extern WithoutWork<decltype(kernels::squared_norm)> squared_norm;
extern WithoutWork<decltype(kernels::any_reaches)> any_reaches;
extern decltype(kernels::tile_product) tile_product;
extern WithoutWork<decltype(kernels::tree_add)> tree_add;
extern WithoutWork<decltype(kernels::tree_add_to_both)> tree_add_to_both;

constexpr CpuKernels kKernels = {.fp32 = kElements<float>,
                                 .bf16 = kElements<core::Bf16>,
                                 .fp16 = kElements<core::F16>,
                                 .add = add,
                                 .add_squares = add_squares,
                                 .adamw = adamw,
                                 .cross_entropy = cross_entropy,
                                 .cross_entropy_loss = cross_entropy_loss,
                                 .cross_entropy_of_parts = cross_entropy_of_parts,
                                 .label_logits = label_logits,
                                 .tile_maxima = tile_maxima,
                                 .tile_sums = tile_sums,
                                 .tile_gradients = tile_gradients,
                                 .tiled_losses = tiled_losses,
                                 .split_squares = split_squares,
                                 .split_rstd = split_rstd,
                                 .muon_begin = muon_begin,
                                 .muon_move = muon_move,
                                 .divide_by_norm = divide_by_norm,
                                 .quintic_factor = quintic_factor,
                                 .exponentials = exponentials,
                                 .form_logits = form_logits,
                                 .rope_table = rope_table,
                                 .adagrad = adagrad,
                                 .lamb_direction = lamb_direction,
                                 .lamb_move = lamb_move,
                                 .lion = lion,
                                 .sgd = sgd,
                                 .squared_norm = squared_norm,
                                 .any_reaches = any_reaches,
                                 .tree_add = tree_add,
                                 .tree_add_to_both = tree_add_to_both};

extern const Variant kVariant;
constinit const Variant kVariant = {kKernels,
                                    FM_NAME(FM_SIMD),
                                    {kParts<float>, kParts<core::Bf16>, kParts<core::F16>},
                                    group_attention_forward,
                                    group_attention_backward,
                                    normals,
                                    quantize4,
                                    dequantize4,
                                    tile_product};

}  // namespace fm::kernels::FM_SIMD
