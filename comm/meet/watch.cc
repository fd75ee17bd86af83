#include "comm/meet/watch.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "comm/wire/watchdog.h"
#include "core/check.h"
#include "core/text.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr std::uint32_t kMagic = 0x77617463U;
constexpr std::size_t kLongestText = 4096;
constexpr int kDeliveryMs = 1'000;
constexpr int kLostCode = static_cast<int>(ExitCode::kPeerLost);

struct Header {
  std::uint32_t magic = kMagic;
  std::uint32_t kind = 0;
  std::int32_t world_rank = 0;
  std::int32_t exit_code = 0;
  std::uint32_t length = 0;
};

std::string lost_message(const Member& member) {
  return core::concat("fmengine: ", name_of(member),
                      " ended without farewell; every rank stops, restart to resume from the "
                      "last checkpoint (exit code 20)");
}

// All ranks may have met the error; this rank was the first to report it.
std::string stopped_by_itself_message(const Member& member, int exit_code,
                                      const std::string& text) {
  return core::concat("fmengine: ", name_of(member), " reports exit code ", exit_code, ": ", text);
}

}  // namespace

std::string Watch::encode(const Notice& frame) {
  const std::string text = frame.text.substr(0, kLongestText);
  const Header header{.kind = static_cast<std::uint32_t>(frame.kind),
                      .world_rank = frame.world_rank,
                      .exit_code = frame.exit_code,
                      .length = static_cast<std::uint32_t>(text.size())};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + text;
}

// Removes one complete frame from the front; an invalid frame counts as the loss of its sender.
std::optional<Watch::Notice> Watch::decode(std::string& bytes) {
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.length > kLongestText)
    return Notice{NoticeKind::kLost, -1, kLostCode, ""};
  if (bytes.size() < sizeof header + header.length) return std::nullopt;
  Notice frame{static_cast<NoticeKind>(header.kind), header.world_rank, header.exit_code,
               bytes.substr(sizeof header, header.length)};
  bytes.erase(0, sizeof header + header.length);
  return frame;
}

Watch::Watch(WatchOptions options, std::vector<Socket> sockets)
    : options_(std::move(options)),
      calls_(options_.calls, options_.limit_ms),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      awake_(*options_.clock),
      pid_space_(pid_space_here()),
      beats_(options_.roster.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (!sockets[i].open()) continue;
    const int world_rank = static_cast<int>(i);
    connections_.push_back(
        {.world_rank = world_rank, .socket = std::move(sockets[i]), .bytes = ""});
    if (options_.world_rank == 0) absent_.push_back(world_rank);
  }
  FM_MACHINE_CHECK(wakeup_.open(), ExitCode::kRendezvousFailed,
                   "the watch needs a file descriptor; raise `ulimit -n` (", std::strerror(errno),
                   ")");
  send_beat(0);  // before anything can stop this process, so that the others know it
  thread_ = start_quiet_thread([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    quit_requested_ = true;
  }
  wake();
  thread_.join();
}

void Watch::wake() { eventfd_write(wakeup_.fd(), 1); }

void Watch::shut_down() {
  std::unique_lock lock(mutex_);
  leave_requested_ = true;
  wake();
  const bool in_time = settled_.wait_for(lock, std::chrono::milliseconds(options_.limit_ms),
                                         [this] { return state_ != State::kWatching; });
  FM_MACHINE_CHECK(in_time, ExitCode::kHang,
                   "every rank must come to its farewell within the limit; look at what it was "
                   "doing (waited ",
                   options_.limit_ms, " ms for ", missing_ranks(), ")");
  FM_MACHINE_CHECK(state_ != State::kLost, ExitCode::kPeerLost, loss_);
}

void Watch::shut_down_with_error(int exit_code, const std::string& message) noexcept {
  try {
    std::unique_lock lock(mutex_);
    stop_requested_ = Notice{NoticeKind::kStopped, options_.world_rank, exit_code, message};
    wake();
    settled_.wait_for(lock, std::chrono::milliseconds(2 * kDeliveryMs),
                      [this] { return state_ != State::kWatching; });
  } catch (...) {  // out of memory: the others will see this process end without the handshake
  }
}

std::string Watch::missing_ranks() const {
  if (options_.world_rank != 0) return "rank 0 to release this rank";
  std::vector<std::string> names;
  for (const int rank : absent_) names.push_back(name_of(member(rank)));
  return core::join(names, ", ");
}

const Member& Watch::member(int world_rank) const {
  return options_.roster[static_cast<std::size_t>(world_rank)];
}

void Watch::settle(State state) {
  const std::lock_guard lock(mutex_);
  state_ = state;
  settled_.notify_all();
}

bool Watch::watching() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kWatching && !quit_requested_;
}

void Watch::run() {
  while (watching()) {
    wait_for_events();
    for (Connection& connection : connections_) {
      if (connection.socket.open()) flush(connection);
      if (connection.socket.open() && watching()) receive_from(connection);
    }
    if (watching()) handle_requests();
    if (watching()) check_calls();
    if (watching() && awake_.due()) tick();
  }
  for (Connection& connection : connections_) connection.socket.close();
}

void Watch::wait_for_events() {
  std::vector<pollfd> entries{{.fd = wakeup_.fd(), .events = POLLIN, .revents = 0}};
  for (const Connection& connection : connections_) {
    if (!connection.socket.open()) continue;
    const int events = connection.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back(
        {.fd = connection.socket.fd(), .events = static_cast<short>(events), .revents = 0});
  }
  const int tick_ms = awake_.left_ms(options_.longest_sleep_ms);
  const int calls_ms = calls_.left_ms();
  poll(entries.data(), entries.size(), calls_ms < 0 ? tick_ms : std::min(calls_ms, tick_ms));
  eventfd_t rings = 0;
  eventfd_read(wakeup_.fd(), &rings);
}

void Watch::handle_requests() {
  bool leave = false;
  std::optional<Notice> stop;
  {
    const std::lock_guard lock(mutex_);
    leave = leave_requested_;
    stop = stop_requested_;
  }
  if (stop) {
    send_to_all(*stop, options_.world_rank);
    drain();
    return settle(State::kStopped);
  }
  if (!leave || self_left_) return;
  self_left_ = true;
  if (options_.world_rank == 0) return release_when_all_left();
  send_to_all({NoticeKind::kLeaving, options_.world_rank, 0, ""}, options_.world_rank);
}

void Watch::receive_from(Connection& connection) {
  std::array<char, 512> chunk{};
  bool ended = false;
  bool cut = false;
  while (true) {
    const ssize_t got = recv(connection.socket.fd(), chunk.data(), chunk.size(), 0);
    if (got > 0) {
      connection.bytes.append(chunk.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    ended = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    cut = got < 0 && (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH);
    break;
  }
  while (const auto frame = decode(connection.bytes)) {
    handle(connection, *frame);
    const std::lock_guard lock(mutex_);
    if (state_ != State::kWatching) return;
  }
  if (ended) end_of(connection, cut);
}

void Watch::end_of(Connection& connection, bool cut) {
  connection.socket.close();
  if (connection.left) return;
  if (cut) return cut_off(connection);
  lose({NoticeKind::kLost, connection.world_rank, kLostCode, ""});
}

void Watch::handle(Connection& connection, const Notice& frame) {
  switch (frame.kind) {
    case NoticeKind::kLeaving: {
      connection.left = true;
      {
        const std::lock_guard lock(mutex_);
        std::erase(absent_, connection.world_rank);
      }
      return release_when_all_left();
    }
    case NoticeKind::kReleased: return settle(State::kReleased);
    case NoticeKind::kBeat: return take_beat(connection, frame.text);
    case NoticeKind::kStopped:
    case NoticeKind::kVerdict:
    case NoticeKind::kLost: break;
  }
  const bool known =
      frame.world_rank >= 0 && frame.world_rank < static_cast<int>(options_.roster.size());
  lose(known ? frame : Notice{NoticeKind::kLost, connection.world_rank, kLostCode, ""});
}

void Watch::release_when_all_left() {
  if (options_.world_rank != 0 || !self_left_) return;
  const auto left = [](const Connection& connection) { return connection.left; };
  if (!std::ranges::all_of(connections_, left)) return;
  send_to_all({NoticeKind::kReleased, 0, 0, ""}, 0);
  settle(State::kReleased);
}

void Watch::send_to_all(const Notice& frame, int except_rank) {
  const std::string bytes = encode(frame);
  for (Connection& connection : connections_) {
    if (!connection.socket.open() || connection.world_rank == except_rank) continue;
    connection.unsent += bytes;
    flush(connection);
  }
}

// As much as the socket takes now. A failure means that this peer is gone as well.
void Watch::flush(Connection& connection) {
  std::string& bytes = connection.unsent;
  while (!bytes.empty()) {
    const ssize_t sent = send(connection.socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.erase(0, static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) bytes.clear();
      return;
    }
  }
}

void Watch::tick() {
  const int awake_ms = awake_.take_ms();
  for (Connection& connection : connections_) {
    if (!connection.socket.open() || !connection.heard || connection.left) continue;
    connection.silent_ms += awake_ms;
    judge(connection);
    if (!watching()) return;
  }
  if (!self_left_ || options_.world_rank == 0) send_beat(awake_ms);
  if (options_.world_rank == 0) judge_hang();
}

// Nothing follows "leaving": rank 0 must have read all when it closes, as a socket that closes with
// unread bytes discards what it has sent.
void Watch::send_beat(int awake_ms) {
  Beat beat;
  if (options_.whereabouts && options_.still_limit_ms) {
    beat = still_.observe(options_.whereabouts(), awake_ms);
    beat.limit_ms = options_.still_limit_ms();
  }
  beat.pid_space = pid_space_;
  const int own = options_.world_rank;
  for (Connection& connection : connections_) {
    // A peer that takes nothing hears no further beat until it does.
    if (!connection.socket.open() || !connection.unsent.empty()) continue;
    connection.unsent = encode({NoticeKind::kBeat, own, 0, comm::encode(beat)});
    flush(connection);
  }
  beats_[static_cast<std::size_t>(own)] = std::move(beat);
}

void Watch::take_beat(Connection& connection, const std::string& text) {
  std::optional<Beat> beat = beat_of(text);
  if (!beat) return lose({NoticeKind::kLost, connection.world_rank, kLostCode, ""});
  beats_[static_cast<std::size_t>(connection.world_rank)] = std::move(*beat);
  connection.heard = true;
  connection.silent_ms = 0;
  if (std::exchange(connection.named, false) && options_.notify) {
    options_.notify(core::concat("fmengine: ", name_of(member(connection.world_rank)), " goes on"));
  }
}

PeerState Watch::state_of(const Connection& connection) const {
  const Member& peer = member(connection.world_rank);
  if (options_.state_of) return options_.state_of(peer);
  const std::uint64_t space = beats_[static_cast<std::size_t>(connection.world_rank)].pid_space;
  const bool here = space != 0 && space == pid_space_;
  if (here && process_state(peer.pid) == 'T') return PeerState::kStopped;
  // The last beat was sent a second ago: a host that works has acknowledged it.
  int unanswered = 0;
  const bool known = ioctl(connection.socket.fd(), SIOCOUTQ, &unanswered) == 0;
  if (known && unanswered > 0) return PeerState::kHostSilent;
  return here ? PeerState::kAlive : PeerState::kHostAnswers;
}

void Watch::judge(Connection& connection) {
  if (connection.silent_ms < kLookMs) return;
  const PeerState state = state_of(connection);
  switch (judge_silence(connection.silent_ms, state, options_.stop_ms)) {
    case Finding::kNothing: return;
    case Finding::kName: return name(connection, state);
    case Finding::kCutOff: return cut_off(connection);
    case Finding::kStopped: break;
  }
  const int rank = connection.world_rank;
  pronounce(rank, ExitCode::kHang,
            stopped_message(member(rank), state, connection.silent_ms,
                            beats_[static_cast<std::size_t>(rank)].text));
}

// Once until it goes on, and of rank 0 only by the lowest other rank of each host.
void Watch::name(Connection& connection, PeerState state) {
  if (std::exchange(connection.named, true)) return;
  const std::string& host = member(options_.world_rank).host;
  const auto speaker = std::ranges::find_if(
      options_.roster, [&](const Member& one) { return one.world_rank > 0 && one.host == host; });
  const bool speaks = options_.world_rank == 0 || speaker->world_rank == options_.world_rank;
  if (!speaks || !options_.notify) return;
  options_.notify(notice_message(member(connection.world_rank), state, connection.silent_ms));
}

void Watch::judge_hang() {
  std::vector<bool> fresh(beats_.size(), true);
  for (const Connection& connection : connections_) {
    fresh[static_cast<std::size_t>(connection.world_rank)] =
        connection.heard && connection.silent_ms < kLookMs;
  }
  const std::optional<int> hangs = hanging_rank(beats_, fresh);
  if (!hangs) return;
  pronounce(*hangs, ExitCode::kHang, hang_message(options_.roster, *hangs, beats_));
}

// All ranks behind the same cut at once.
void Watch::cut_off(const Connection& connection) {
  Roster lost;
  int silent_ms = connection.silent_ms;
  for (const Connection& other : connections_) {
    const bool same = &other == &connection ||
                      (other.socket.open() && !other.left && other.silent_ms >= kNameMs &&
                       state_of(other) == PeerState::kHostSilent);
    if (!same) continue;
    lost.push_back(member(other.world_rank));
    silent_ms = std::max(silent_ms, other.silent_ms);
  }
  pronounce(connection.world_rank, ExitCode::kPeerLost, cut_off_message(lost, silent_ms));
}

// This rank says it to all; a rank above 0 reaches only rank 0, of which it speaks.
void Watch::pronounce(int world_rank, ExitCode code, const std::string& line) {
  lose({NoticeKind::kVerdict, world_rank, static_cast<int>(code), line});
}

void Watch::lose(const Notice& cause) {
  const Member& who = member(cause.world_rank);
  PeerLoss loss{.world_rank = cause.world_rank,
                .exit_code = cause.exit_code,
                .message = cause.text,
                .reason = cause.kind == NoticeKind::kStopped ? cause.text : ""};
  if (cause.kind == NoticeKind::kStopped) {
    loss.message = stopped_by_itself_message(who, cause.exit_code, cause.text);
  } else if (cause.kind == NoticeKind::kLost) {
    loss.message = lost_message(who);
  }
  if (options_.world_rank == 0) {
    const bool lives = cause.kind == NoticeKind::kVerdict;  // and must hear what it is accused of
    send_to_all(cause, lives ? 0 : cause.world_rank);
    drain();
  }
  report_loss(loss);
}

void Watch::report_loss(const PeerLoss& loss) {
  if (options_.on_peer_lost) options_.on_peer_lost(loss);
  {
    const std::lock_guard lock(mutex_);
    loss_ = loss.message;
  }
  settle(State::kLost);
}

void Watch::check_calls() {
  const char* const call = calls_.late();
  if (call == nullptr) return;
  const std::string text = core::concat(
      "every call into MPI must return within the limit; look who is connected to the ports of "
      "this process (`ss -tnp`), or raise the limit with --timeout_s (",
      name_of(member(options_.world_rank)), " was in ", call, " for ", calls_.limit_ms(), " ms)");
  const Notice stop{NoticeKind::kStopped, options_.world_rank, static_cast<int>(ExitCode::kHang),
                    text};
  send_to_all(stop, options_.world_rank);
  drain();
  report_loss({.world_rank = options_.world_rank,
               .exit_code = stop.exit_code,
               .message = "fmengine: " + text});
}

// A socket closed with unread data would discard what was sent.
void Watch::drain() {
  const Deadline deadline(kDeliveryMs);
  for (const Connection& connection : connections_) {
    if (connection.socket.open()) shutdown(connection.socket.fd(), SHUT_WR);
  }
  std::array<std::byte, 64> ignored{};
  for (const Connection& connection : connections_) {
    if (connection.silent_ms >= kLookMs) continue;  // it reads nothing
    while (connection.socket.open() && receive_fully(connection.socket, ignored, deadline)) {
    }
  }
}

}  // namespace fm::comm
