// FME_GEMM=tuned: algorithms that compete by a clock of the test, and the file of the winners.
#include "device/cuda/tuned_products.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "device/cuda/cublaslt.h"
#include "tests/cuda/fake_library.h"

namespace fm::device::cuda {
namespace {

namespace fs = std::filesystem;
using core::Bf16;
using kernels::Operand;
using kernels::Target;

Variable kLibraries("FME_CUDA_LIBS", FM_FAKE_LIBRARIES);

// Times by algorithm: the first round costs 100 ms more. Laps come `delay` looks after their end.
class FakeClock : public LapClock {
 public:
  std::unique_ptr<Lap> begin(void*) override { return std::make_unique<FakeLap>(*this); }

  std::map<int, double> times;
  int delay = 0;
  std::vector<int> timed;  // algorithms, in order

 private:
  class FakeLap : public Lap {
   public:
    explicit FakeLap(FakeClock& clock) : clock_(clock) {}
    void end() override {
      const int algorithm = last_algorithm();
      const bool first = std::ranges::find(clock_.timed, algorithm) == clock_.timed.end();
      time_ = clock_.times.at(algorithm) + (first ? 100.0 : 0.0);
      clock_.timed.push_back(algorithm);
      has_ended_ = true;
    }
    std::optional<double> milliseconds() override {
      EXPECT_TRUE(has_ended_);
      return looks_++ < clock_.delay ? std::nullopt : std::optional(time_);
    }

   private:
    FakeClock& clock_;
    double time_ = 0.0;
    int looks_ = 0;
    bool has_ended_ = false;
  };
};

class TunedProducts : public testing::Test {
 protected:
  TunedProducts() {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("fm_tuned_") + test->name());
    fs::remove_all(folder_);
    // The fake library answers 6 algorithms where all is aligned.
    clock_.times = {{0, 5.0}, {1, 4.0}, {2, 2.5}, {3, 3.0}, {4, 7.0}, {5, 8.0}};
  }
  ~TunedProducts() override { fs::remove_all(folder_); }

  Tuning tuning(const std::string& driver = "580.65") {
    return {&clock_, folder_, "NVIDIA H100 80GB", driver,
            [this](const std::string& text) { warnings_.push_back(text); }};
  }
  // The algorithm that was used.
  int multiply(CardProducts& products, std::int64_t side = 16, std::int64_t from = 0) {
    products.multiply(nullptr, {room_, core::Bytes(4096)}, {side, 16, 16},
                      Operand<Bf16>{a_ + from, 16}, Operand<Bf16>{a_, 16}, Target<float>{c_, 16});
    return last_algorithm();
  }
  std::vector<int> used(CardProducts& products, int times) {
    std::vector<int> algorithms;
    for (int i = 0; i < times; ++i) algorithms.push_back(multiply(products));
    return algorithms;
  }
  fs::path file() const {
    return folder_ / "products-NVIDIA_H100_80GB-580.65-cuBLASLt_13.1.0.json";
  }
  std::string text_of_file() const {
    std::ostringstream text;
    text << std::ifstream(file()).rdbuf();
    return text.str();
  }
  void write_file(const std::string& text) {
    fs::create_directories(folder_);
    std::ofstream(file()) << text;
  }

  fs::path folder_;
  FakeClock clock_;
  std::vector<std::string> warnings_;
  alignas(256) Bf16 a_[512] = {};
  alignas(256) float c_[512] = {};
  alignas(256) char room_[4096] = {};
};

constexpr const char* kProduct =
    "m=16, n=16, k=16: A bf16 [m, k] stride 16 aligned to 16, B bf16 [k, n] stride 16 aligned to "
    "16, C fp32 [m, n] stride 16 aligned to 16, D aligned to 16, beta 0, workspace 4096";

TEST_F(TunedProducts, TakeTheFastestAfterThreeRounds) {
  CardProducts products("GPU 0", {.tuning = tuning()});
  const std::vector<int> round = {0, 1, 2, 3, 4, 5};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(used(products, 6), round) << i;
  EXPECT_EQ(used(products, 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(clock_.timed.size(), 18U) << "the winner is not timed";
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TunedProducts, CompareTheLeastTimeAndLeaveOutTheFirst) {
  Contest contest(2);
  struct Known : Lap {
    explicit Known(double time) : time_(time) {}
    void end() override {}
    std::optional<double> milliseconds() override { return time_; }
    double time_;
  };
  // Rounds: (1, 50), (9, 8), (6, 7): without the first, the least are 6 and 7.
  for (const double time : {1.0, 50.0, 9.0, 8.0, 6.0, 7.0}) {
    EXPECT_EQ(contest.winner(), std::nullopt);
    contest.keep(std::make_unique<Known>(time));
  }
  EXPECT_EQ(contest.winner(), 0);
}

TEST_F(TunedProducts, UseTheFirstAnswerUntilTheDeviceIsDone) {
  clock_.delay = 20;
  CardProducts products("GPU 0", {.tuning = tuning()});
  used(products, 18);
  EXPECT_EQ(used(products, 3), (std::vector<int>{0, 0, 0}));
  used(products, 20);
  EXPECT_EQ(used(products, 3), (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(clock_.timed.size(), 18U);
}

TEST_F(TunedProducts, KeepWinnersInAFileThatTheNextRunReads) {
  {
    CardProducts products("GPU 0", {.tuning = tuning()});
    used(products, 18);
  }
  const nlohmann::json kept = {{"format", 1},
                               {"card", "NVIDIA H100 80GB"},
                               {"driver", "580.65"},
                               {"library", "cuBLASLt 13.1.0"},
                               {"winners", {{kProduct, 2}}}};
  EXPECT_EQ(nlohmann::json::parse(text_of_file()), kept);
  clock_.timed.clear();
  CardProducts again("GPU 0", {.tuning = tuning()});
  EXPECT_EQ(used(again, 3), (std::vector<int>{2, 2, 2}));
  EXPECT_TRUE(clock_.timed.empty());
  multiply(again, 15);
  EXPECT_EQ(clock_.timed.size(), 1U) << "another shape competes";
  CardProducts newer("GPU 0", {.tuning = tuning("590.00")});
  multiply(newer);
  EXPECT_EQ(clock_.timed.size(), 2U) << "with another driver all compete again";
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TunedProducts, AddToWhatOtherRanksHaveFound) {
  CardProducts first("GPU 0", {.tuning = tuning()});
  CardProducts second("GPU 1", {.tuning = tuning()});
  for (int i = 0; i < 18; ++i) multiply(first, 16);
  for (int i = 0; i < 18; ++i) multiply(second, 8);
  EXPECT_EQ(nlohmann::json::parse(text_of_file()).at("winners").size(), 2U);
}

TEST_F(TunedProducts, LeaveOutAFileThatIsNotTheirs) {
  for (const std::string text :
       {R"({"format": 1, "card": "another", "driver": "580.65", "library": "cuBLASLt 13.1.0",
            "winners": {}})",
        R"({"format": 2})", "no JSON", R"({"format": 1, "card": 7})"}) {
    write_file(text);
    warnings_.clear();
    clock_.timed.clear();
    CardProducts products("GPU 0", {.tuning = tuning()});
    used(products, 18);
    EXPECT_EQ(clock_.timed.size(), 18U);
    ASSERT_EQ(warnings_.size(), 1U) << text;
    EXPECT_TRUE(has(warnings_[0], "the run goes on without it (" + file().string() + ": "))
        << warnings_[0];
    EXPECT_EQ(nlohmann::json::parse(text_of_file()).at("winners").size(), 1U) << "it is replaced";
  }
}

TEST_F(TunedProducts, LeaveOutAWinnerThatTheLibraryDoesNotAnswer) {
  write_file(std::string(R"({"format": 1, "card": "NVIDIA H100 80GB", "driver": "580.65",
                 "library": "cuBLASLt 13.1.0", "winners": {")") +
             kProduct + R"(": 6}})");
  CardProducts products("GPU 0", {.tuning = tuning()});
  used(products, 18);
  EXPECT_EQ(clock_.timed.size(), 18U);
  EXPECT_EQ(multiply(products), 2);
}

TEST_F(TunedProducts, GoOnWhereTheFileCannotBeWritten) {
  std::ofstream(folder_.string()) << "a file where the folder should be";
  CardProducts products("GPU 0", {.tuning = tuning()});
  used(products, 18);
  for (int i = 0; i < 18; ++i) multiply(products, 8);
  EXPECT_EQ(multiply(products), 2);
  EXPECT_EQ(warnings_.size(), 1U) << "once";
}

TEST_F(TunedProducts, OfOneAnswerDoNotCompete) {
  ProductOptions options{.tuning = tuning()};
  options.tuning.clock = nullptr;
  CardProducts products("GPU 0", options);
  EXPECT_EQ(used(products, 3), (std::vector<int>{0, 0, 0}));
  EXPECT_TRUE(clock_.timed.empty());
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace fm::device::cuda
