#include "comm/tcp_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace fm::comm {
namespace {

constexpr std::size_t kReadTurn = std::size_t{4} << 20;  // then the other peers get their turn

bool transient() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

FrameHeader header_of(const Message& message) {
  return {.verb = static_cast<std::uint8_t>(message.verb),
          .phase = message.phase,
          .dtype = static_cast<std::uint8_t>(message.dtype),
          .group = message.group,
          .sequence = message.sequence,
          .bytes = static_cast<std::uint64_t>(message.bytes.count())};
}

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
  outgoing_.push_back(&transfer);
  if (outgoing_.size() == 1) {
    out_header_ = header_of(transfer.message());
    write_some();  // often the kernel takes it at once
  }
}

void TcpConnection::post_receive(TcpTransfer& transfer) {
  if (!claim_early(transfer)) receives_.push_back(&transfer);
}

// A frame that came, or is coming, before its receive.
bool TcpConnection::claim_early(TcpTransfer& transfer) {
  const Message& wanted = transfer.message();
  for (auto at = early_.begin(); at != early_.end(); ++at) {
    if (!same_slot(wanted, at->message)) continue;
    check_agreement(wanted, at->message, peer_name_);
    if (size_of(wanted) > 0) std::memcpy(transfer.data(), at->bytes.get(), size_of(wanted));
    early_.erase(at);
    transfer.finish();
    return true;
  }
  if (in_early_ == nullptr || !same_slot(wanted, in_message_)) return false;
  check_agreement(wanted, in_message_, peer_name_);
  std::memcpy(transfer.data(), in_early_.get(), in_done_);
  in_early_.reset();
  in_place_ = transfer.data();
  filling_ = &transfer;
  return true;
}

void TcpConnection::withdraw(TcpTransfer& transfer) noexcept {
  std::erase(receives_, &transfer);
  if (filling_ == &transfer) socket_.close();  // the rest of the frame has no place to go
  const auto queued = std::ranges::find(outgoing_, &transfer);
  if (queued == outgoing_.end()) return;
  if (queued == outgoing_.begin() && out_done_ > 0) socket_.close();  // half a frame left
  outgoing_.erase(queued);
  if (!outgoing_.empty() && out_done_ == 0) out_header_ = header_of(outgoing_.front()->message());
}

bool TcpConnection::write_some() {
  bool moved = false;
  while (!outgoing_.empty() && socket_.open()) {
    TcpTransfer& first = *outgoing_.front();
    const std::size_t header_left = sizeof(FrameHeader) - std::min(sizeof(FrameHeader), out_done_);
    const std::size_t body_done = out_done_ + header_left - sizeof(FrameHeader);
    auto* const header_bytes = reinterpret_cast<std::byte*>(&out_header_);
    std::array<iovec, 2> pieces{
        iovec{header_bytes + sizeof(FrameHeader) - header_left, header_left},
        iovec{first.data() + body_done, size_of(first.message()) - body_done}};
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
    if (out_done_ < sizeof(FrameHeader) + size_of(first.message())) continue;
    first.finish();
    outgoing_.pop_front();
    out_done_ = 0;
    if (!outgoing_.empty()) out_header_ = header_of(outgoing_.front()->message());
  }
  return moved;
}

// Reads up to `count` bytes in all; true when something came.
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
    const std::size_t before = in_done_;
    if (in_done_ < size_of(in_message_) && !take(in_place_, size_of(in_message_), in_done_)) break;
    moved = true;
    budget -= std::min(budget, in_done_ - before);
    if (in_done_ == size_of(in_message_)) close_frame();
  }
  return moved;
}

void TcpConnection::open_frame() {
  Socket until_sound = std::move(socket_);  // a frame that is refused ends the connection
  const bool sound = in_header_.magic == FrameHeader::kMagic &&
                     in_header_.verb <= static_cast<std::uint8_t>(kLastVerb) &&
                     in_header_.dtype <= static_cast<std::uint8_t>(core::kLastDType);
  FM_MACHINE_CHECK(sound, core::ExitCode::kMismatch,
                   "every rank must run the same build; start all ranks with the same program (",
                   peer_name_, " sent a frame that is none of ours)");
  in_message_ = message_of(in_header_, peer_);
  in_done_ = 0;
  const auto posted = std::ranges::find_if(
      receives_, [&](TcpTransfer* one) { return same_slot(one->message(), in_message_); });
  if (posted == receives_.end()) {
    in_early_ = std::make_unique_for_overwrite<std::byte[]>(size_of(in_message_));
    in_place_ = in_early_.get();
  } else {
    check_agreement((*posted)->message(), in_message_, peer_name_);
    filling_ = *posted;
    in_place_ = filling_->data();
    receives_.erase(posted);
  }
  socket_ = std::move(until_sound);
}

void TcpConnection::close_frame() {
  if (filling_ != nullptr) {
    std::exchange(filling_, nullptr)->finish();
  } else {
    early_.push_back({in_message_, std::move(in_early_)});
  }
  in_header_done_ = 0;
  in_early_.reset();
}

}  // namespace fm::comm
