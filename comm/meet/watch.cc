#include "comm/meet/watch.h"

#include <poll.h>
#include <sys/eventfd.h>
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
std::string stopped_message(const Member& member, int exit_code, const std::string& text) {
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
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
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

void Watch::run() {
  const auto watching = [this] {
    const std::lock_guard lock(mutex_);
    return state_ == State::kWatching && !quit_requested_;
  };
  while (watching()) {
    wait_for_events();
    for (Connection& connection : connections_) {
      if (connection.socket.open() && watching()) receive_from(connection);
    }
    if (watching()) handle_requests();
    if (watching()) check_calls();
  }
  for (Connection& connection : connections_) connection.socket.close();
}

void Watch::wait_for_events() {
  std::vector<pollfd> entries{{.fd = wakeup_.fd(), .events = POLLIN, .revents = 0}};
  for (const Connection& connection : connections_) {
    if (connection.socket.open()) {
      entries.push_back({.fd = connection.socket.fd(), .events = POLLIN, .revents = 0});
    }
  }
  poll(entries.data(), entries.size(), calls_.left_ms());
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
  while (true) {
    const ssize_t got = recv(connection.socket.fd(), chunk.data(), chunk.size(), 0);
    if (got > 0) {
      connection.bytes.append(chunk.data(), static_cast<std::size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    ended = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    break;
  }
  while (const auto frame = decode(connection.bytes)) {
    handle(connection, *frame);
    const std::lock_guard lock(mutex_);
    if (state_ != State::kWatching) return;
  }
  if (!ended) return;
  connection.socket.close();
  if (!connection.left) lose({NoticeKind::kLost, connection.world_rank, kLostCode, ""});
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
    case NoticeKind::kStopped:
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
  for (const Connection& connection : connections_) {
    if (!connection.socket.open() || connection.world_rank == except_rank) continue;
    // A failure means that this peer is gone as well.
    send_fully(connection.socket, std::as_bytes(std::span(bytes)), Deadline(kDeliveryMs));
  }
}

void Watch::lose(const Notice& cause) {
  const Member& who = member(cause.world_rank);
  const PeerLoss loss{.world_rank = cause.world_rank,
                      .exit_code = cause.exit_code,
                      .message = cause.kind == NoticeKind::kStopped
                                     ? stopped_message(who, cause.exit_code, cause.text)
                                     : lost_message(who),
                      .reason = cause.text};
  if (options_.world_rank == 0) send_to_all(cause, cause.world_rank);
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

// Reads until the peers have closed: a socket closed with unread data would discard what was sent.
void Watch::drain() {
  const Deadline deadline(kDeliveryMs);
  for (const Connection& connection : connections_) {
    if (connection.socket.open()) shutdown(connection.socket.fd(), SHUT_WR);
  }
  std::array<std::byte, 64> ignored{};
  for (const Connection& connection : connections_) {
    while (connection.socket.open() && receive_fully(connection.socket, ignored, deadline)) {
    }
  }
}

}  // namespace fm::comm
