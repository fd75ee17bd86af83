// Matrix products of a CUDA device by NVIDIA's cuBLASLt, which is opened late.
//
// cuBLASLt's matrices are column-major: to it a row-major matrix is its transpose. So
// C [m, n] = op(A) op(B) is given to it as C^T [n, m] = op(B)^T op(A)^T, our B first:
//
//   | ours          | stored | is column-major | operation |
//   | B as it is    | [k, n] | n x k           | N         | first operand
//   | B transposed  | [n, k] | k x n           | T         |
//   | A as it is    | [m, k] | k x m           | N         | second operand
//   | A transposed  | [k, m] | m x k           | T         |
//   | C             | [m, n] | n x m           |           | read: an addend, or where D is
//   | D             | [m, n] | n x m           |           | written
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cuda/tuned_products.h"
#include "kernels/cuda/stream.h"
#include "kernels/gemm/gemm.h"
#include "kernels/variants/table.h"

namespace fm::device::cuda {

enum class Fp32Products : std::uint8_t {
  kFp32,
  kTf32,  // operands are rounded to 10 bits of fraction
};

struct ProductOptions {
  Fp32Products fp32 = Fp32Products::kFp32;
  Tuning tuning = {};
};

// Sums are fp32, in an order that depends on nothing but the product, the card and the library:
// of its ways to split k it may use none, or a pass of its own that adds fp32 parts. Its algorithm
// is chosen at the first product of a shape, its types, forms, strides, beta, alignments and
// workspace; later ones cost a look into a map.
//
// Thread:   the rank's, whose current device it is made for, and on.
// Lifetime: ends before its device's context does.
class CardProducts {
 public:
  // `device`: "GPU 0 (NVIDIA H100 ...)", for messages. UserError (10) without the library,
  // MachineError (27) where it cannot use the device.
  explicit CardProducts(std::string device, ProductOptions options = {});
  ~CardProducts();
  CardProducts(const CardProducts&) = delete;
  CardProducts& operator=(const CardProducts&) = delete;

  // D = op(A) op(B) + beta C (kernels/gemm/gemm.h) on `stream`, a cudaStream_t: pointers are of
  // the device. No row or column: nothing. No terms (k = 0): nothing with beta one; with beta zero
  // or an addend the caller must clear or copy C instead (BugError). Throws MachineError: 25 where
  // the library lacks memory, else 27.
  template <class T, class C>
  void multiply(void* stream, const kernels::cuda::Workspace& workspace,
                const kernels::GemmShape& shape, const kernels::Operand<T>& a,
                const kernels::Operand<T>& b, const kernels::Target<C>& c);

  std::string library() const;  // "cuBLASLt 13.1.0", for the banner

 private:
  class Inside;
  std::unique_ptr<Inside> state_;
};

// A core::Queue that multiplies is one, and a kernels::cuda::Stream.
//
// Thread:   as core::Queue.
// Lifetime: as core::Queue.
class Multiplies {
 public:
  virtual ~Multiplies() = default;
  virtual CardProducts& products() const = 0;
};

// gemm and narrow_gemm, for such queues.
void fill_products(kernels::DeviceKernels& table);

}  // namespace fm::device::cuda
