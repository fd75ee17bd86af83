#include "comm/wire/tcp_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr std::size_t kSmall = std::size_t{32} << 10;       // messages up to this size overtake
constexpr std::size_t kPiece = std::size_t{1} << 20;        // of a large message
constexpr std::uint64_t kLongest = std::uint64_t{1} << 40;  // bytes of a message
constexpr std::size_t kReadTurn = std::size_t{4} << 20;     // read at once, before the other peers

bool transient() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

Message message_of(const FrameHeader& header, int peer) {
  return {.group = header.group,
          .sequence = header.sequence,
          .peer = peer,
          .verb = static_cast<Verb>(header.verb),
          .phase = header.phase,
          .dtype = static_cast<core::DType>(header.dtype),
          .bytes = core::Bytes(static_cast<std::int64_t>(header.bytes))};
}

std::size_t size_of(const Message& message) {
  return static_cast<std::size_t>(message.bytes.count());
}

}  // namespace

TcpTransfer::~TcpTransfer() {
  if (!done_) connection_.withdraw(*this);
}

void TcpConnection::post_send(TcpTransfer& transfer) {
  const bool idle = !sending();
  (size_of(transfer.message()) <= kSmall ? small_ : large_).push_back({&transfer});
  if (idle) write_some();  // the kernel often takes it at once
}

void TcpConnection::post_receive(TcpTransfer& transfer) {
  if (!claim_early(transfer)) receives_.push_back(&transfer);
}

// Takes a message that arrived, or began to arrive, before its receive was posted.
bool TcpConnection::claim_early(TcpTransfer& transfer) {
  const Message& wanted = transfer.message();
  for (auto early = early_.begin(); early != early_.end(); ++early) {
    if (!same_slot(wanted, early->message)) continue;
    check_agreement(wanted, early->message, peer_name_);
    if (size_of(wanted) > 0) std::memcpy(transfer.data(), early->place, size_of(wanted));
    early_.erase(early);
    transfer.finish();
    return true;
  }
  return claim_partial(transfer, incoming_) || claim_partial(transfer, interrupted_);
}

bool TcpConnection::claim_partial(TcpTransfer& transfer, Incoming& partial) {
  const Message& wanted = transfer.message();
  if (partial.early == nullptr || !same_slot(wanted, partial.message)) return false;
  check_agreement(wanted, partial.message, peer_name_);
  std::memcpy(transfer.data(), partial.place, partial.done);
  partial.early.reset();
  partial.place = transfer.data();
  partial.filling = &transfer;
  return true;
}

void TcpConnection::withdraw(TcpTransfer& transfer) noexcept {
  std::erase(receives_, &transfer);
  // The rest of the message has no destination any more.
  if (incoming_.filling == &transfer || interrupted_.filling == &transfer) socket_.close();
  for (std::deque<Outgoing>* queue : {&small_, &large_}) {
    const auto queued = std::ranges::find(*queue, &transfer, &Outgoing::transfer);
    if (queued == queue->end()) continue;
    const bool begun = queued == queue->begin() && writing_ == queue;
    if (begun || queued->sent > 0) socket_.close();  // part of the message is sent
    if (begun) writing_ = nullptr;
    queue->erase(queued);
  }
}

void TcpConnection::begin_frame() {
  writing_ = &next_queue();
  const Outgoing& first = writing_->front();
  const Message& message = first.transfer->message();
  out_header_ = {.verb = static_cast<std::uint8_t>(message.verb),
                 .phase = message.phase,
                 .dtype = static_cast<std::uint8_t>(message.dtype),
                 .group = message.group,
                 .sequence = message.sequence,
                 .bytes = static_cast<std::uint64_t>(size_of(message)),
                 .begin = first.sent,
                 .piece = std::min(kPiece, size_of(message) - first.sent)};
  out_done_ = 0;
}

void TcpConnection::end_frame() {
  Outgoing& first = writing_->front();
  first.sent += out_header_.piece;
  if (first.sent == size_of(first.transfer->message())) {
    first.transfer->finish();
    writing_->pop_front();
  }
  writing_ = nullptr;
}

bool TcpConnection::write_some() {
  bool moved = false;
  while (sending() && socket_.open()) {
    if (writing_ == nullptr) begin_frame();
    const Outgoing& first = writing_->front();
    const std::size_t header_left = sizeof(FrameHeader) - std::min(sizeof(FrameHeader), out_done_);
    const std::size_t body_done = out_done_ + header_left - sizeof(FrameHeader);
    auto* const header_bytes = reinterpret_cast<std::byte*>(&out_header_);
    std::array<iovec, 2> pieces{
        iovec{header_bytes + sizeof(FrameHeader) - header_left, header_left},
        iovec{first.transfer->data() + first.sent + body_done, out_header_.piece - body_done}};
    msghdr batch{};
    batch.msg_iov = pieces.data();
    batch.msg_iovlen = pieces.size();
    const ssize_t sent = sendmsg(socket_.fd(), &batch, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!transient()) socket_.close();
      return moved;
    }
    moved = true;
    out_done_ += static_cast<std::size_t>(sent);
    if (out_done_ == sizeof(FrameHeader) + out_header_.piece) end_frame();
  }
  return moved;
}

// Reads until `taken` is `count` at most; true when bytes arrived.
bool TcpConnection::take(std::byte* into, std::size_t count, std::size_t& taken) {
  const ssize_t got = recv(socket_.fd(), into + taken, count - taken, 0);
  if (got > 0) taken += static_cast<std::size_t>(got);
  if (got == 0 || (got < 0 && !transient())) socket_.close();
  return got > 0;
}

bool TcpConnection::read_some() {
  std::size_t budget = kReadTurn;
  bool moved = false;
  while (socket_.open() && budget > 0) {
    if (in_header_done_ < sizeof(FrameHeader)) {
      auto* const raw = reinterpret_cast<std::byte*>(&in_header_);
      if (!take(raw, sizeof(FrameHeader), in_header_done_)) break;
      moved = true;
      if (in_header_done_ < sizeof(FrameHeader)) continue;
      open_frame();
    }
    const std::size_t before = in_piece_done_;
    std::byte* const place = incoming_.place + in_header_.begin;
    if (in_piece_done_ < in_header_.piece && !take(place, in_header_.piece, in_piece_done_)) break;
    moved = true;
    incoming_.done += in_piece_done_ - before;
    budget -= std::min(budget, in_piece_done_ - before);
    if (in_piece_done_ == in_header_.piece) close_frame();
  }
  return moved;
}

void TcpConnection::open_frame() {
  Socket until_sound = std::move(socket_);  // an invalid frame closes the connection
  const Message message = message_of(in_header_, peer_);
  const bool goes_on = in_header_.begin > 0;
  const bool sound =
      in_header_.magic == FrameHeader::kMagic &&
      in_header_.verb <= static_cast<std::uint8_t>(kLastVerb) &&
      in_header_.dtype <= static_cast<std::uint8_t>(core::kLastDType) &&
      in_header_.bytes <= kLongest && in_header_.begin <= in_header_.bytes &&
      in_header_.piece <= in_header_.bytes - in_header_.begin &&
      (goes_on ? interrupted_.place != nullptr && in_header_.begin == interrupted_.done &&
                     same_slot(message, interrupted_.message)
               : in_header_.piece == in_header_.bytes || interrupted_.place == nullptr);
  FM_MACHINE_CHECK(sound, core::ExitCode::kMismatch,
                   "every rank must run the same build; start all ranks with the same program (",
                   peer_name_, " sent a frame that is none of ours)");
  in_piece_done_ = 0;
  incoming_ = goes_on ? std::exchange(interrupted_, {}) : open_message(message);
  socket_ = std::move(until_sound);
}

TcpConnection::Incoming TcpConnection::open_message(const Message& message) {
  Incoming out;
  out.message = message;
  const auto posted = std::ranges::find_if(
      receives_, [&](TcpTransfer* one) { return same_slot(one->message(), message); });
  if (posted == receives_.end()) {
    out.early.reset(new (std::nothrow) std::byte[size_of(message)]);
    FM_MACHINE_CHECK(
        out.early != nullptr, core::ExitCode::kOutOfMemory,
        "a message that comes before this rank asks for it needs memory; give the rank "
        "more (",
        size_of(message), " bytes of ", peer_name_, ")");
    out.place = out.early.get();
    return out;
  }
  check_agreement((*posted)->message(), message, peer_name_);
  out.filling = *posted;
  out.place = out.filling->data();
  receives_.erase(posted);
  return out;
}

void TcpConnection::close_frame() {
  in_header_done_ = 0;
  if (incoming_.done < size_of(incoming_.message)) {
    interrupted_ = std::exchange(incoming_, {});
  } else if (incoming_.filling != nullptr) {
    std::exchange(incoming_, {}).filling->finish();
  } else {
    early_.push_back(std::exchange(incoming_, {}));
  }
}

}  // namespace fm::comm
