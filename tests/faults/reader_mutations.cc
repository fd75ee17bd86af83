// reader_mutations [--count N] [--seed N] [--reader NAME] [--keep FOLDER]
//
// N damaged inputs over all readers, each read in a child process with a limit on its memory and
// its processor time. A reader takes an input, or refuses it as a wrong file (10, 11, and where the
// table says so 12 or 25). Anything else is a violation, whose input is kept: a signal, another
// error, more memory than kMostBytes and kTimesFile of the files, no end within kMostSeconds.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <new>

#include "core/check.h"
#include "tests/faults/readers.h"
#include "tests/text/data/scratch_folder.h"

namespace fm::faults {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 30;
constexpr std::size_t kTimesFile = 64;
constexpr int kMostSeconds = 40;     // of processor time
constexpr int kMostWait = 600;       // of any time: a wait that nothing ends
constexpr std::size_t kAtOnce = 50;  // inputs of one child

struct Options {
  std::size_t count = 600;
  std::uint64_t seed = 1;
  std::string reader;
  fs::path keep;
};

// What a child says about the inputs that it has read; in memory that both see.
struct Progress {
  std::size_t next;  // the input that is being read
  int code;          // of the last one; -1: it is a violation
  std::size_t codes[64];
  char said[300];
};

std::string gzip(const std::string& text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

// Damage beneath the packing and of it.
std::string damaged(const Reader& reader, const SeedFile& file, Random& random) {
  if (reader.packed == Packed::kNot) return mutated(file.content, file.kind, random);
  std::string content = file.content;
  if (below(random, 3) == 0) content = mutated(content, Kind::kJsonLines, random);
  if (below(random, 20) == 0) content += std::string(std::size_t{1} << below(random, 24), 'a');
  const std::string packed = reader.packed == Packed::kGzip ? gzip(content) : zstd(content);
  return below(random, 4) == 0 ? packed : mutated(packed, Kind::kBytes, random);
}

// The files of input `number`; 0: the seeds as they are. Returns their bytes.
std::size_t write_input(const Reader& reader, std::size_t number, std::uint64_t seed,
                        const fs::path& folder) {
  Random random(seed * 1'000'003 + number * 7919 + std::hash<std::string>()(reader.name));
  const std::vector<SeedFile>& files = reader.seeds[below(random, reader.seeds.size())];
  std::vector<std::size_t> free;
  for (std::size_t at = 0; at < files.size(); ++at) {
    if (!files[at].fixed) free.push_back(at);
  }
  const std::size_t changed = free.empty() ? files.size() : free[below(random, free.size())];
  std::size_t bytes = 0;
  for (std::size_t at = 0; at < files.size(); ++at) {
    std::string content = files[at].content;
    if (reader.patterns) {
      const std::string pattern = number == 0 ? "a+" : random_pattern(random);
      std::string escaped;
      for (const char letter : pattern) {
        if (letter == '\\' || letter == '"') escaped += '\\';
        escaped += letter;
      }
      content.replace(content.find("@pattern@"), 9, escaped);
    }
    if (at == changed && number > 0) {
      content = damaged(reader, files[at], random);
    } else if (reader.packed != Packed::kNot) {
      content = reader.packed == Packed::kGzip ? gzip(content) : zstd(content);
    }
    bytes += content.size();
    std::ofstream(folder / files[at].name, std::ios::binary) << content;
  }
  return bytes;
}

std::size_t mapped_bytes() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void set_limits(std::size_t file_bytes, std::size_t before) {
  const rlimit memory{before + kMostBytes + kTimesFile * file_bytes, RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &memory);
  const itimerval busy{{}, {kMostSeconds, 0}};
  ::setitimer(ITIMER_PROF, &busy, nullptr);
  ::alarm(kMostWait);
}

// The exit code of a program that reads this; -1, with what is wrong in `said`.
int read_input(const Reader& reader, const fs::path& folder, char (&said)[300]) {
  const auto note = [&](const char* what) { std::strncpy(said, what, sizeof(said) - 1); };
  said[0] = '\0';
  try {
    reader.read(folder);
    return 0;
  } catch (const core::Error& error) {
    note(error.what());
    const int code = static_cast<int>(error.code());
    const bool known = code == 10 || code == 11 || std::ranges::count(reader.codes, code) > 0;
    return known && said[0] != '\0' ? code : -1;
  } catch (const std::bad_alloc&) {
    note("more memory than allowed");
    return std::ranges::count(reader.codes, 25) > 0 ? 25 : -1;
  } catch (const std::exception& error) {
    note(error.what());
    return -1;
  }
}

[[noreturn]] void run_child(const Reader& reader, const Options& options, std::size_t end,
                            const fs::path& scratch, Progress& progress) {
  const std::size_t before = mapped_bytes();
  for (; progress.next < end; ++progress.next) {
    const fs::path folder = scratch / "input";
    fs::remove_all(folder);  // a child may have died in it
    fs::create_directory(folder);
    set_limits(write_input(reader, progress.next, options.seed, folder), before);
    progress.code = read_input(reader, folder, progress.said);
    if (progress.next == 0 && progress.code > 0) progress.code = -1;  // a good file is taken
    if (progress.code < 0) std::_Exit(1);
    ++progress.codes[progress.code];
  }
  std::_Exit(0);
}

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        progress_(*static_cast<Progress*>(::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}

  // Inputs 0 to count of one reader.
  void read(const Reader& reader, std::size_t count) {
    const auto begin = std::chrono::steady_clock::now();
    std::memset(&progress_, 0, sizeof(progress_));
    std::size_t wrong = 0;
    while (progress_.next < count) {
      const std::size_t end = std::min(count, progress_.next + kAtOnce);
      const pid_t child = ::fork();
      if (child == 0) run_child(reader, options_, end, scratch_.path(), progress_);
      int status = 0;
      ::waitpid(child, &status, 0);
      if (status == 0) continue;
      ++wrong;
      violation(reader, status);
      ++progress_.next;
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    print(reader.name, progress_.codes, wrong, count, spent.count());
    for (std::size_t code = 0; code < std::size(all_); ++code) all_[code] += progress_.codes[code];
    inputs_ += count;
    violations_ += wrong;
    seconds_ += spent.count();
  }

  void print_head() const {
    std::printf("%-26s %7s %7s %7s %7s %7s %7s\n", "reader", "inputs", "taken", "10", "11",
                "12, 25", "wrong");
  }
  // The exit code.
  int finish() const {
    print("all", all_, violations_, inputs_, seconds_);
    return violations_ > 0 ? 1 : 0;
  }

 private:
  void violation(const Reader& reader, int status) const {
    const std::size_t number = progress_.next;
    const std::string what = !WIFSIGNALED(status)          ? progress_.said
                             : WTERMSIG(status) == SIGPROF ? "no end"
                             : WTERMSIG(status) == SIGALRM ? "a wait without end"
                                                           : ::strsignal(WTERMSIG(status));
    std::printf("VIOLATION %s, input %zu, seed %llu: %s\n", reader.name.c_str(), number,
                static_cast<unsigned long long>(options_.seed), what.c_str());
    std::fflush(stdout);
    if (options_.keep.empty()) return;
    const fs::path folder = options_.keep / (reader.name + "-" + std::to_string(number));
    fs::create_directories(folder);
    write_input(reader, number, options_.seed, folder);
  }

  static void print(const std::string& name, const std::size_t (&codes)[64], std::size_t wrong,
                    std::size_t count, double seconds) {
    std::printf("%-26s %7zu %7zu %7zu %7zu %7zu %7zu  %.1f s\n", name.c_str(), count, codes[0],
                codes[10], codes[11], codes[12] + codes[25], wrong, seconds);
    std::fflush(stdout);
  }

  const Options& options_;
  testing::ScratchFolder scratch_;
  Progress& progress_;
  std::size_t all_[64] = {};
  std::size_t inputs_ = 0;
  std::size_t violations_ = 0;
  double seconds_ = 0;
};

int run(const Options& options) {
  std::vector<Reader> readers = data_readers();
  std::ranges::move(model_readers(), std::back_inserter(readers));
  if (!options.reader.empty()) {
    std::erase_if(readers, [&](const Reader& one) { return one.name != options.reader; });
  }
  if (readers.empty()) {
    std::printf("no reader has this name (%s)\n", options.reader.c_str());
    return 2;
  }
  Run all(options);
  all.print_head();
  const std::size_t each = (options.count + readers.size() - 1) / readers.size();
  for (const Reader& reader : readers) all.read(reader, each);
  return all.finish();
}

Options options_of(int count, char** words) {
  Options options;
  for (int at = 1; at + 1 < count; at += 2) {
    const std::string name = words[at];
    if (name == "--count") options.count = std::stoul(words[at + 1]);
    if (name == "--seed") options.seed = std::stoull(words[at + 1]);
    if (name == "--reader") options.reader = words[at + 1];
    if (name == "--keep") options.keep = words[at + 1];
  }
  return options;
}

}  // namespace
}  // namespace fm::faults

int main(int count, char** words) { return fm::faults::run(fm::faults::options_of(count, words)); }
