// One rank of a real world, started by tests/comm/processes_test.cc under mpirun, torchrun, or by
// hand: world_program MODE [arguments] [messages]: without shared memory. Writes its pid to
// $FM_TEST_DIR/pid.<rank> once connected: the ranks have met. Ranks and tests say by such files how
// far they are, as the time that anything takes is no matter.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/meet/rendezvous.h"
#include "comm/meet/world.h"
#include "core/check.h"
#include "core/process.h"
#include "launch/engines.h"
#include "tests/comm/collective_cases.h"

namespace fm::comm {
namespace {

using Words = std::vector<std::string>;

constexpr int kFarMs = 600'000;  // a limit that no test reaches
constexpr int kSoonMs = 3'000;   // one that it comes to

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// In one write: lines of several ranks must not mix.
void print_line(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDERR_FILENO, line.data(), line.size()) < 0) std::abort();
}

void print_own(const std::exception& error) {
  print_line(core::concat("own error: ", error.what()));
}

// For this process and all of its threads to come.
void stay_on_one_core() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  CPU_ZERO(&allowed);
  CPU_SET(core, &allowed);
  sched_setaffinity(0, sizeof(allowed), &allowed);
}

std::string file_of(const std::string& what) {
  const char* const folder = std::getenv("FM_TEST_DIR");
  return core::concat(folder == nullptr ? "/tmp" : folder, "/", what);
}

void sign(const std::string& what) {
  const std::string path = file_of(what);
  std::ofstream(path + ".new") << getpid();
  std::rename((path + ".new").c_str(), path.c_str());
}

void await(const std::string& what) {
  for (int tries = 0; !std::filesystem::exists(file_of(what)); ++tries) {
    FM_CHECK(tries < kFarMs / 10, "the test must give ", what);
    sleep_ms(10);
  }
}

// Of ranks that never come: a peer's limit ends them.
void stay_away() { sleep_ms(kFarMs); }

// Time of limits. It stands still until all ranks that wait do so, which they say by the file
// waits.<rank>: whom a rank names at its limit is no matter of who is slow, nor does the limit pass
// before the ranks are connected.
//
// Thread: the rank's thread.
class LimitClock final : public Clock {
 public:
  // From now on the rank only waits, and so do `ranks`, itself among them.
  void start_when_all_wait(int rank, std::vector<int> ranks) {
    rank_ = rank;
    ranks_ = std::move(ranks);
  }
  Time now() const override {
    constexpr int kLooks = 4;  // it has moved all messages there are, and slept
    if (begin_ != Time{}) return Time{} + (Clock::now() - begin_);
    if (rank_ < 0) return begin_;
    const auto waits = [](int rank) { return core::concat("waits.", rank); };
    if (++looks_ == kLooks) sign(waits(rank_));
    const auto signs = [&](int rank) { return std::filesystem::exists(file_of(waits(rank))); };
    if (std::ranges::all_of(ranks_, signs)) begin_ = Clock::now();
    return Time{};
  }

 private:
  int rank_ = -1;
  std::vector<int> ranks_;
  mutable Time begin_{};
  mutable int looks_ = 0;
};

LimitClock& limit_clock() {
  static LimitClock only;
  return only;
}

class LookCounter final : public Clock {
 public:
  Time now() const override {
    ++looks_;
    return Clock::now();
  }
  int looks() const { return looks_; }

 private:
  mutable int looks_ = 0;
};

LookCounter& look_counter() {
  static LookCounter only;
  return only;
}

// All ranks but one wait from now on.
void wait_without(int late, const Communicator& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank != late) ranks.push_back(rank);
  }
  if (world.rank() != late) limit_clock().start_when_all_wait(world.rank(), ranks);
}

int run_cases(Communicator& world, const Words&) {
  throw_unless_cases_hold(world);
  std::cout << "cases hold on " << world.describe() << std::endl;
  return 0;
}

// Reduces for ever; somebody kills a rank.
int reduce_for_ever(Communicator& world, const Words&) {
  std::vector<float> values(50'000, 1.0F);
  while (true) world.all_reduce(span_of(values)).finish();
}

void reduce_a_hundred_times(Communicator& world) {
  std::vector<float> values(50'000, 1.0F);
  for (int i = 0; i < 100; ++i) world.all_reduce(span_of(values)).finish();
}

// No message at all: only the watch can notice.
int idle(Communicator&, const Words&) {
  stay_away();
  return 0;
}

// stop RANK CODE: that rank fails, the others are busy.
int stop_one(Communicator& world, const Words& words) {
  if (world.rank() != std::stoi(words.at(0))) return reduce_for_ever(world, {});
  reduce_a_hundred_times(world);
  throw core::UserError(static_cast<core::ExitCode>(std::stoi(words.at(1))), "the file is short");
}

// exit RANK: that rank ends without a word.
int exit_one(Communicator& world, const Words& words) {
  if (world.rank() != std::stoi(words.at(0))) return reduce_for_ever(world, {});
  reduce_a_hundred_times(world);
  std::exit(10);
}

// Rank 1 never comes to a reduction; 500 ms is the limit.
int hang(Communicator& world, const Words&) {
  std::vector<float> values(6 * static_cast<std::size_t>(world.size()));
  std::vector<float> own(6);
  wait_without(1, world);
  if (world.rank() == 1) stay_away();
  world.reduce_scatter(span_of(values), span_of(own)).finish();
  return 0;
}

// Rank 0 never comes with what the others gather.
int hang_gather(Communicator& world, const Words&) {
  std::vector<float> all(6 * static_cast<std::size_t>(world.size()));
  std::vector<float> own(6);
  wait_without(0, world);
  if (world.rank() == 0) stay_away();
  world.all_gather(span_of(own), span_of(all)).finish();
  return 0;
}

// Rank 0 waits for a sum until the test says "go" to rank 1; five seconds are the limit.
int late_sum(Communicator& world, const Words&) {
  std::vector<float> values(6);
  wait_without(1, world);
  if (world.rank() == 1) await("go");
  world.all_reduce(span_of(values)).finish();
  return 0;
}

// All ranks have one core. Rank 0 is a second late for a sum; how often the others look meanwhile
// whether it came.
int wait_idly(Communicator& world, const Words&) {
  std::vector<float> values(6);
  world.all_reduce(span_of(values)).finish();
  const int before = look_counter().looks();
  const auto begin = std::chrono::steady_clock::now();
  if (world.rank() == 0) sleep_ms(1'000);
  world.all_reduce(span_of(values)).finish();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  print_line(core::concat("looked ", look_counter().looks() - before, " times in ",
                          static_cast<int>(spent.count()), " ms"));
  return 0;
}

// mismatch FLOATS: rank 1 sends so many to a receive of 300.
int mismatch(Communicator& world, const Words& words) {
  std::vector<float> values(world.rank() == 1 ? std::stoul(words.at(0)) : 300);
  if (world.rank() == 1) world.send(span_of(values), 0).finish();
  if (world.rank() == 0) world.receive(span_of(values), 1).finish();
  world.barrier().finish();
  return 0;
}

// The same operation, of the same size, under another verb.
int other_verb(Communicator& world, const Words&) {
  std::vector<float> values(300);
  if (world.rank() == 0) {
    world.all_reduce(span_of(values)).finish();
  } else {
    world.broadcast(span_of(values), 1).finish();
    world.barrier().finish();
  }
  return 0;
}

// The same operation, of the same size, of another type.
int other_type(Communicator& world, const Words&) {
  std::vector<float> reals(300);
  std::vector<std::int32_t> integers(300);
  const Span odd{integers.data(), core::Elements(300), core::DType::kI32};
  world.all_reduce(world.rank() == 0 ? span_of(reals) : odd).finish();
  return 0;
}

// Rank 1 never comes to the split; 500 ms is the limit.
int split_late(Communicator& world, const Words&) {
  wait_without(1, world);
  if (world.rank() == 1) stay_away();
  std::vector<int> members(static_cast<std::size_t>(world.size()));
  std::iota(members.begin(), members.end(), 0);
  world.split(members)->barrier().finish();
  return 0;
}

// Ranks shut down at different times.
int part_slowly(Communicator& world, const Words&) {
  sleep_ms(300 * (world.size() - world.rank()));
  return 0;
}

// Reduces until somebody from outside holds MPI up; a minute at most.
int besieged(Communicator& world, const Words&) {
  std::vector<float> values(300);
  for (int i = 0; i < 6'000; ++i) {
    world.all_reduce(span_of(values)).finish();
    sleep_ms(10);
  }
  return 0;
}

// Shuts down after mpirun was stopped, which its state in /proc shows.
int finalize_late(Communicator& world, const Words&) {
  const std::string path = core::concat("/proc/", getppid(), "/stat");
  int tries = 0;
  for (std::string line; line.find(") T ") == std::string::npos; sleep_ms(10)) {
    FM_CHECK(++tries < kFarMs / 10, "the test must stop mpirun");
    std::ifstream file(path);
    std::getline(file, line);
  }
  world.barrier().finish();
  return 0;
}

// Rank 1 is in an instruction that does not end, and the others in a sum.
int stay_in_an_instruction(Communicator& world, const Words&) {
  if (world.rank() == 1) stay_away();
  return reduce_for_ever(world, {});
}

Whereabouts stuck_at(int rank) {
  return rank == 1 ? Whereabouts{.moves = 7, .text = "step 3, B0.1, layers.1.mlp"}
                   : Whereabouts{.moves = 8, .waits_for_peers = true, .text = "all_reduce"};
}

int desert(const LaunchInfo& launch) {
  PeerInfo own;
  own.member = this_process(launch.world_rank);
  own.world_size = launch.world_size;
  own.endpoint = {launch.master_addr, 1};  // where nobody listens
  rendezvous_at({launch.master_addr, launch.master_port}, own, {}, Deadline(kFarMs));
  return 0;
}

int run(const std::string& mode, const Words& words) {
  const std::map<std::string, std::function<int(Communicator&, const Words&)>> modes{
      {"cases", run_cases},
      {"reduce", reduce_for_ever},
      {"idle", idle},
      {"stop", stop_one},
      {"exit", exit_one},
      {"hang", hang},
      {"mismatch", mismatch},
      {"verbs", other_verb},
      {"part", part_slowly},
      {"split", split_late},
      {"late", part_slowly},
      {"gather", hang_gather},
      {"sum", late_sum},
      {"idly", wait_idly},
      {"types", other_type},
      {"besieged", besieged},
      {"finalize", finalize_late},
      {"desert", idle},
      {"stopped", reduce_for_ever},
      {"stuck", stay_in_an_instruction}};
  try {
    if (mode == "idly") stay_on_one_core();
    const LaunchInfo launch = fm::launch::detect_launch(core::process_environment());
    // absent RANK: that rank never comes to the rendezvous.
    if (mode == "absent" && launch.world_rank == std::stoi(words.at(0))) return 0;
    // desert RANK: that rank meets the others, and ends before they are connected.
    if (mode == "desert" && launch.world_rank == std::stoi(words.at(0))) return desert(launch);
    // late RANK: that rank never comes to the rendezvous, but lives.
    if (mode == "late" && launch.world_rank == std::stoi(words.at(0))) stay_away();
    const std::map<std::string, int> limits_ms{{"hang", 500},       {"split", 500},
                                               {"gather", 500},     {"sum", 5'000},
                                               {"besieged", 2'000}, {"finalize", 2'000}};
    const bool limited = limits_ms.contains(mode);
    const bool meets_in_vain = mode == "absent" || mode == "late";
    const bool by_messages = !words.empty() && words.back() == "messages";
    const Clock& clock = limited ? static_cast<const Clock&>(limit_clock()) : look_counter();
    const bool stuck = mode == "stuck";
    const bool may_stop = mode != "stopped" && !stuck;
    ConnectOptions options{.timeout_ms = limited ? limits_ms.at(mode) : kFarMs,
                           .rendezvous_ms = meets_in_vain ? 1'500 : kFarMs,
                           .shared_memory = !by_messages,
                           .hang_ms = may_stop ? 0 : kSoonMs,
                           .clock = &clock};
    if (stuck) options.whereabouts = [rank = launch.world_rank] { return stuck_at(rank); };
    if (stuck) options.still_limit_ms = [] { return kSoonMs; };
    const auto world = connect(launch, options);
    sign(core::concat("pid.", world->rank()));
    const int code = modes.at(mode)(*world, words);
    shut_down();
    return code;
  } catch (const core::Error& error) {
    print_own(error);
    shut_down_with_error(static_cast<int>(error.code()), error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    print_own(error);
    shut_down_with_error(1, error.what());
    return 1;
  }
}

}  // namespace
}  // namespace fm::comm

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return 10;
  return fm::comm::run(words[0], {words.begin() + 1, words.end()});
}
