// One rank of a real world, started by tests/comm/processes_test.cc under mpirun, torchrun, or by
// hand: world_program MODE [arguments] [messages]: without shared memory. Writes its pid to
// $FM_TEST_DIR/pid.<rank> once connected.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/meet/meeting.h"
#include "comm/meet/world.h"
#include "core/check.h"
#include "tests/comm/collective_cases.h"

namespace fm::comm {
namespace {

using Words = std::vector<std::string>;

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

void sign_in(int rank) {
  const char* const folder = std::getenv("FM_TEST_DIR");
  if (folder == nullptr) return;
  const std::string name = std::string(folder) + "/pid." + std::to_string(rank);
  std::ofstream(name + ".new") << getpid();
  std::rename((name + ".new").c_str(), name.c_str());
}

int run_cases(Communicator& world, const Words&) {
  run_collective_cases(world);
  std::cout << "cases hold on " << world.describe() << std::endl;
  return 0;
}

// Reduces for ever; somebody kills a rank.
int reduce_for_ever(Communicator& world, const Words&) {
  std::vector<float> values(50'000, 1.0F);
  while (true) world.all_reduce(span_of(values)).wait();
}

// No message at all: only the watch can notice.
int idle(Communicator&, const Words&) {
  sleep_ms(60'000);
  return 0;
}

// stop RANK CODE: that rank fails, the others are busy.
int stop_one(Communicator& world, const Words& words) {
  if (world.rank() != std::stoi(words.at(0))) return reduce_for_ever(world, {});
  sleep_ms(200);
  throw core::UserError(static_cast<core::ExitCode>(std::stoi(words.at(1))), "the file is short");
}

// exit RANK: that rank ends without a word.
int exit_one(Communicator& world, const Words& words) {
  if (world.rank() != std::stoi(words.at(0))) return reduce_for_ever(world, {});
  sleep_ms(200);
  std::exit(10);
}

// Rank 1 is late for a reduction; 500 ms is the limit.
int hang(Communicator& world, const Words&) {
  std::vector<float> values(6 * static_cast<std::size_t>(world.size()));
  std::vector<float> own(6);
  if (world.rank() == 1) sleep_ms(20'000);
  world.reduce_scatter(span_of(values), span_of(own)).wait();
  return 0;
}

// Rank 0 is late with what the others gather.
int hang_gather(Communicator& world, const Words&) {
  std::vector<float> all(6 * static_cast<std::size_t>(world.size()));
  std::vector<float> own(6);
  if (world.rank() == 0) sleep_ms(20'000);
  world.all_gather(span_of(own), span_of(all)).wait();
  return 0;
}

// Rank 1 comes 200 ms late to each of twenty sums, in naps: time that a suspended process spends in
// one sleep would not count.
int late_sums(Communicator& world, const Words&) {
  std::vector<float> values(6);
  for (int i = 0; i < 20; ++i) {
    for (int nap = 0; nap < 20 && world.rank() == 1; ++nap) sleep_ms(10);
    world.all_reduce(span_of(values)).wait();
  }
  return 0;
}

std::chrono::microseconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

// All ranks have one core. Rank 0 is two seconds late for a sum; what the others spend on waiting.
int wait_idly(Communicator& world, const Words&) {
  std::vector<float> values(6);
  world.all_reduce(span_of(values)).wait();
  const auto before = cpu_time();
  if (world.rank() == 0) sleep_ms(2'000);
  world.all_reduce(span_of(values)).wait();
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(cpu_time() - before);
  print_line(core::concat("waited on ", spent.count(), " ms of CPU"));
  return 0;
}

// mismatch FLOATS: rank 1 sends so many to a receive of 300.
int mismatch(Communicator& world, const Words& words) {
  std::vector<float> values(world.rank() == 1 ? std::stoul(words.at(0)) : 300);
  if (world.rank() == 1) world.send(span_of(values), 0).wait();
  if (world.rank() == 0) world.receive(span_of(values), 1).wait();
  world.barrier().wait();
  return 0;
}

// The same operation, of the same size, under another verb.
int other_verb(Communicator& world, const Words&) {
  std::vector<float> values(300);
  if (world.rank() == 0) {
    world.all_reduce(span_of(values)).wait();
  } else {
    world.broadcast(span_of(values), 1).wait();
    world.barrier().wait();
  }
  return 0;
}

// The same operation, of the same size, of another type.
int other_type(Communicator& world, const Words&) {
  std::vector<float> reals(300);
  std::vector<std::int32_t> integers(300);
  const Span odd{integers.data(), core::Elements(300), core::DType::kI32};
  world.all_reduce(world.rank() == 0 ? span_of(reals) : odd).wait();
  return 0;
}

// Rank 1 is late for the split; 500 ms is the limit.
int split_late(Communicator& world, const Words&) {
  if (world.rank() == 1) sleep_ms(20'000);
  std::vector<int> members(static_cast<std::size_t>(world.size()));
  std::iota(members.begin(), members.end(), 0);
  world.split(members)->barrier().wait();
  return 0;
}

// Ranks come to their farewell at different times.
int part_slowly(Communicator& world, const Words&) {
  sleep_ms(300 * (world.size() - world.rank()));
  return 0;
}

// Reduces until somebody from outside holds MPI up; a minute at most.
int besieged(Communicator& world, const Words&) {
  std::vector<float> values(300);
  for (int i = 0; i < 6'000; ++i) {
    world.all_reduce(span_of(values)).wait();
    sleep_ms(10);
  }
  return 0;
}

// Comes to its farewell when mpirun stands still, as its state in /proc says; 20 s at most.
int finalize_late(Communicator&, const Words&) {
  const std::string path = core::concat("/proc/", getppid(), "/stat");
  for (int i = 0; i < 2'000; ++i) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    if (line.find(") T ") != std::string::npos) break;
    sleep_ms(10);
  }
  return 0;
}

int desert(const LaunchInfo& launch) {
  Introduction own;
  own.member = this_process(launch.world_rank);
  own.world_size = launch.world_size;
  own.endpoint = {launch.master_addr, 1};  // where nobody listens
  meet_at({launch.master_addr, launch.master_port}, own, {}, Deadline(20'000));
  return 0;
}

int run(const std::string& mode, const Words& words) {
  const std::map<std::string, std::function<int(Communicator&, const Words&)>> modes{
      {"cases", run_cases},   {"reduce", reduce_for_ever}, {"idle", idle},
      {"stop", stop_one},     {"exit", exit_one},          {"hang", hang},
      {"mismatch", mismatch}, {"verbs", other_verb},       {"part", part_slowly},
      {"split", split_late},  {"late", part_slowly},       {"gather", hang_gather},
      {"sums", late_sums},    {"idly", wait_idly},         {"types", other_type},
      {"besieged", besieged}, {"finalize", finalize_late}, {"desert", idle}};
  try {
    if (mode == "idly") stay_on_one_core();
    const LaunchInfo launch = detect_launch(process_environment());
    // absent RANK: that rank never comes to the meeting.
    if (mode == "absent" && launch.world_rank == std::stoi(words.at(0))) return 0;
    // desert RANK: that rank meets the others, and ends before they are connected.
    if (mode == "desert" && launch.world_rank == std::stoi(words.at(0))) return desert(launch);
    // late RANK: that rank comes to the meeting when the others have given up.
    if (mode == "late" && launch.world_rank == std::stoi(words.at(0))) sleep_ms(20'000);
    const std::map<std::string, int> limits_ms{{"hang", 500},       {"split", 500},
                                               {"gather", 500},     {"sums", 1'000},
                                               {"besieged", 2'000}, {"finalize", 2'000}};
    const bool meets_in_vain = mode == "absent" || mode == "late";
    const bool by_messages = !words.empty() && words.back() == "messages";
    const auto world =
        connect(launch, {.timeout_ms = limits_ms.contains(mode) ? limits_ms.at(mode) : 20'000,
                         .rendezvous_ms = meets_in_vain ? 1'500 : 30'000,
                         .shared_memory = !by_messages});
    sign_in(world->rank());
    const int code = modes.at(mode)(*world, words);
    farewell();
    return code;
  } catch (const core::Error& error) {
    print_own(error);
    farewell_with_error(static_cast<int>(error.code()), error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    print_own(error);
    farewell_with_error(1, error.what());
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
