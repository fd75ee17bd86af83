// What a drive gives to a store of sleeping bytes, by engine, depth and block, beside what it gives
// to threads that do nothing else. disk_benchmark FOLDER [MIB] [flags of Google Benchmark]
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/check.h"
#include "offload/disk_store.h"

namespace fm {
namespace {

using core::Bytes;
using Method = offload::DiskOptions::Method;

struct Where {
  std::string folder;
  Bytes bytes;
};

void tell(benchmark::State& state, const offload::DiskRates& rates) {
  state.counters["read_GB_s"] = rates.read / 1e9;
  state.counters["write_GB_s"] = rates.write / 1e9;
  state.counters["both_GB_s"] = rates.both / 1e9;
}

void store_rates(benchmark::State& state, const Where& where, offload::DiskOptions options) {
  const auto store = offload::open_disk({.folders = {where.folder}}, options, where.bytes);
  for (auto _ : state) tell(state, offload::measure_rates(*store, Bytes(8 << 20)));
  state.SetLabel(store->describe());
}

// A file of the benchmark's own, whose blocks threads move side by side: what "fio --direct=1
// --ioengine=psync --numjobs=N" does.
class PlainFile {
 public:
  PlainFile(const Where& where, std::size_t block, int threads)
      : bytes_(where.bytes.count()), block_(block), threads_(threads) {
    const std::string path = where.folder + "/plain";
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
    FM_CHECK(fd_ >= 0 && ::posix_fallocate(fd_, 0, bytes_) == 0, "a plain file in ", path);
    ::unlink(path.c_str());
  }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;
  ~PlainFile() { ::close(fd_); }

  // `readers` of the threads read, the others write; bytes per second of all.
  double rate(int readers) {
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> all;
      for (int thread = 0; thread < threads_; ++thread) {
        all.emplace_back([=, this] { move(thread, thread < readers); });
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(bytes_) / seconds.count();
  }

 private:
  void move(int thread, bool reads) {
    void* const memory = std::aligned_alloc(4096, block_);
    const std::int64_t blocks = bytes_ / static_cast<std::int64_t>(block_);
    for (std::int64_t at = thread; at < blocks; at += threads_) {
      const off_t offset = at * static_cast<off_t>(block_);
      const ssize_t moved =
          reads ? ::pread(fd_, memory, block_, offset) : ::pwrite(fd_, memory, block_, offset);
      FM_CHECK(moved == static_cast<ssize_t>(block_), "a plain block");
    }
    std::free(memory);
  }

  std::int64_t bytes_;
  std::size_t block_;
  int threads_;
  int fd_;
};

void plain_rates(benchmark::State& state, const Where& where, std::size_t block, int threads) {
  PlainFile file(where, block, threads);
  file.rate(0);
  for (auto _ : state) {
    offload::DiskRates rates;
    rates.write = file.rate(0);
    rates.read = file.rate(threads);
    rates.both = threads > 1 ? file.rate(threads / 2) : 0.0;
    tell(state, rates);
  }
  state.SetLabel("pread and pwrite, O_DIRECT");
}

struct Engine {
  const char* name;
  Method method;
  bool direct;
  bool checks;
};
constexpr Engine kEngines[] = {{"uring", Method::kUring, true, true},
                               {"uring_unchecked", Method::kUring, true, false},
                               {"threads", Method::kThreads, true, true},
                               {"page_cache", Method::kThreads, false, true}};

void add_all(const Where& where) {
  const auto finish = [](benchmark::internal::Benchmark* one) {
    one->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  for (const int block_kib : {256, 1024, 4096}) {
    for (const int depth : {1, 4, 8, 32}) {
      const std::string at = "/" + std::to_string(depth) + "x" + std::to_string(block_kib) + "KiB";
      const std::int64_t block = std::int64_t{block_kib} << 10;
      finish(benchmark::RegisterBenchmark(("plain" + at).c_str(), [=](benchmark::State& state) {
        plain_rates(state, where, static_cast<std::size_t>(block), depth);
      }));
      for (const Engine& engine : kEngines) {
        const offload::DiskOptions options{.block_bytes = block,
                                           .queue_depth = depth,
                                           .method = engine.method,
                                           .direct = engine.direct,
                                           .checks = engine.checks};
        finish(benchmark::RegisterBenchmark(
            (engine.name + at).c_str(),
            [=](benchmark::State& state) { store_rates(state, where, options); }));
      }
    }
  }
}

}  // namespace
}  // namespace fm

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc < 2) {
    std::fprintf(stderr, "disk_benchmark FOLDER [MIB] is expected\n");
    return 10;
  }
  const std::int64_t mib = argc > 2 ? std::atoll(argv[2]) : 1024;
  std::filesystem::create_directories(argv[1]);
  fm::add_all({.folder = argv[1], .bytes = fm::core::Bytes(mib << 20)});
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
