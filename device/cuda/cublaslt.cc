#include "device/cuda/cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/element.h"
#include "device/cuda/late_library.h"

namespace fm::device::cuda {
namespace {

using kernels::Beta;
using kernels::Form;
using kernels::GemmShape;
using kernels::Operand;
using kernels::Target;
using kernels::cuda::Workspace;

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusName) status_name;
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) create_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
};

CublasLt find_functions(const LateLibrary& library) {
  CublasLt lt{};
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtGetStatusName", lt.status_name);
  library.find("cublasLtGetVersion", lt.version);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  library.find("cublasLtMatmulDescCreate", lt.create_operation);
  library.find("cublasLtMatmulDescSetAttribute", lt.set_operation);
  library.find("cublasLtMatmulDescDestroy", lt.destroy_operation);
  library.find("cublasLtMatrixLayoutCreate", lt.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", lt.destroy_layout);
  library.find("cublasLtMatmulPreferenceCreate", lt.create_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference);
  library.find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference);
  return lt;
}

cudaDataType_t cuda_type(core::DType type) {
  if (type == core::DType::kF32) return CUDA_R_32F;
  return type == core::DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}

// Of a pointer, up to the widest access of its kernels: a product has one algorithm wherever a
// run's buffers begin.
int alignment_of(const void* data) {
  constexpr std::uintptr_t kMost = 16;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<int>(std::min(address & -address, kMost) | (address == 0 ? kMost : 0));
}

// A matrix as it is stored, but for its address.
struct Stored {
  Form form;
  std::int64_t stride;
  int alignment;
  constexpr auto operator<=>(const Stored&) const = default;
};

// All that the choice of an algorithm depends on.
struct ProductKey {
  std::int64_t m, n, k;
  core::DType element;
  core::DType result;
  Beta beta;
  Stored a, b, c;
  int d_alignment;         // C is read where it is written, or elsewhere with the same stride
  std::int64_t workspace;  // bytes
  constexpr auto operator<=>(const ProductKey&) const = default;
};

// "m=2, n=3, k=4: A bf16 [m, k] stride 4 aligned to 16, B bf16 [k, n] ..., C fp32 ..., D aligned to
// 16, beta 1, workspace 33554432"
std::string text_of(const ProductKey& product) {
  const auto matrix = [](const char* name, core::DType type, const char* stored, const Stored& at) {
    return core::concat(name, core::name_of(type), stored, " stride ", at.stride, " aligned to ",
                        at.alignment, ", ");
  };
  const bool a_as_is = product.a.form == Form::kAsIs;
  const bool b_as_is = product.b.form == Form::kAsIs;
  return core::concat("m=", product.m, ", n=", product.n, ", k=", product.k, ": ",
                      matrix("A ", product.element, a_as_is ? " [m, k]" : " [k, m]", product.a),
                      matrix("B ", product.element, b_as_is ? " [k, n]" : " [n, k]", product.b),
                      matrix("C ", product.result, " [m, n]", product.c), "D aligned to ",
                      product.d_alignment, ", beta ", product.beta == Beta::kOne ? 1 : 0,
                      ", workspace ", product.workspace);
}

cublasOperation_t operation_of(Form form) {
  return form == Form::kAsIs ? CUBLAS_OP_N : CUBLAS_OP_T;
}

template <class Descriptor>
using Owned = std::unique_ptr<std::remove_pointer_t<Descriptor>, cublasStatus_t (*)(Descriptor)>;

// A product that has been prepared.
struct Prepared {
  Owned<cublasLtMatmulDesc_t> operation;
  Owned<cublasLtMatrixLayout_t> a, b, c;
  std::vector<cublasLtMatmulHeuristicResult_t> answers;  // the fastest first, as the library thinks
  std::size_t chosen = 0;
  std::optional<Contest> contest;  // until somebody has won it
};

struct Addresses {
  const void* a;
  const void* b;
  const void* c;
  void* d;
  void* workspace;
};

}  // namespace

class CardProducts::Inside {
 public:
  Inside(std::string device, ProductOptions options);
  ~Inside() { lt_.destroy(handle_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  void multiply(void* stream, const ProductKey& product, const Addresses& at);
  std::string library() const;

 private:
  Prepared prepare(const ProductKey& product) const;
  std::vector<cublasLtMatmulHeuristicResult_t> answers(const ProductKey& product,
                                                       const Prepared& prepared) const;
  Owned<cublasLtMatmulPreference_t> preference(const ProductKey& product) const;
  Owned<cublasLtMatrixLayout_t> layout(const ProductKey& product, core::DType type,
                                       std::int64_t rows, std::int64_t columns,
                                       std::int64_t stride) const;
  void run(void* stream, const ProductKey& product, const Prepared& prepared, std::size_t number,
           const Addresses& at) const;
  void run_contest(void* stream, const ProductKey& product, Prepared& prepared,
                   const Addresses& at);
  std::string name_of(const ProductKey& product) const;
  void check(cublasStatus_t status, const char* call, const ProductKey& product) const;
  bool by_tf32(const ProductKey& product) const {
    return product.element == core::DType::kF32 && options_.fp32 == Fp32Products::kTf32;
  }
  bool tuned() const { return options_.tuning.clock != nullptr; }

  std::string device_;
  ProductOptions options_;
  LateLibrary file_;
  CublasLt lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::optional<Winners> winners_;
  std::map<ProductKey, Prepared> prepared_;
};

CardProducts::Inside::Inside(std::string device, ProductOptions options)
    : device_(std::move(device)),
      options_(std::move(options)),
      file_(cuda::name_of(Library::kCublasLt)),
      lt_(find_functions(file_)) {
  if (tuned()) winners_.emplace(options_.tuning, library());
  const cublasStatus_t status = lt_.create(&handle_);
  FM_MACHINE_CHECK(status != CUBLAS_STATUS_ALLOC_FAILED, core::ExitCode::kOutOfMemory,
                   "cuBLASLt needs memory of the device; use a smaller model or micro batch, or "
                   "end what else runs there (",
                   device_, ")");
  FM_MACHINE_CHECK(status == CUBLAS_STATUS_SUCCESS, core::ExitCode::kDeviceFailed,
                   "cuBLASLt must be able to use the device; check `nvidia-smi`, and that the "
                   "driver knows CUDA 13 (cublasLtCreate: ",
                   lt_.status_name(status), "; ", device_, "; ", file_.path(), ")");
}

std::string CardProducts::Inside::library() const {
  const std::size_t version = lt_.version();
  return core::concat("cuBLASLt ", version / 10000, '.', version / 100 % 100, '.', version % 100);
}

std::string CardProducts::Inside::name_of(const ProductKey& product) const {
  return text_of(product) + (by_tf32(product) ? ", by TF32" : "");
}

void CardProducts::Inside::check(cublasStatus_t status, const char* call,
                                 const ProductKey& product) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string what = core::concat(" (", call, ": ", lt_.status_name(status), "; ",
                                        name_of(product), "; ", library(), "; ", device_, ")");
  FM_MACHINE_CHECK(status != CUBLAS_STATUS_ALLOC_FAILED, core::ExitCode::kOutOfMemory,
                   "cuBLASLt needs memory for a matrix product; use a smaller micro batch", what);
  throw core::MachineError(core::ExitCode::kDeviceFailed,
                           "cuBLASLt must be able to compute a matrix product; report it, and try "
                           "another version of the package nvidia-cublas" +
                               what);
}

Owned<cublasLtMatrixLayout_t> CardProducts::Inside::layout(const ProductKey& product,
                                                           core::DType type, std::int64_t rows,
                                                           std::int64_t columns,
                                                           std::int64_t stride) const {
  cublasLtMatrixLayout_t made = nullptr;
  check(lt_.create_layout(&made, cuda_type(type), static_cast<std::uint64_t>(rows),
                          static_cast<std::uint64_t>(columns), stride),
        "cublasLtMatrixLayoutCreate", product);
  return {made, lt_.destroy_layout};
}

Prepared CardProducts::Inside::prepare(const ProductKey& product) const {
  cublasLtMatmulDesc_t made = nullptr;
  check(
      lt_.create_operation(
          &made, by_tf32(product) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescCreate", product);
  Owned<cublasLtMatmulDesc_t> operation(made, lt_.destroy_operation);
  const auto transpose = [&](cublasLtMatmulDescAttributes_t operand, Form form) {
    const cublasOperation_t value = operation_of(form);
    check(lt_.set_operation(made, operand, &value, sizeof value), "cublasLtMatmulDescSetAttribute",
          product);
  };
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, product.b.form);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, product.a.form);
  // Column-major: rows as they are stored are columns to the library.
  const auto stored = [&](std::int64_t rows, std::int64_t columns, const Stored& at) {
    if (at.form == Form::kTransposed) std::swap(rows, columns);
    return layout(product, product.element, columns, rows, at.stride);
  };
  Prepared prepared{std::move(operation),
                    stored(product.m, product.k, product.a),
                    stored(product.k, product.n, product.b),
                    layout(product, product.result, product.n, product.m, product.c.stride),
                    {},
                    0,
                    {}};
  prepared.answers = answers(product, prepared);
  if (!tuned()) return prepared;
  const int count = static_cast<int>(prepared.answers.size());
  const int winner = winners_->find(name_of(product)).value_or(count);
  if (winner < count) {
    prepared.chosen = static_cast<std::size_t>(winner);
  } else if (count > 1) {
    prepared.contest.emplace(count);
  }
  return prepared;
}

Owned<cublasLtMatmulPreference_t> CardProducts::Inside::preference(
    const ProductKey& product) const {
  cublasLtMatmulPreference_t made = nullptr;
  check(lt_.create_preference(&made), "cublasLtMatmulPreferenceCreate", product);
  Owned<cublasLtMatmulPreference_t> preference(made, lt_.destroy_preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(lt_.set_preference(made, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", product);
  };
  const auto bytes = [](const Stored& at) { return static_cast<std::uint32_t>(at.alignment); };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(product.workspace));
  // What is added in place, or in bf16, has an order of its own every time.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE |
                                 CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(product.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(product.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(product.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(product.d_alignment));
  return preference;
}

std::vector<cublasLtMatmulHeuristicResult_t> CardProducts::Inside::answers(
    const ProductKey& product, const Prepared& prepared) const {
  constexpr int kTuned = 8;
  constexpr int kAsked = 4;  // the first that the library can run
  const Owned<cublasLtMatmulPreference_t> wanted = preference(product);
  std::vector<cublasLtMatmulHeuristicResult_t> found(tuned() ? kTuned : kAsked);
  int count = 0;
  check(lt_.heuristic(handle_, prepared.operation.get(), prepared.b.get(), prepared.a.get(),
                      prepared.c.get(), prepared.c.get(), wanted.get(),
                      static_cast<int>(found.size()), found.data(), &count),
        "cublasLtMatmulAlgoGetHeuristic", product);
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& answer) { return answer.state != CUBLAS_STATUS_SUCCESS; });
  check(found.empty() ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS,
        "cublasLtMatmulAlgoGetHeuristic, which found no algorithm", product);
  return found;
}

void CardProducts::Inside::run(void* stream, const ProductKey& product, const Prepared& prepared,
                               std::size_t number, const Addresses& at) const {
  const float alpha = 1.0F;
  const float beta = product.beta == Beta::kOne ? 1.0F : 0.0F;
  check(lt_.matmul(handle_, prepared.operation.get(), &alpha, at.b, prepared.b.get(), at.a,
                   prepared.a.get(), &beta, at.c, prepared.c.get(), at.d, prepared.c.get(),
                   &prepared.answers[number].algo, at.workspace,
                   static_cast<std::size_t>(product.workspace), static_cast<cudaStream_t>(stream)),
        "cublasLtMatmul", product);
}

void CardProducts::Inside::run_contest(void* stream, const ProductKey& product, Prepared& prepared,
                                       const Addresses& at) {
  Contest& contest = *prepared.contest;
  const auto number = static_cast<std::size_t>(contest.turn());
  if (contest.wants_laps()) {
    std::unique_ptr<Lap> lap = options_.tuning.clock->begin(stream);
    run(stream, product, prepared, number, at);
    lap->end();
    contest.keep(std::move(lap));
  } else {
    run(stream, product, prepared, number, at);
  }
  const std::optional<int> winner = contest.winner();
  if (!winner) return;
  prepared.chosen = static_cast<std::size_t>(*winner);
  prepared.contest.reset();
  winners_->add(name_of(product), *winner);
}

void CardProducts::Inside::multiply(void* stream, const ProductKey& product, const Addresses& at) {
  auto found = prepared_.find(product);
  if (found == prepared_.end()) found = prepared_.emplace(product, prepare(product)).first;
  Prepared& prepared = found->second;
  if (prepared.contest) return run_contest(stream, product, prepared, at);
  run(stream, product, prepared, prepared.chosen, at);
}

CardProducts::CardProducts(std::string device, ProductOptions options)
    : state_(std::make_unique<Inside>(std::move(device), std::move(options))) {}
CardProducts::~CardProducts() = default;

std::string CardProducts::library() const { return state_->library(); }

template <class T, class C>
void CardProducts::multiply(void* stream, const Workspace& workspace, const GemmShape& shape,
                            const Operand<T>& a, const Operand<T>& b, const Target<C>& c) {
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) {
    FM_CHECK(c.beta == Beta::kOne && c.addend == nullptr,
             "a product without terms: clear or copy C");
    return;
  }
  const auto stored = [](const Operand<T>& x) {
    return Stored{x.form, x.stride, alignment_of(x.data)};
  };
  const C* const read = c.addend != nullptr ? c.addend : c.data;
  state_->multiply(stream,
                   {shape.m,
                    shape.n,
                    shape.k,
                    core::kDTypeOf<T>,
                    core::kDTypeOf<C>,
                    c.beta,
                    stored(a),
                    stored(b),
                    {Form::kAsIs, c.stride, alignment_of(read)},
                    alignment_of(c.data),
                    workspace.bytes.count()},
                   {a.data, b.data, read, c.data, workspace.data});
}

namespace {

template <class T, class C>
void multiply(const core::Work& work, const GemmShape& shape, const Operand<T>& a,
              const Operand<T>& b, const Target<C>& c) {
  const auto& stream = dynamic_cast<const kernels::cuda::Stream&>(*work.queue);
  const auto& multiplies = dynamic_cast<const Multiplies&>(*work.queue);
  multiplies.products().multiply(stream.handle(), stream.workspace(), shape, a, b, c);
}

}  // namespace

void fill_products(kernels::DeviceKernels& table) {
  table.products.fp32.gemm = multiply<float, float>;
  table.products.bf16.gemm = multiply<core::Bf16, float>;
  table.products.bf16.narrow_gemm = multiply<core::Bf16, core::Bf16>;
  table.products.fp16.gemm = multiply<core::F16, float>;
  table.products.fp16.narrow_gemm = multiply<core::F16, core::F16>;
}

template void CardProducts::multiply(void*, const Workspace&, const GemmShape&,
                                     const Operand<float>&, const Operand<float>&,
                                     const Target<float>&);
template void CardProducts::multiply(void*, const Workspace&, const GemmShape&,
                                     const Operand<core::Bf16>&, const Operand<core::Bf16>&,
                                     const Target<float>&);
template void CardProducts::multiply(void*, const Workspace&, const GemmShape&,
                                     const Operand<core::Bf16>&, const Operand<core::Bf16>&,
                                     const Target<core::Bf16>&);
template void CardProducts::multiply(void*, const Workspace&, const GemmShape&,
                                     const Operand<core::F16>&, const Operand<core::F16>&,
                                     const Target<float>&);
template void CardProducts::multiply(void*, const Workspace&, const GemmShape&,
                                     const Operand<core::F16>&, const Operand<core::F16>&,
                                     const Target<core::F16>&);

}  // namespace fm::device::cuda
