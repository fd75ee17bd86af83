// Stands in for libcublasLt.so.13 where there is no GPU: it has the functions that
// device/cuda/cublaslt.cc uses, refuses whatever is not exactly right, and multiplies column-major
// matrices on this CPU. Functions for tests are in tests/cuda/fake_cublaslt.h.
#include "tests/cuda/fake_cublaslt.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/element.h"

namespace {

// What the library keeps behind its handles.
struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a = CUBLAS_OP_N;
  cublasOperation_t b = CUBLAS_OP_N;
};
struct Layout {
  cudaDataType type;
  std::uint64_t rows;
  std::uint64_t columns;
  std::int64_t stride;
  bool operator==(const Layout&) const = default;
};
struct Context {};
struct Preference {
  std::map<cublasLtMatmulPreferenceAttributes_t, std::uint64_t> values;
};

std::mutex mutex;
// All that live, so that any other pointer is refused.
template <class Kind>
std::set<Kind*> living;
std::atomic<long> living_of_all_kinds{0};
std::map<std::string, long> calls;
std::atomic<int> last_algorithm{-1};
std::atomic<fme_fake_run> run_on_queue{nullptr};
std::atomic<fme_fake_translation> translation{nullptr};

template <class Kind, class Handle, class... Values>
cublasStatus_t make(Handle* handle, const Values&... values) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  auto* const made = new Kind{values...};
  const std::lock_guard lock(mutex);
  living<Kind>.insert(made);
  ++living_of_all_kinds;
  *handle = reinterpret_cast<Handle>(made);
  return CUBLAS_STATUS_SUCCESS;
}

// Null where it is none of ours.
template <class Kind, class Handle>
Kind* find(Handle handle) {
  const std::lock_guard lock(mutex);
  auto* const wanted = reinterpret_cast<Kind*>(handle);
  return living<Kind>.contains(wanted) ? wanted : nullptr;
}

template <class Kind, class Handle>
cublasStatus_t destroy(Handle handle) {
  Kind* const found = find<Kind>(handle);
  if (found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const std::lock_guard lock(mutex);
  living<Kind>.erase(found);
  --living_of_all_kinds;
  delete found;
  return CUBLAS_STATUS_SUCCESS;
}

void count(const char* call) {
  const std::lock_guard lock(mutex);
  ++calls[call];
}

bool fails(std::string_view where) {
  const char* const wanted = std::getenv("FME_FAKE_CUBLASLT");
  return wanted != nullptr && where == wanted;
}

std::int64_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

// A product that the library would take: its sides, as they are multiplied.
struct Problem {
  Operation operation;
  Layout a, b, c;
  std::int64_t m, n, k;
};

bool types_fit(const Operation& operation, cudaDataType element, cudaDataType result) {
  if (operation.scale != CUDA_R_32F) return false;
  const bool tf32 = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (operation.compute != CUBLAS_COMPUTE_32F && !(tf32 && element == CUDA_R_32F)) return false;
  const bool known = element == CUDA_R_32F || element == CUDA_R_16BF || element == CUDA_R_16F;
  return known && (result == element || result == CUDA_R_32F);
}

bool is_sound(const Layout& layout) {
  return layout.rows > 0 && layout.columns > 0 &&
         layout.stride >= static_cast<std::int64_t>(layout.rows);
}

// False where it is no product.
bool join(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
          cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, Problem& problem) {
  const auto* const how = find<Operation>(operation);
  const auto* const first = find<Layout>(a);
  const auto* const second = find<Layout>(b);
  const auto* const before = find<Layout>(c);
  const auto* const after = find<Layout>(d);
  for (const void* const part :
       std::initializer_list<const void*>{how, first, second, before, after})
    if (part == nullptr) return false;
  for (const Layout* const part : {first, second, before, after})
    if (!is_sound(*part)) return false;
  const bool as_is_a = how->a == CUBLAS_OP_N;
  const bool as_is_b = how->b == CUBLAS_OP_N;
  const std::uint64_t m = as_is_a ? first->rows : first->columns;
  const std::uint64_t k = as_is_a ? first->columns : first->rows;
  const std::uint64_t n = as_is_b ? second->columns : second->rows;
  const bool fit = (as_is_b ? second->rows : second->columns) == k && after->rows == m &&
                   after->columns == n && *before == *after && first->type == second->type &&
                   types_fit(*how, first->type, after->type);
  if (!fit) return false;
  problem = {*how,
             *first,
             *second,
             *after,
             static_cast<std::int64_t>(m),
             static_cast<std::int64_t>(n),
             static_cast<std::int64_t>(k)};
  return true;
}

// Algorithms: what an answer of the heuristic holds.
struct Algorithm {
  std::uint64_t mark;     // of the problem that it was given for
  std::uint64_t number;   // among the answers
  std::uint64_t aligned;  // bytes that every matrix, and every stride, is aligned to
  std::uint64_t workspace;
  std::array<std::uint64_t, 4> claimed;  // alignments of A, B, C, D that the caller has told
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::uint64_t mark_of(const Problem& problem) {
  std::uint64_t mark = 0x9E3779B97F4A7C15U;
  const auto mix = [&mark](std::uint64_t value) { mark = (mark ^ value) * 0x100000001B3U; };
  mix(static_cast<std::uint64_t>(problem.operation.compute));
  mix(static_cast<std::uint64_t>(problem.operation.a));
  mix(static_cast<std::uint64_t>(problem.operation.b));
  for (const Layout& at : {problem.a, problem.b, problem.c}) {
    mix(static_cast<std::uint64_t>(at.type));
    mix(at.rows);
    mix(at.columns);
    mix(static_cast<std::uint64_t>(at.stride));
  }
  return mark;
}

bool strides_fit(const Problem& problem, std::uint64_t bytes) {
  for (const Layout& at : {problem.a, problem.b, problem.c}) {
    if (static_cast<std::uint64_t>(at.stride * size_of(at.type)) % bytes != 0) return false;
  }
  return true;
}

// The answers, of which algorithms that want 16 bytes and a workspace are the first.
std::vector<Algorithm> algorithms_of(const Problem& problem,
                                     const std::array<std::uint64_t, 4>& claimed,
                                     std::uint64_t workspace) {
  constexpr std::uint64_t kWide = 16;
  constexpr std::uint64_t kWorkspace = 4096;
  std::vector<Algorithm> found;
  const auto add = [&](std::uint64_t aligned, std::uint64_t bytes) {
    found.push_back({mark_of(problem), found.size(), aligned, bytes, claimed});
  };
  if (*std::ranges::min_element(claimed) >= kWide && strides_fit(problem, kWide)) {
    if (workspace >= kWorkspace) add(kWide, kWorkspace);
    for (int i = 0; i < 3; ++i) add(kWide, 0);
  }
  for (int i = 0; i < 2; ++i) add(2, 0);
  return found;
}

// The size of a preference's attribute, and the bits that it may have; 0: it is unknown.
struct Allowed {
  std::size_t bytes;
  std::uint64_t bits;
};
Allowed allowed(cublasLtMatmulPreferenceAttributes_t attribute) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return {8, ~std::uint64_t{0}};
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return {4, CUBLASLT_REDUCTION_SCHEME_MASK};
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return {4, 511};
    default: return {0, 0};  // none that our products set
  }
}

struct Wanted {
  std::array<std::uint64_t, 4> aligned;  // A, B, C, D
  std::uint64_t workspace;
};
// False where something is not told. Stricter than the real library: alignments must be told, and
// the ways to split k must be those that repeat themselves.
bool read(const Preference* preference, Wanted& wanted) {
  if (preference == nullptr) return false;
  const auto value = [&](cublasLtMatmulPreferenceAttributes_t attribute) {
    const auto found = preference->values.find(attribute);
    return found == preference->values.end() ? std::uint64_t{0} : found->second;
  };
  wanted = {{value(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
             value(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
             value(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
             value(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)},
            value(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)};
  const bool powers = std::ranges::all_of(
      wanted.aligned, [](std::uint64_t at) { return at >= 2 && (at & (at - 1)) == 0; });
  return powers && preference->values.contains(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) &&
         value(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) ==
             CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

// A product that waits for its turn, or is done at once.
struct Task {
  Problem problem;
  float alpha, beta;
  const void* a;
  const void* b;
  const void* c;
  void* d;
  void* workspace;
  std::uint64_t workspace_bytes;
};

float load(const void* data, cudaDataType type, std::int64_t at) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[at];
  if (type == CUDA_R_16BF) return fm::core::to_float(static_cast<const fm::core::Bf16*>(data)[at]);
  return fm::core::to_float(static_cast<const fm::core::F16*>(data)[at]);
}

void store(void* data, cudaDataType type, std::int64_t at, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[at] = value;
  } else if (type == CUDA_R_16BF) {
    static_cast<fm::core::Bf16*>(data)[at] = fm::core::to_bf16(value);
  } else {
    static_cast<fm::core::F16*>(data)[at] = fm::core::to_f16(value);
  }
}

// op(X) [rows, columns], column-major and dense.
std::vector<float> widened(const void* data, const Layout& layout, cublasOperation_t operation) {
  const auto rows = static_cast<std::int64_t>(layout.rows);
  const auto columns = static_cast<std::int64_t>(layout.columns);
  std::vector<float> wide(static_cast<std::size_t>(rows * columns));
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t to =
          operation == CUBLAS_OP_N ? column * rows + row : row * columns + column;
      wide[static_cast<std::size_t>(to)] = load(data, layout.type, column * layout.stride + row);
    }
  }
  return wide;
}

void multiply(const Task& task) {
  const Problem& problem = task.problem;
  if (task.workspace_bytes > 0) std::memset(task.workspace, 0xFF, task.workspace_bytes);
  const std::vector<float> a = widened(task.a, problem.a, problem.operation.a);
  const std::vector<float> b = widened(task.b, problem.b, problem.operation.b);
  const auto rows = static_cast<std::size_t>(problem.m);
  std::vector<float> sums(rows);
  for (std::int64_t column = 0; column < problem.n; ++column) {
    sums.assign(rows, 0.0F);
    for (std::int64_t term = 0; term < problem.k; ++term) {
      const float factor = b[static_cast<std::size_t>(column * problem.k + term)];
      const float* const from = a.data() + static_cast<std::size_t>(term) * rows;
      for (std::size_t row = 0; row < rows; ++row) sums[row] += from[row] * factor;
    }
    for (std::int64_t row = 0; row < problem.m; ++row) {
      const std::int64_t at = column * problem.c.stride + row;
      float value = task.alpha * sums[static_cast<std::size_t>(row)];
      if (task.beta != 0.0F) value += task.beta * load(task.c, problem.c.type, at);
      store(task.d, problem.c.type, at, value);
    }
  }
}

bool is_aligned(const void* data, std::uint64_t bytes) {
  return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// The caller's addresses, which a fake device may see elsewhere.
Task seen(const Task& task, cudaStream_t stream) {
  const fme_fake_translation translate = translation;
  if (translate == nullptr) return task;
  const auto there = [&](const void* data) {
    return data == nullptr ? data : translate(stream, data);
  };
  Task moved = task;
  moved.a = there(task.a);
  moved.b = there(task.b);
  moved.c = there(task.c);
  moved.d = const_cast<void*>(there(task.d));
  moved.workspace = const_cast<void*>(there(task.workspace));
  return moved;
}

cublasStatus_t start(const Task& task, cudaStream_t stream) {
  if (stream == nullptr) {
    multiply(task);
    return CUBLAS_STATUS_SUCCESS;
  }
  const fme_fake_run run = run_on_queue;
  if (run == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  auto later = std::make_unique<Task>(seen(task, stream));
  run(
      stream, [](void* data) { multiply(*static_cast<const Task*>(data)); }, later.release(),
      [](void* data) { delete static_cast<Task*>(data); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

long fme_fake_calls(const char* call) {
  const std::lock_guard lock(mutex);
  return calls[call];
}
long fme_fake_living() { return living_of_all_kinds; }
int fme_fake_last_algorithm() { return last_algorithm; }
void fme_fake_run_on(fme_fake_run run) { run_on_queue = run; }
void fme_fake_translate(fme_fake_translation translate) { translation = translate; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  count("create");
  if (fails("create")) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (fails("create_memory")) return CUBLAS_STATUS_ALLOC_FAILED;
  return make<Context>(handle);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy<Context>(handle); }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_UNKNOWN";  // none that this library answers
  }
}

std::size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return make<Operation>(handle, compute, scale);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  auto* const operation = find<Operation>(handle);
  cublasOperation_t wanted = CUBLAS_OP_N;
  if (operation == nullptr || value == nullptr || bytes != sizeof wanted) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&wanted, value, bytes);
  if (wanted != CUBLAS_OP_N && wanted != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: operation->a = wanted; return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_TRANSB: operation->b = wanted; return CUBLAS_STATUS_SUCCESS;
    default: return CUBLAS_STATUS_INVALID_VALUE;  // none that our products set
  }
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy<Operation>(handle);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  return make<Layout>(handle, type, rows, columns, stride);
}

// Nothing that device/cuda/cublaslt.cc does needs an attribute of a layout.
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t,
                                                cublasLtMatrixLayoutAttribute_t, const void*,
                                                std::size_t) {
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy<Layout>(handle);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return make<Preference>(handle);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  auto* const preference = find<Preference>(handle);
  const Allowed known = allowed(attribute);
  if (preference == nullptr || value == nullptr || bytes == 0 || bytes != known.bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::uint64_t wanted = 0;
  std::memcpy(&wanted, value, bytes);
  if ((wanted & ~known.bits) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  preference->values[attribute] = wanted;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy<Preference>(handle);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t answers[],
                                              int* returned) {
  count("heuristic");
  Problem problem;
  Wanted wanted;
  if (find<Context>(handle) == nullptr || most < 1 || answers == nullptr || returned == nullptr ||
      fails("heuristic") || !join(operation, a, b, c, d, problem) ||
      !read(find<Preference>(preference), wanted)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *returned = 0;
  if (fails("none_found")) return CUBLAS_STATUS_SUCCESS;
  for (const Algorithm& algorithm : algorithms_of(problem, wanted.aligned, wanted.workspace)) {
    if (*returned == most) break;
    cublasLtMatmulHeuristicResult_t answer{};
    std::memcpy(&answer.algo, &algorithm, sizeof algorithm);
    answer.workspaceSize = algorithm.workspace;
    answer.state = CUBLAS_STATUS_SUCCESS;
    answer.wavesCount = 1.0F;
    answers[(*returned)++] = answer;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  count("matmul");
  if (fails("matmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  Problem problem;
  if (find<Context>(handle) == nullptr || alpha == nullptr || beta == nullptr ||
      chosen == nullptr || !join(operation, a_layout, b_layout, c_layout, d_layout, problem)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!strides_fit(problem, 16)) count("odd_strides");
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  if (algorithm.mark != mark_of(problem) || workspace_bytes < algorithm.workspace ||
      (workspace_bytes > 0 && !is_aligned(workspace, 256))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::uint64_t element = static_cast<std::uint64_t>(size_of(problem.a.type));
  const std::uint64_t result = static_cast<std::uint64_t>(size_of(problem.c.type));
  const auto fits = [&](const void* matrix, std::uint64_t claimed, std::uint64_t itself) {
    return is_aligned(matrix, std::max({claimed, itself, algorithm.aligned}));
  };
  if (!fits(a, algorithm.claimed[0], element) || !fits(b, algorithm.claimed[1], element) ||
      !fits(c, algorithm.claimed[2], result) || !fits(d, algorithm.claimed[3], result)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  last_algorithm = static_cast<int>(algorithm.number);
  Task task{problem, 0, 0, a, b, c, d, workspace, algorithm.workspace};
  std::memcpy(&task.alpha, alpha, sizeof task.alpha);
  std::memcpy(&task.beta, beta, sizeof task.beta);
  return start(task, stream);
}

}  // extern "C"
