// One peer of the tcp fabric: the queue to it, and the frames from it.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "comm/wire/fabric.h"
#include "comm/wire/socket.h"

namespace fm::comm {

class TcpConnection;

class TcpTransfer : public Transfer {
 public:
  TcpTransfer(TcpConnection& connection, const Message& message, std::byte* data)
      : Transfer(message), connection_(connection), data_(data) {}
  ~TcpTransfer() override;
  bool done() const override { return done_; }
  void finish() { done_ = true; }
  std::byte* data() const { return data_; }  // sends only read it

 private:
  TcpConnection& connection_;
  std::byte* data_;
  bool done_ = false;
};

struct FrameHeader {
  static constexpr std::uint32_t kMagic = 0x6d65676dU;
  std::uint32_t magic = kMagic;
  std::uint8_t verb = 0;
  std::uint8_t phase = 0;
  std::uint8_t dtype = 0;
  std::uint8_t zero = 0;
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;  // of the message
  std::uint64_t begin = 0;  // of this piece in it
  std::uint64_t piece = 0;
};
static_assert(sizeof(FrameHeader) == 48);

// Small messages overtake large ones between two pieces, so host numbers need not wait for weights
// and gradients.
//
// Invariant: a frame is sent completely before the next one; large messages are sent one after the
//            other in posting order, and so are small ones; a transfer is registered here until it
//            is done or withdrawn.
// Thread:    one thread per rank.
// Lifetime:  outlives its transfers.
class TcpConnection {
 public:
  TcpConnection(Socket socket, int peer, std::string peer_name)
      : socket_(std::move(socket)), peer_(peer), peer_name_(std::move(peer_name)) {}

  const Socket& socket() const { return socket_; }
  const std::string& peer_name() const { return peer_name_; }
  bool lost() const { return !socket_.open(); }
  bool sending() const { return !small_.empty() || !large_.empty(); }
  bool needed() const {
    return sending() || !receives_.empty() || incoming_.filling != nullptr ||
           interrupted_.filling != nullptr;
  }

  void post_send(TcpTransfer& transfer);
  void post_receive(TcpTransfer& transfer);
  void withdraw(TcpTransfer& transfer) noexcept;
  // True when bytes moved; at the end of the stream the connection becomes lost().
  bool write_some();
  // The same. Throws MachineError (22) when the peer runs another program.
  bool read_some();

 private:
  struct Outgoing {
    TcpTransfer* transfer = nullptr;
    std::size_t sent = 0;  // bytes in frames that are sent completely
  };
  struct Incoming {
    Message message;
    std::byte* place = nullptr;          // destination of the payload
    TcpTransfer* filling = nullptr;      // the owner of that memory; null: it is `early`
    std::unique_ptr<std::byte[]> early;  // for a message that arrived before its receive
    std::size_t done = 0;                // payload bytes received
  };
  std::deque<Outgoing>& next_queue() { return small_.empty() ? large_ : small_; }
  void begin_frame();
  void end_frame();
  bool take(std::byte* into, std::size_t count, std::size_t& taken);
  void open_frame();
  Incoming open_message(const Message& message);
  void close_frame();
  bool claim_early(TcpTransfer& transfer);
  bool claim_partial(TcpTransfer& transfer, Incoming& partial);

  Socket socket_;
  int peer_;
  std::string peer_name_;

  std::deque<Outgoing> small_, large_;
  std::deque<Outgoing>* writing_ =
      nullptr;  // the queue whose first message has a frame partly sent
  FrameHeader out_header_;
  std::size_t out_done_ = 0;  // bytes of that frame that are sent, header included

  FrameHeader in_header_;
  std::size_t in_header_done_ = 0;
  std::size_t in_piece_done_ = 0;       // payload bytes of the current frame that have arrived
  Incoming incoming_;                   // the message of the current frame
  Incoming interrupted_;                // a large message between two of its frames
  std::vector<TcpTransfer*> receives_;  // posted, no frame yet
  std::list<Incoming> early_;           // complete messages without a receive
};

}  // namespace fm::comm
