// Which of cuBLASLt's algorithms is the fastest of a product, found by timing the run's own
// products (FME_GEMM=tuned): 3 rounds through the algorithms, each call one of them, so every
// result counts. The first round, in which the library loads its kernels, is not compared.
//
// Algorithms sum in different orders. A run that finds winners does not repeat itself bit for bit;
// one that has all of them from the file does.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fm::device::cuda {

// The time of what a stream runs between two moments.
//
// Thread:   one.
// Lifetime: as its clock.
class Lap {
 public:
  virtual ~Lap() = default;
  virtual void end() = 0;  // behind all that is queued by now
  // Nothing before the stream has passed both moments. Does not wait for it.
  virtual std::optional<double> milliseconds() = 0;
};
class LapClock {
 public:
  virtual ~LapClock() = default;
  // From behind all that the stream (a cudaStream_t) has queued by now.
  virtual std::unique_ptr<Lap> begin(void* stream) = 0;
};

struct Tuning {
  LapClock* clock = nullptr;     // null: the library's first answer, never from a timing
  std::filesystem::path folder;  // of the file of winners; "": none is kept
  std::string card;              // the file's name tells these and the library's version
  std::string driver;
  std::function<void(const std::string&)> warn;  // a file that cannot be read or written
};

// The algorithms of one product compete: number 0 to `answers` - 1, at least one.
//
// Thread:   one.
// Lifetime: as the clock's.
class Contest {
 public:
  explicit Contest(int answers) : best_(static_cast<std::size_t>(answers)) {}

  // Which one is next; 0 when all have been and the device is not done with them.
  int turn() const;
  // Whether it is timed.
  bool wants_laps() const { return begun_ < kRounds * answers(); }
  void keep(std::unique_ptr<Lap> lap);  // of turn(); it has ended
  // Once all laps have their time.
  std::optional<int> winner();

 private:
  static constexpr int kRounds = 3;
  int answers() const { return static_cast<int>(best_.size()); }

  struct Begun {
    int number;  // in order of beginning
    std::unique_ptr<Lap> lap;
  };
  std::vector<std::optional<double>> best_;  // of each, milliseconds
  std::vector<Begun> under_way_;
  int begun_ = 0;
};

// The file of winners: FOLDER/products-CARD-DRIVER-LIBRARY.json,
//   {"format": 1, "card": text, "driver": text, "library": text, "winners": {product: number}}
// where a product is named with all that its algorithms depend on. Ranks may share the file: each
// adds its own to what it finds there.
//
// Thread:   one.
// Lifetime: any.
class Winners {
 public:
  // Reads the file; one that is bad or somebody else's counts as none, with a warning.
  Winners(Tuning tuning, std::string library);

  std::optional<int> find(const std::string& product) const;
  // The file has it, too, when this returns, or there is a warning.
  void add(const std::string& product, int number);

  const std::filesystem::path& path() const { return path_; }

 private:
  void read();
  void warn(const std::string& problem);  // once

  Tuning tuning_;
  std::string library_;
  std::filesystem::path path_;
  std::map<std::string, int> numbers_;
  bool has_warned_ = false;
};

}  // namespace fm::device::cuda
