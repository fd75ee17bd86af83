// Products through cuBLASLt, by the fake one, which is strict about what it is given.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "core/element.h"
#include "device/cuda/cublaslt.h"
#include "tests/cuda/fake_library.h"
#include "tests/kernels/gemm_product.h"

namespace fm::device::cuda {
namespace {

using core::Bf16;
using kernels::Beta;
using kernels::Form;
using kernels::GemmShape;
using kernels::kForms;
using kernels::Operand;
using kernels::RandomProduct;
using kernels::Target;
using kernels::cuda::Workspace;

struct Aligned {
  void operator()(void* data) const { std::free(data); }
};

// What the caller gives the library to work in.
class Room {
 public:
  explicit Room(std::size_t bytes = 8192) : bytes_(bytes), data_(std::aligned_alloc(256, bytes)) {}
  Workspace get() const { return {data_.get(), core::Bytes(static_cast<std::int64_t>(bytes_))}; }

 private:
  std::size_t bytes_;
  std::unique_ptr<void, Aligned> data_;
};

// On the heap, `offset` elements behind an address that is aligned to 256 bytes. It ends with its
// last element.
template <class T>
class Shifted {
 public:
  Shifted(const std::vector<T>& values, std::size_t offset)
      : bytes_((offset + values.size()) * sizeof(T)),
        data_(aligned(bytes_)),
        begin_(reinterpret_cast<T*>(data_.get()) + offset) {
    std::ranges::copy(values, begin_);
  }
  T* data() const { return begin_; }

 private:
  static void* aligned(std::size_t bytes) {
    void* data = nullptr;
    if (posix_memalign(&data, 256, std::max<std::size_t>(bytes, 1)) != 0) throw std::bad_alloc();
    return data;
  }
  std::size_t bytes_;
  std::unique_ptr<void, Aligned> data_;
  T* begin_;
};

Variable kLibraries("FME_CUDA_LIBS", FM_FAKE_LIBRARIES);

template <class Both>
class ProductsOf : public testing::Test {
 protected:
  using T = typename Both::T;
  using C = typename Both::C;

  struct Case {
    RandomProduct<T> product;
    Beta beta = Beta::kZero;
    std::size_t offset = 0;  // elements of every matrix behind an aligned address
    bool apart = false;      // what is added lies elsewhere, aligned
  };

  // Relative error, infinite where something beyond the rows was written.
  double error_of(const Case& at) {
    const RandomProduct<T>& p = at.product;
    const auto [m, n, k] = p.shape;
    const Shifted<T> a(p.random_a(), at.offset);
    const Shifted<T> b(p.random_b(), at.offset);
    // Between the rows, and everywhere where nothing is added, there is no number.
    std::vector<C> before(static_cast<std::size_t>(p.c_width() * m), core::to_element<C>(NAN));
    const std::vector<float> added = kernels::random_values(m * n, 3);
    if (at.beta == Beta::kOne) {
      for (std::int64_t i = 0; i < m * n; ++i) {
        before[static_cast<std::size_t>(i / n * p.c_width() + i % n)] =
            core::to_element<C>(added[static_cast<std::size_t>(i)]);
      }
    }
    const std::vector<C> nothing(before.size(), core::to_element<C>(NAN));
    const Shifted<C> addend(before, 0);
    const Shifted<C> c(at.apart ? nothing : before, at.offset);
    const Operand<T> left{a.data(), p.a_width(), p.a_form};
    const Operand<T> right{b.data(), p.b_width(), p.b_form};
    products_.multiply(
        nullptr, room_.get(), p.shape, left, right,
        Target<C>{c.data(), p.c_width(), at.beta, at.apart ? addend.data() : nullptr});
    double error = 0.0;
    double square = 0.0;
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < p.c_width(); ++column) {
        const auto place = static_cast<std::size_t>(row * p.c_width() + column);
        const auto got = static_cast<double>(core::to_float(c.data()[place]));
        if (column >= n) {
          if (!std::isnan(got)) return INFINITY;
          continue;
        }
        double wanted = kernels::exact(left, right, row, column, k);
        if (at.beta == Beta::kOne) wanted += static_cast<double>(core::to_float(before[place]));
        error += (got - wanted) * (got - wanted);
        square += wanted * wanted;
      }
    }
    return std::sqrt(error / square);
  }

  void expect(const Case& at) {
    const double error = error_of(at);
    EXPECT_TRUE(error < kernels::kProductTolerance<C>)
        << error << " of " << at.product.shape.m << " x " << at.product.shape.n << " x "
        << at.product.shape.k << ", forms " << static_cast<int>(at.product.a_form) << " and "
        << static_cast<int>(at.product.b_form) << ", slack " << at.product.slack << ", beta "
        << static_cast<int>(at.beta) << ", offset " << at.offset << (at.apart ? ", apart" : "");
  }

  CardProducts products_{"GPU 0 (fake)"};
  Room room_;
};
TYPED_TEST_SUITE(ProductsOf, kernels::AllProductTypes);

TYPED_TEST(ProductsOf, EqualThreeLoopsInAllFormsWithStridesAndBetas) {
  for (const GemmShape shape : {GemmShape{1, 1, 1}, GemmShape{7, 5, 3}, GemmShape{16, 33, 31},
                                GemmShape{1, 129, 64}, GemmShape{130, 1, 65}, GemmShape{33, 17, 1},
                                GemmShape{64, 40, 200}, GemmShape{96, 80, 48}}) {
    for (const Form a : kForms) {
      for (const Form b : kForms) {
        for (const std::int64_t slack : {0, 3, 8}) {
          this->expect({{shape, a, b, slack}, Beta::kZero});
          this->expect({{shape, a, b, slack}, Beta::kOne});
          this->expect({{shape, a, b, slack}, Beta::kOne, 0, true});
        }
      }
    }
  }
}

TYPED_TEST(ProductsOf, EqualThreeLoopsWhateverTheAlignment) {
  for (const std::size_t offset : {1, 2, 4, 8, 16}) {
    for (const Form a : kForms) {
      this->expect({{{24, 16, 32}, a, Form::kAsIs, 0}, Beta::kOne, offset});
      this->expect({{{24, 16, 32}, a, Form::kAsIs, 0}, Beta::kOne, offset, true});
    }
  }
}

// A set of operands for the tests below, of which it does not matter what they hold.
struct Small {
  Room room;
  Shifted<Bf16> a{std::vector<Bf16>(4096), 0};
  Shifted<Bf16> b{std::vector<Bf16>(4096), 0};
  Shifted<float> c{std::vector<float>(4096), 0};
  Shifted<Bf16> narrow{std::vector<Bf16>(4096), 0};
};

TEST(CardProducts, AskTheLibraryOncePerProduct) {
  Small at;
  CardProducts products("GPU 0 (fake)");
  long asked = calls_of("heuristic");
  // How often it was asked since the call before.
  const auto times = [&] {
    const long before = asked;
    asked = calls_of("heuristic");
    return asked - before;
  };
  const auto multiply = [&](const GemmShape& shape, const Operand<Bf16>& a, const Operand<Bf16>& b,
                            const Target<float>& c) {
    products.multiply(nullptr, at.room.get(), shape, a, b, c);
    products.multiply(nullptr, at.room.get(), shape, a, b, c);
    return times();
  };
  const Operand<Bf16> a{at.a.data(), 32};
  const Operand<Bf16> b{at.b.data(), 32};
  const Target<float> c{at.c.data(), 32};
  const GemmShape shape{32, 32, 32};
  EXPECT_EQ(multiply(shape, a, b, c), 1);
  EXPECT_EQ(multiply(shape, a, b, c), 0);
  EXPECT_EQ(multiply(shape, {at.a.data() + 128, 32}, b, c), 0) << "elsewhere, aligned alike";
  EXPECT_EQ(multiply({31, 32, 32}, a, b, c), 1) << "another shape";
  EXPECT_EQ(multiply(shape, {at.a.data(), 32, Form::kTransposed}, b, c), 1) << "another form";
  EXPECT_EQ(multiply(shape, a, {at.b.data(), 32, Form::kTransposed}, c), 1) << "another form";
  EXPECT_EQ(multiply(shape, {at.a.data(), 40}, b, c), 1) << "another stride";
  EXPECT_EQ(multiply(shape, a, {at.b.data(), 40}, c), 1) << "another stride";
  EXPECT_EQ(multiply(shape, a, b, {at.c.data(), 40}), 1) << "another stride";
  EXPECT_EQ(multiply(shape, a, b, {at.c.data(), 32, Beta::kOne}), 1) << "another beta";
  EXPECT_EQ(multiply(shape, {at.a.data() + 1, 32}, b, c), 1) << "another alignment";
  EXPECT_EQ(multiply(shape, a, {at.b.data() + 1, 32}, c), 1) << "another alignment";
  EXPECT_EQ(multiply(shape, a, b, {at.c.data() + 1, 32}), 1) << "another alignment";
  products.multiply(nullptr, at.room.get(), shape, a, b, Target<Bf16>{at.narrow.data(), 32});
  EXPECT_EQ(times(), 1) << "another type";
  products.multiply(nullptr, {}, shape, a, b, c);
  EXPECT_EQ(times(), 1) << "another workspace";
  EXPECT_EQ(last_algorithm(), 0);
}

TEST(CardProducts, GiveBackAllThatTheyMade) {
  const long before = living();
  {
    Small at;
    CardProducts products("GPU 0 (fake)");
    products.multiply(nullptr, at.room.get(), {8, 8, 8}, Operand<Bf16>{at.a.data(), 8},
                      Operand<Bf16>{at.b.data(), 8}, Target<float>{at.c.data(), 8});
    EXPECT_EQ(living(), before + 5) << "a handle, an operation and three layouts";
  }
  EXPECT_EQ(living(), before);
}

TEST(CardProducts, WithoutARowColumnOrTermAddNothing) {
  Small at;
  at.c.data()[0] = 5.0F;
  CardProducts products("GPU 0 (fake)");
  const long before = calls_of("matmul");
  const auto multiply = [&](const GemmShape& shape, Beta beta) {
    products.multiply(nullptr, at.room.get(), shape, Operand<Bf16>{at.a.data(), 8},
                      Operand<Bf16>{at.b.data(), 8}, Target<float>{at.c.data(), 8, beta});
  };
  multiply({0, 8, 8}, Beta::kZero);
  multiply({8, 0, 8}, Beta::kZero);
  multiply({8, 8, 0}, Beta::kOne);
  EXPECT_EQ(calls_of("matmul"), before);
  EXPECT_EQ(at.c.data()[0], 5.0F);
  EXPECT_THROW(multiply({8, 8, 0}, Beta::kZero), core::BugError);
}

TEST(CardProducts, MayRoundFp32OperandsWhereAsked) {
  const std::vector<float> ones(64, 1.0F);
  const Shifted<float> a(ones, 0);
  const Shifted<float> c(ones, 0);
  Room room;
  CardProducts products("GPU 0 (fake)", {.fp32 = Fp32Products::kTf32});
  products.multiply(nullptr, room.get(), {8, 8, 8}, Operand<float>{a.data(), 8},
                    Operand<float>{a.data(), 8}, Target<float>{c.data(), 8});
  EXPECT_EQ(c.data()[63], 8.0F);
  // The fake library takes TF32 for fp32 alone.
  Small at;
  products.multiply(nullptr, at.room.get(), {8, 8, 8}, Operand<Bf16>{at.a.data(), 8},
                    Operand<Bf16>{at.b.data(), 8}, Target<float>{at.c.data(), 8});
}

TEST(CardProducts, NameTheLibrary) {
  EXPECT_EQ(CardProducts("GPU 0 (fake)").library(), "cuBLASLt 13.1.0");
}

TEST(CardProducts, WithoutADeviceSayWhatToDo) {
  const Variable fault("FME_FAKE_CUBLASLT", "create");
  const std::string message = message_of<core::MachineError>(
      core::ExitCode::kDeviceFailed, [] { const CardProducts products("GPU 0 (fake)"); });
  EXPECT_EQ(message,
            "cuBLASLt must be able to use the device; check `nvidia-smi`, and that the driver "
            "knows CUDA 13 (cublasLtCreate: CUBLAS_STATUS_NOT_INITIALIZED; GPU 0 (fake); " +
                fake_library_path() + ")");
}

TEST(CardProducts, WithoutMemoryForTheLibrarySaySo) {
  const Variable fault("FME_FAKE_CUBLASLT", "create_memory");
  const std::string message = message_of<core::MachineError>(
      core::ExitCode::kOutOfMemory, [] { const CardProducts products("GPU 0 (fake)"); });
  EXPECT_TRUE(has(message, "cuBLASLt needs memory of the device; ")) << message;
}

// The message of a product that fails there.
std::string failure_of(const char* where, const Workspace& workspace) {
  Small at;
  CardProducts products("GPU 0 (fake)");
  const Variable fault("FME_FAKE_CUBLASLT", where);
  return message_of<core::MachineError>(core::ExitCode::kDeviceFailed, [&] {
    products.multiply(
        nullptr, workspace, {2, 3, 4}, Operand<Bf16>{at.a.data() + 8, 8, Form::kTransposed},
        Operand<Bf16>{at.b.data(), 16}, Target<float>{at.c.data() + 1, 32, Beta::kOne});
  });
}

TEST(CardProducts, ThatFailNameCallStatusAndProduct) {
  const std::string product =
      "; m=2, n=3, k=4: A bf16 [k, m] stride 8 aligned to 16, B bf16 [k, n] stride 16 aligned to "
      "16, C fp32 [m, n] stride 32 aligned to 4, D aligned to 4, beta 1, workspace 8192; cuBLASLt "
      "13.1.0; GPU 0 (fake))";
  const std::string start =
      "cuBLASLt must be able to compute a matrix product; report it, and try another version of "
      "the package nvidia-cublas (";
  const Room room;
  EXPECT_EQ(failure_of("heuristic", room.get()),
            start + "cublasLtMatmulAlgoGetHeuristic: CUBLAS_STATUS_INVALID_VALUE" + product);
  EXPECT_EQ(failure_of("none_found", room.get()),
            start +
                "cublasLtMatmulAlgoGetHeuristic, which found no algorithm: "
                "CUBLAS_STATUS_NOT_SUPPORTED" +
                product);
  EXPECT_EQ(failure_of("matmul", room.get()),
            start + "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED" + product);
}

TEST(CardProducts, TheFakeLibraryRefusesAStrideBelowTheWidthAndAShiftedWorkspace) {
  Small at;
  CardProducts products("GPU 0 (fake)");
  const auto multiply = [&](const Workspace& workspace, std::int64_t stride) {
    return message_of<core::MachineError>(core::ExitCode::kDeviceFailed, [&] {
      products.multiply(nullptr, workspace, {8, 8, 8}, Operand<Bf16>{at.a.data(), stride},
                        Operand<Bf16>{at.b.data(), 8}, Target<float>{at.c.data(), 8});
    });
  };
  EXPECT_EQ(multiply(at.room.get(), 8), "nothing was thrown");
  EXPECT_TRUE(has(multiply(at.room.get(), 7), "CUBLAS_STATUS_INVALID_VALUE"));
  const Workspace room = at.room.get();
  EXPECT_TRUE(has(multiply({static_cast<char*>(room.data) + 16, room.bytes - core::Bytes(256)}, 8),
                  "CUBLAS_STATUS_INVALID_VALUE"));
}

// A queue whose tasks wait until they are called, and whose device has its memory elsewhere.
class WaitingQueue : public core::Queue, public kernels::cuda::Stream, public Multiplies {
 public:
  explicit WaitingQueue(CardProducts& products) : products_(products) { fill_products(kernels_); }
  ~WaitingQueue() override {
    for (const Task& task : tasks_) task.drop(task.data);
  }
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;

  const core::QueueKernels& kernels() const override { return kernels_; }
  core::MemorySource& memory() override { throw core::BugError("no memory"); }
  void copy_in(const void*, void*, core::Bytes) override {}
  void copy_out(const void*, void*, core::Bytes) override {}
  void forget(void*, core::Bytes) override {}
  void tell_time(std::int64_t*) override {}
  core::EventPtr record() override { return nullptr; }
  void wait(core::EventPtr) override {}

  void* handle() const override { return const_cast<WaitingQueue*>(this); }
  Workspace workspace() const override { return {at(room_.get().data), room_.get().bytes}; }
  int multiprocessors() const override { return 1; }
  void check_start(const char*) const override {}
  CardProducts& products() const override { return products_; }

  const kernels::DeviceProductTable& table() const { return kernels_.products; }
  std::size_t waiting() const { return tasks_.size(); }
  void run_one() {
    const Task task = tasks_.front();
    tasks_.pop_front();
    task.run(task.data);
    task.drop(task.data);
  }

  // The device's address of what lies here. Nobody may touch it.
  template <class T>
  static T* at(T* here) {
    return std::bit_cast<T*>(std::bit_cast<std::uintptr_t>(here) ^ kElsewhere);
  }
  static const void* here(void* queue, const void* pointer) {
    EXPECT_NE(queue, nullptr);
    return at(pointer);
  }
  static void add(void* queue, void (*run)(void*), void* data, void (*drop)(void*)) {
    static_cast<WaitingQueue*>(queue)->tasks_.push_back({run, data, drop});
  }

 private:
  static constexpr std::uintptr_t kElsewhere = std::uintptr_t{1} << 62;
  struct Task {
    void (*run)(void*);
    void* data;
    void (*drop)(void*);
  };
  CardProducts& products_;
  kernels::DeviceKernels kernels_;
  Room room_;
  std::deque<Task> tasks_;
};

TEST(CardProducts, OfAQueueRunInItsTimeInMemoryOfItsDevice) {
  fake_function<decltype(fme_fake_run_on)>("fme_fake_run_on")(&WaitingQueue::add);
  fake_function<decltype(fme_fake_translate)>("fme_fake_translate")(&WaitingQueue::here);
  CardProducts products("GPU 0 (fake)");
  const Shifted<float> ones(std::vector<float>(64, 1.0F), 0);
  const Shifted<float> c(std::vector<float>(64, NAN), 0);
  {
    WaitingQueue queue(products);
    const core::Work work{.arena = {}, .queue = &queue};
    const Operand<float> x{WaitingQueue::at(ones.data()), 8};
    for (const Beta beta : {Beta::kZero, Beta::kOne, Beta::kOne}) {
      queue.table().fp32.gemm(work, {8, 8, 8}, x, x, {WaitingQueue::at(c.data()), 8, beta});
    }
    ASSERT_EQ(queue.waiting(), 3U);
    EXPECT_TRUE(std::isnan(c.data()[0])) << "nothing has run";
    queue.run_one();
    EXPECT_EQ(c.data()[63], 8.0F);
    queue.run_one();
    EXPECT_EQ(c.data()[63], 16.0F);
  }
  EXPECT_EQ(c.data()[63], 16.0F) << "what the queue drops does not run";
  fake_function<decltype(fme_fake_run_on)>("fme_fake_run_on")(nullptr);
  fake_function<decltype(fme_fake_translate)>("fme_fake_translate")(nullptr);
}

TEST(CardProducts, FillTheirPlacesOfTheTable) {
  kernels::DeviceKernels table;
  fill_products(table);
  EXPECT_NE(table.products.fp32.gemm, nullptr);
  EXPECT_EQ(table.products.fp32.narrow_gemm, nullptr);
  EXPECT_NE(table.products.bf16.gemm, nullptr);
  EXPECT_NE(table.products.bf16.narrow_gemm, nullptr);
  EXPECT_NE(table.products.fp16.gemm, nullptr);
  EXPECT_NE(table.products.fp16.narrow_gemm, nullptr);
  EXPECT_EQ(table.products.bf16.attention_forward, nullptr);
}

}  // namespace
}  // namespace fm::device::cuda
