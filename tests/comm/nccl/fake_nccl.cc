// A library that stands for libnccl.so.2 where there are no cards: ranks are threads of one
// process, and verbs are tasks in queues of a test. It is as strict as NCCL may be: a send ends
// when it is received, calls are in progress until they are asked for often enough, the first verb
// of a communicator until all ranks have called theirs, and sums go around a ring.
#include "tests/comm/nccl/fake_nccl.h"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

enum class Kind : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default:  // the library adds no others
      return 8;
  }
}

struct Call {
  Kind kind = Kind::kSend;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  int peer = 0;  // or root
  std::size_t bytes() const { return count * size_of(type); }
};

// What the members of a communicator share.
struct World {
  explicit World(int ranks) : size(ranks) {}

  struct Meeting {  // of a collective
    std::map<int, Call> calls;
    bool done = false;
  };
  struct Parcel {
    Call call;
    std::shared_ptr<bool> done;
  };

  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, int> devices;  // of the ranks that have joined
  int started = 0;             // ranks that have called their first verb
  int left = 0;                // ranks that have ended
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<Parcel>> sends, receives;  // from, to
};

struct State {
  std::shared_ptr<World> world;
  int rank = 0;
  int device = 0;
  std::atomic<bool> ended = false;
  std::atomic<bool> remote_error = false;
  bool init_fails = false;
  int asks = 0;       // until what is in progress is done
  int launches = 0;   // so far
  std::set<int> met;  // peers of messages so far
  std::uint64_t collectives = 0;
  std::vector<std::function<void()>> in_progress;  // pushed when done
  std::string last_error;
  std::mutex mutex;
};

struct Fault {
  std::string what;
  int rank = 0;
  int at_call = 0;
};

struct Grouped {
  ncclComm_t comm;
  void* stream;
  Call call;
};
// Not thread_local: TLS of a library that is opened late confuses ThreadSanitizer.
struct OfThread {
  int device = -1;
  int group_depth = 0;
  std::vector<Grouped> grouped;
  std::string told;
};

struct Library {
  std::mutex mutex;
  std::condition_variable changed;
  void (*run)(void*, void (*)(void*), void*) = nullptr;
  void* (*see)(void*, const void*) = nullptr;
  std::vector<Fault> faults;
  std::uint64_t next_id = 1;
  std::uint64_t forgotten = 0;  // times
  int next_device = 1000;
  int alive = 0;
  int late_pairs = 0;
  int crowded_starts = 0;
  std::map<int, int> under_way;  // verbs, by device
  std::map<std::uint64_t, std::shared_ptr<World>> worlds;
  std::map<std::thread::id, OfThread> threads;

  OfThread& of_thread() {
    const std::lock_guard lock(mutex);
    return threads[std::this_thread::get_id()];
  }
  bool has(const std::string& what, int rank, int at_call) {
    const std::lock_guard lock(mutex);
    return std::ranges::any_of(faults, [&](const Fault& fault) {
      return fault.what == what && fault.rank == rank && (at_call < 0 || fault.at_call == at_call);
    });
  }
};
Library& library() {
  static Library* const kOne = new Library;  // outlives threads that hang
  return *kOne;
}

template <class T>
void add_around(const std::map<int, Call>& calls, std::size_t element, std::size_t first, T* out) {
  const int size = static_cast<int>(calls.size());
  const auto value = [&](std::size_t rank) {
    return static_cast<const T*>(calls.at(static_cast<int>(rank)).from)[element];
  };
  const auto ranks = static_cast<std::size_t>(size);
  T sum = value((first + 1) % ranks);
  for (std::size_t step = 2; step <= ranks; ++step) sum += value((first + step) % ranks);
  *out = sum;
}

template <class T>
void reduce(const std::map<int, Call>& calls) {
  const Call& any = calls.begin()->second;
  const std::size_t ranks = calls.size();
  const bool scatter = any.kind == Kind::kReduceScatter;
  const std::size_t all = scatter ? any.count * ranks : any.count;
  std::vector<T> sums(all);
  for (std::size_t i = 0; i < all; ++i) add_around(calls, i, i * ranks / all, &sums[i]);
  for (const auto& [rank, call] : calls) {
    const std::size_t first = scatter ? any.count * static_cast<std::size_t>(rank) : 0;
    if (call.count > 0) std::memcpy(call.to, sums.data() + first, call.count * sizeof(T));
  }
}

void reduce_of_type(const std::map<int, Call>& calls) {
  switch (calls.begin()->second.type) {
    case ncclFloat32: return reduce<float>(calls);
    case ncclFloat64: return reduce<double>(calls);
    case ncclInt64: return reduce<std::int64_t>(calls);
    default:  // the engine adds no others
      throw std::logic_error("the library of tests adds fp32, fp64 and int64");
  }
}

void move_bytes(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0 && from != to) std::memmove(to, from, bytes);
}

void run_collective(const std::map<int, Call>& calls) {
  const Call& any = calls.begin()->second;
  for (const auto& [rank, call] : calls) {
    if (call.kind != any.kind || call.count != any.count || call.type != any.type ||
        (any.kind == Kind::kBroadcast && call.peer != any.peer))
      throw std::logic_error("ranks called different collectives");
  }
  if (any.kind == Kind::kAllReduce || any.kind == Kind::kReduceScatter)
    return reduce_of_type(calls);
  for (const auto& [rank, call] : calls) {
    if (any.kind == Kind::kBroadcast) {
      move_bytes(calls.at(any.peer).from, call.to, any.bytes());
      continue;
    }
    for (const auto& [other, part] : calls) {
      move_bytes(part.from,
                 static_cast<std::byte*>(call.to) + any.bytes() * static_cast<std::size_t>(other),
                 any.bytes());
    }
  }
}

// A group of calls of one communicator, in a stream.
class Launch {
 public:
  std::shared_ptr<State> state;
  std::vector<Call> calls;
  std::uint64_t first_collective = 0;
  bool hangs = false;

  void run() {
    exchange();
    const std::lock_guard lock(library().mutex);
    --library().under_way[state->device];
  }

 private:
  void exchange() {
    World& world = *state->world;
    std::unique_lock lock(world.mutex);
    const auto until = [&](const auto& done) {
      world.changed.wait(lock, [&] { return state->ended || done(); });
      return !state->ended;
    };
    if (hangs) {
      until([] { return false; });
      return;
    }
    if (state->ended) return;
    const std::vector<std::shared_ptr<bool>> parcels = post_parcels(world);
    std::uint64_t number = first_collective;
    for (const Call& call : calls) {
      if (call.kind == Kind::kSend || call.kind == Kind::kRecv) continue;
      World::Meeting& meeting = world.meetings[number++];
      meeting.calls[state->rank] = call;
      if (static_cast<int>(meeting.calls.size()) == world.size) {
        meeting.done = true;
        world.changed.notify_all();
        run_collective(meeting.calls);
      }
      if (!until([&] { return meeting.done; })) return;
    }
    until([&] { return std::ranges::all_of(parcels, [](const auto& done) { return *done; }); });
  }

  std::vector<std::shared_ptr<bool>> post_parcels(World& world) {
    std::vector<std::shared_ptr<bool>> all;
    for (const Call& call : calls) {
      if (call.kind != Kind::kSend && call.kind != Kind::kRecv) continue;
      const bool sends = call.kind == Kind::kSend;
      const std::pair way =
          sends ? std::pair(state->rank, call.peer) : std::pair(call.peer, state->rank);
      auto done = std::make_shared<bool>(false);
      all.push_back(done);
      (sends ? world.sends : world.receives)[way].push_back({call, done});
      match(world, way);
    }
    return all;
  }
  static void match(World& world, const std::pair<int, int>& way) {
    auto& sends = world.sends[way];
    auto& receives = world.receives[way];
    while (!sends.empty() && !receives.empty()) {
      if (sends.front().call.bytes() != receives.front().call.bytes())
        throw std::logic_error("a message was received with another size");
      move_bytes(sends.front().call.from, receives.front().call.to, sends.front().call.bytes());
      *sends.front().done = *receives.front().done = true;
      sends.pop_front();
      receives.pop_front();
      world.changed.notify_all();
    }
  }
};

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

// All devices are known: a message where two are one.
std::string duplicate(const World& world) {
  std::map<int, int> owners;
  for (const auto& [rank, device] : world.devices) {
    const auto [owner, is_new] = owners.emplace(device, rank);
    if (!is_new)
      return "Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " +
             std::to_string(owner->second) + " both on CUDA device " + std::to_string(device);
  }
  return "";
}

ncclResult_t ask(State& state) {
  const std::lock_guard lock(state.mutex);
  if (state.remote_error) {
    state.last_error = "rank of the test went away";
    return ncclRemoteError;
  }
  if (state.init_fails) {
    state.last_error = "Bootstrap : no socket interface found";
    return ncclSystemError;
  }
  World& world = *state.world;
  {
    const std::lock_guard world_lock(world.mutex);
    if (static_cast<int>(world.devices.size()) < world.size) return ncclInProgress;
    state.last_error = duplicate(world);
    if (!state.last_error.empty()) return ncclInvalidUsage;
    if (!state.in_progress.empty() && world.started < world.size) return ncclInProgress;
  }
  if (state.asks > 0 && --state.asks > 0) return ncclInProgress;
  for (const auto& push : state.in_progress) push();
  state.in_progress.clear();
  return ncclSuccess;
}

ncclResult_t launch(ncclComm_t comm, void* stream, std::vector<Call> calls) {
  State& state = *comm->state;
  const std::lock_guard lock(state.mutex);
  if (state.asks > 0 || !state.in_progress.empty()) {
    state.last_error = "a call is in progress";
    return ncclInvalidUsage;
  }
  const int number = state.launches++;
  const auto has = [&](const char* what) { return library().has(what, state.rank, number); };
  if (has("fail")) {
    state.last_error = "socket of the test is closed";
    return ncclSystemError;
  }
  if (number == 0) {
    const std::lock_guard world_lock(state.world->mutex);
    ++state.world->started;
  }
  for (const Call& call : calls) {
    const bool is_message = call.kind == Kind::kSend || call.kind == Kind::kRecv;
    if (!is_message || call.peer == state.rank || !state.met.insert(call.peer).second) continue;
    if (number == 0) continue;
    const std::lock_guard lock_of_library(library().mutex);
    ++library().late_pairs;
  }
  {
    const std::lock_guard lock_of_library(library().mutex);
    int& under_way = library().under_way[state.device];
    if (number == 0 && under_way > 0) ++library().crowded_starts;
    ++under_way;
  }
  const auto task = std::make_shared<Launch>(
      Launch{comm->state, std::move(calls), state.collectives, has("hang") || has("async")});
  if (has("async")) state.remote_error = true;
  for (Call& call : task->calls) {
    state.collectives += call.kind == Kind::kSend || call.kind == Kind::kRecv ? 0 : 1;
    call.from = library().see(stream, call.from);
    call.to = library().see(stream, call.to);
  }
  state.in_progress.emplace_back([stream, task] {
    const auto run = [](void* data) {
      const std::unique_ptr<std::shared_ptr<Launch>> own(
          static_cast<std::shared_ptr<Launch>*>(data));
      (*own)->run();
    };
    library().run(stream, run, new std::shared_ptr<Launch>(task));
  });
  state.asks = number % 3;
  if (number > 0 && state.asks == 0) {  // at once
    state.in_progress.front()();
    state.in_progress.clear();
    return ncclSuccess;
  }
  return ncclInProgress;
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const Call& what) {
  if (comm == nullptr || what.peer < 0 || what.peer >= comm->state->world->size)
    return ncclInvalidArgument;
  OfThread& mine = library().of_thread();
  if (mine.group_depth == 0) return launch(comm, stream, {what});
  mine.grouped.push_back({comm, stream, what});
  return ncclSuccess;
}

ncclResult_t end(ncclComm_t comm) {
  {
    const std::lock_guard lock(library().mutex);
    --library().alive;
  }
  {
    const std::lock_guard lock(comm->state->world->mutex);
    comm->state->ended = true;
    ++comm->state->world->left;
  }
  comm->state->world->changed.notify_all();
  {
    const std::lock_guard lock(comm->state->mutex);
    const std::lock_guard lock_of_library(library().mutex);
    library().under_way[comm->state->device] -= static_cast<int>(comm->state->in_progress.size());
    comm->state->in_progress.clear();  // it knows the state
  }
  delete comm;
  return ncclSuccess;
}

}  // namespace

extern "C" {

void fme_fake_nccl_run_on(void (*run)(void*, void (*)(void*), void*)) { library().run = run; }
void fme_fake_nccl_see(void* (*see)(void*, const void*)) { library().see = see; }
void fme_fake_nccl_device(int device) { library().of_thread().device = device; }
void fme_fake_nccl_fault(const char* what, int rank, int at_call) {
  const std::lock_guard lock(library().mutex);
  library().faults.push_back({what, rank, at_call});
}
void fme_fake_nccl_forget() {
  const std::lock_guard lock(library().mutex);
  library().faults.clear();
  for (auto& [id, thread] : library().threads) thread.device = -1;
  library().late_pairs = 0;
  library().crowded_starts = 0;
  ++library().forgotten;
  library().changed.notify_all();
}
int fme_fake_nccl_late_pairs() {
  const std::lock_guard lock(library().mutex);
  return library().late_pairs;
}
int fme_fake_nccl_crowded_starts() {
  const std::lock_guard lock(library().mutex);
  return library().crowded_starts;
}
int fme_fake_nccl_alive() {
  const std::lock_guard lock(library().mutex);
  return library().alive;
}

ncclResult_t ncclGetVersion(int* version) {
  const std::lock_guard lock(library().mutex);
  *version = NCCL_VERSION_CODE;
  for (const Fault& fault : library().faults) {
    if (fault.what == "version") *version = fault.at_call;
  }
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(library().mutex);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &library().next_id, sizeof library().next_id);
  ++library().next_id;
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  if (config == nullptr || config->blocking != 0 || number == 0 || rank < 0 || rank >= ranks)
    return ncclInvalidArgument;
  const bool fails = library().has("init_fail", rank, -1);
  std::shared_ptr<World> world;
  int& device = library().of_thread().device;
  {
    const std::lock_guard lock(library().mutex);
    auto& known = library().worlds[number];
    if (known == nullptr) known = std::make_shared<World>(ranks);
    world = known;
    if (device < 0) device = library().next_device++;
    ++library().alive;
  }
  const std::lock_guard lock(world->mutex);
  *comm = new ncclComm{std::make_shared<State>()};
  (*comm)->state->world = world;
  (*comm)->state->rank = rank;
  (*comm)->state->device = device;
  (*comm)->state->asks = 2;
  (*comm)->state->init_fails = fails;
  if (!fails) world->devices[rank] = device;
  if (static_cast<int>(world->devices.size()) == world->size) {
    const std::lock_guard library_lock(library().mutex);
    library().worlds.erase(number);
  }
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = ask(*comm->state);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Library& all = library();
  if (all.has("abort_hang", comm->state->rank, -1)) {
    std::unique_lock lock(all.mutex);
    all.changed.wait(lock, [&, before = all.forgotten] { return all.forgotten != before; });
  }
  return end(comm);
}
// As NCCL's on one host, it returns when all ranks have called it.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const std::shared_ptr<World> world = comm->state->world;
  const ncclResult_t result = end(comm);
  std::unique_lock lock(world->mutex);
  world->changed.wait(lock, [&] { return world->left == world->size; });
  return result;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default:  // hundreds of them
      return "internal error - please report this issue to the NCCL developers";
  }
}
const char* ncclGetLastError(ncclComm_t comm) {
  OfThread& mine = library().of_thread();
  const std::lock_guard lock(comm->state->mutex);
  mine.told = comm->state->last_error;
  return mine.told.c_str();
}

ncclResult_t ncclGroupStart() {
  ++library().of_thread().group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  OfThread& mine = library().of_thread();
  if (--mine.group_depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  const std::vector<Grouped> all = std::exchange(mine.grouped, {});
  std::set<ncclComm_t> launched;
  for (const Grouped& first : all) {
    if (!launched.insert(first.comm).second) continue;
    std::vector<Call> calls;
    for (const Grouped& each : all) {
      if (each.comm == first.comm) calls.push_back(each.call);
    }
    const ncclResult_t one = launch(first.comm, first.stream, std::move(calls));
    if (one != ncclSuccess) result = one;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return call(comm, stream, {Kind::kAllReduce, from, to, count, type});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return call(comm, stream, {Kind::kReduceScatter, from, to, count, type});
}
ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::kAllGather, from, to, count, type});
}
ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::kBroadcast, from, to, count, type, root});
}
ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Kind::kSend, from, nullptr, count, type, peer});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, stream, {Kind::kRecv, nullptr, to, count, type, peer});
}

}  // extern "C"
