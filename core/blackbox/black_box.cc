#include "core/blackbox/black_box.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "core/process.h"
#include "core/text.h"
#include "core/trace.h"

namespace fm::core {
namespace {

using AtomicWord = std::atomic_ref<std::uint64_t>;

// Words of a record (core/blackbox/record.h).
constexpr std::size_t kKindWord = 1;
constexpr std::size_t kWaitWord = 10;
constexpr std::size_t kEndWord = 11;
constexpr std::uint64_t kCheck = 0xFF'FFFF'FFFF;

void* map_memory() {
  void* const memory =
      ::mmap(nullptr, kBoxBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}

template <std::size_t N>
void put(char (&field)[N], const std::string& text) {
  std::memset(field, 0, N);
  std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

// Neither tabs nor ends of lines, which divide names in the file.
std::string plain(std::string name) {
  std::ranges::replace_if(
      name, [](char letter) { return letter < ' '; }, ' ');
  return name;
}

std::string reason(const char* what) { return concat(what, ": ", std::strerror(errno)); }

std::string keep_older(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return "";
  const std::filesystem::path before = file.parent_path() / "before";
  std::filesystem::create_directories(before, error);
  if (!error) std::filesystem::rename(file, before / file.filename(), error);
  return error ? concat("the older file cannot be kept: ", error.message()) : "";
}

}  // namespace

BlackBox::BlackBox(int world_rank) : memory_(static_cast<std::byte*>(map_memory())) {
  BoxHeader header{.version = kBoxVersion,
                   .records_at = kBoxRecordsAt,
                   .record_bytes = sizeof(BoxWords),
                   .records = kBoxRecords,
                   .world_rank = static_cast<std::uint32_t>(world_rank),
                   .pid = ::getpid()};
  std::memcpy(header.magic, kBoxMagic, sizeof(header.magic));
  std::memcpy(memory_, &header, sizeof(header));
  begin_phase(RunPhase::kStart, 0);
}

BlackBox::~BlackBox() {
  guard_ = {};
  ::munmap(memory_, kBoxBytes);
}

std::uint64_t BlackBox::live(BoxWord word) const {
  auto* const words = reinterpret_cast<std::uint64_t*>(memory_ + offsetof(BoxHeader, live));
  return AtomicWord(words[static_cast<std::size_t>(word)]).load(std::memory_order_acquire);
}

void BlackBox::set_live(BoxWord word, std::uint64_t value) {
  auto* const words = reinterpret_cast<std::uint64_t*>(memory_ + offsetof(BoxHeader, live));
  AtomicWord(words[static_cast<std::size_t>(word)]).store(value, std::memory_order_release);
}

std::uint64_t* BlackBox::words_of(std::uint64_t number) const {
  const std::size_t place = (number - 1) % kBoxRecords;
  return reinterpret_cast<std::uint64_t*>(memory_ + kBoxRecordsAt + place * sizeof(BoxWords));
}

// Who reads meanwhile sees 0 in the first word, or another number behind the others.
std::uint64_t BlackBox::write(BoxRecord record) {
  record.number = ++newest_;
  const BoxWords words = pack(record);
  std::uint64_t* const at = words_of(newest_);
  AtomicWord(at[0]).store(0, std::memory_order_relaxed);
  for (std::size_t word = 1; word < kBoxWords; ++word) {
    AtomicWord(at[word]).store(words[word], std::memory_order_release);
  }
  AtomicWord(at[0]).store(newest_, std::memory_order_release);
  set_live(BoxWord::kNewest, newest_);
  move();
  return newest_;
}

std::optional<BoxRecord> BlackBox::read(std::uint64_t number) const {
  if (number == 0) return std::nullopt;
  std::uint64_t* const at = words_of(number);
  BoxWords words{};
  for (std::size_t word = 0; word < kBoxWords; ++word) {
    words[word] = AtomicWord(at[word]).load(std::memory_order_acquire);
  }
  BoxRecord record;
  const bool whole = words[0] == number && unpack(words, record) &&
                     AtomicWord(at[0]).load(std::memory_order_relaxed) == number;
  return whole ? std::optional(record) : std::nullopt;
}

bool BlackBox::still_there(std::uint64_t number) const {
  return number != 0 && number + kBoxRecords > newest_;
}

// The time first: a state that says it has one is never alone.
void BlackBox::set_state(std::uint64_t number, BoxState state, std::size_t time_word,
                         std::int64_t now) {
  if (!still_there(number)) return;
  std::uint64_t* const at = words_of(number);
  if (time_word != 0) {
    AtomicWord(at[time_word]).store(static_cast<std::uint64_t>(now), std::memory_order_release);
  }
  const AtomicWord kind(at[kKindWord]);
  const std::uint64_t rest = kind.load(std::memory_order_relaxed) & ~std::uint64_t{0xFF};
  kind.store(rest | static_cast<std::uint64_t>(state), std::memory_order_release);
}

void BlackBox::close_place(std::int64_t now) {
  set_state(std::exchange(place_, 0), BoxState::kDone, kEndWord, now);
}

void BlackBox::open_place(BoxRecord record) {
  record.phase = phase_;
  record.step = step_;
  record.op = op_;
  record.micro = micro_;
  record.unit = unit_;
  record.begin_ns = trace_now();
  close_place(record.begin_ns);
  place_ = write(record);
  set_live(BoxWord::kPlace, place_);
  set_live(BoxWord::kWaiting, 0);  // an error may have left a verb, and been dealt with
}

void BlackBox::begin_phase(RunPhase phase, std::int64_t step) {
  phase_ = phase;
  step_ = step;
  op_ = micro_ = unit_ = kNoBoxNumber;
  open_place({.kind = BoxKind::kPhase, .code = static_cast<std::uint8_t>(phase)});
}

void BlackBox::begin_instruction(int op, int micro, int unit) {
  op_ = op;
  micro_ = micro;
  unit_ = unit;
  open_place({.kind = BoxKind::kInstruction, .code = static_cast<std::uint8_t>(op)});
}

void BlackBox::end_instructions() {
  if (op_ == kNoBoxNumber) return;
  begin_phase(phase_, step_);
}

std::uint64_t BlackBox::begin_verb(const VerbCall& call) {
  Group& group = groups_[static_cast<std::size_t>(call.group)];
  BoxRecord record{.kind = BoxKind::kVerb,
                   .code = static_cast<std::uint8_t>(call.verb),
                   .phase = phase_,
                   .step = step_,
                   .op = op_,
                   .micro = micro_,
                   .unit = unit_,
                   .group = call.group,
                   .dtype = call.dtype,
                   .elements = call.elements.count()};
  const auto partner = static_cast<std::size_t>(call.partner);
  if (partner < group.world_ranks.size()) record.partner = group.world_ranks[partner];
  if (is_message(call.verb)) {
    auto& counts = call.verb == BoxVerb::kSend ? group.sent : group.received;
    record.sequence = partner < counts.size() ? ++counts[partner] : 0;
  } else {
    record.sequence = ++group.collectives;
    group.chain = chain_behind(group.chain, record);
  }
  record.chain = group.chain;
  record.begin_ns = waits_since_ = trace_now();
  const std::uint64_t number = write(record);
  set_live(BoxWord::kWaiting, number);
  return number;
}

void BlackBox::posted(std::uint64_t verb) {
  set_state(verb, BoxState::kPosted, 0, 0);
  set_live(BoxWord::kWaiting, 0);
  move();
}

void BlackBox::waits(std::uint64_t verb) {
  waits_since_ = trace_now();
  set_state(verb, BoxState::kWaits, kWaitWord, waits_since_);
  set_live(BoxWord::kWaiting, verb);
  move();
}

void BlackBox::done(std::uint64_t verb) {
  const std::int64_t now = trace_now();
  waited_ns_ += now - waits_since_;
  set_state(verb, BoxState::kDone, kEndWord, now);
  set_live(BoxWord::kWaiting, 0);
  move();
}

void BlackBox::end(int exit_code) {
  set_live(BoxWord::kEnded, static_cast<std::uint64_t>(exit_code) + 1);
}

int BlackBox::add_group(std::string name, std::vector<int> world_ranks, int own) {
  const int number = static_cast<int>(groups_.size());
  const std::size_t size = world_ranks.size();
  groups_.push_back({.world_ranks = world_ranks,
                     .sent = std::vector<std::uint64_t>(size),
                     .received = std::vector<std::uint64_t>(size)});
  own_places_.push_back(own);
  {
    const std::lock_guard lock(naming_);
    names_.groups.push_back({plain(std::move(name)), std::move(world_ranks)});
  }
  set_factor(number, own);
  write_names();
  return number;
}

void BlackBox::rename_group(int group, const std::string& name) {
  {
    const std::lock_guard lock(naming_);
    names_.groups[static_cast<std::size_t>(group)].name = plain(name);
  }
  set_factor(group, own_places_[static_cast<std::size_t>(group)]);
  write_names();
}

// Odd numbers of the group, and for its last member what makes their sum 0.
void BlackBox::set_factor(int number, int own) {
  Group& group = groups_[static_cast<std::size_t>(number)];
  const std::uint64_t key = names().groups[static_cast<std::size_t>(number)].key();
  const auto of_member = [key](int at) { return chain_behind(key, {.unit = at}) | 1U; };
  const int last = static_cast<int>(group.world_ranks.size()) - 1;
  group.factor = own < last ? of_member(own) : 0;
  for (int at = 0; own == last && at < last; ++at) group.factor -= of_member(at);
}

std::int64_t BlackBox::chain_check() const {
  std::uint64_t sum = 0;
  for (const Group& group : groups_) sum += group.factor * group.chain;
  return static_cast<std::int64_t>(sum & kCheck);
}

std::vector<BlackBox::Chain> BlackBox::chains() const {
  const BoxNames known = names();
  std::vector<Chain> chains;
  for (std::size_t at = 0; at < groups_.size(); ++at) {
    chains.push_back({known.groups[at], groups_[at].collectives, groups_[at].chain});
  }
  return chains;
}

std::vector<BoxRecord> BlackBox::last_of(int group, std::size_t most) const {
  std::vector<BoxRecord> found;
  for (std::uint64_t number = newest_; still_there(number) && found.size() < most; --number) {
    const std::optional<BoxRecord> record = read(number);
    if (record && record->is_collective() && record->group == group) found.push_back(*record);
  }
  std::ranges::reverse(found);
  return found;
}

std::string BlackBox::whereabouts() const {
  // What is read may be overwritten meanwhile, but not again and again.
  for (int tries = 0; tries < 8; ++tries) {
    const std::uint64_t moved = moves();
    const std::uint64_t waiting = live(BoxWord::kWaiting);
    const auto record = read(waiting != 0 ? waiting : live(BoxWord::kPlace));
    if (record && (moved == moves() || tries == 7)) return text_of(*record, names());
  }
  return "";
}

BoxNames BlackBox::names() const {
  const std::lock_guard lock(naming_);
  return names_;
}

void BlackBox::name_units(std::vector<std::string> units) {
  {
    const std::lock_guard lock(naming_);
    names_.units = std::move(units);
    for (std::string& unit : names_.units) unit = plain(std::move(unit));
  }
  write_names();
}

void BlackBox::name_ops(std::vector<BoxOp> ops) {
  {
    const std::lock_guard lock(naming_);
    names_.ops = std::move(ops);
  }
  write_names();
}

// What has no room is left out.
void BlackBox::write_names() {
  std::string text = text_of(names());
  constexpr std::size_t kRoom = kBoxRecordsAt - kBoxNamesAt;
  if (text.size() > kRoom) text.resize(text.rfind('\n', kRoom - 1) + 1);
  std::memcpy(memory_ + kBoxNamesAt, text.data(), text.size());
  const auto bytes = static_cast<std::uint32_t>(text.size());
  std::memcpy(memory_ + offsetof(BoxHeader, names_bytes), &bytes, sizeof(bytes));
}

std::string BlackBox::keep_in(const std::filesystem::path& file, const BoxOwner& owner) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return concat("the folder cannot be made: ", error.message());
  if (std::string problem = keep_older(file); !problem.empty()) return problem;
  BoxHeader header;
  std::memcpy(&header, memory_, sizeof(header));
  header.world_rank = static_cast<std::uint32_t>(owner.world_rank);
  header.world_size = static_cast<std::uint32_t>(owner.world_size);
  header.pid = ::getpid();
  const std::vector<std::string> stat = process_stat(header.pid);
  if (stat.size() > kBeganField) header.process_start = integer_of(stat[kBeganField]).value_or(0);
  header.unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  header.steady_ns = trace_now();
  put(header.run, owner.run);
  put(header.host, host_name());
  put(header.boot, boot_id());
  put(header.program, owner.program);
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return reason("the file cannot be made");
  // All of its blocks now: a store into a page without one would end the process.
  const int full = ::posix_fallocate(fd, 0, kBoxBytes);
  std::string problem = full == 0 ? "" : concat("it has no room: ", std::strerror(full));
  const auto write_all = [&](const void* from, std::size_t bytes, off_t at) {
    if (!problem.empty()) return;
    if (::pwrite(fd, from, bytes, at) != static_cast<ssize_t>(bytes)) {
      problem = reason("it cannot be written");
    }
  };
  write_all(memory_ + sizeof(header), kBoxBytes - sizeof(header), sizeof(header));
  write_all(&header, sizeof(header), 0);
  // The system call itself: ThreadSanitizer takes mmap for a write to all of the mapping.
  if (problem.empty() && ::syscall(SYS_mmap, memory_, kBoxBytes, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_FIXED, fd, 0) == -1) {
    problem = reason("it cannot be mapped");
  }
  ::close(fd);
  if (!problem.empty()) {
    std::filesystem::remove(file, error);
    return problem;
  }
  guard_ = CutGuard({memory_, kBoxBytes}, Guarded::kWritten);
  return "";
}

}  // namespace fm::core
