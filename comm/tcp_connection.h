// One peer of the tcp fabric: the queue to it, and the frames from it.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "comm/fabric.h"
#include "comm/socket.h"

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
  std::uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 32);

// Invariant: frames leave whole and in posting order; a transfer is known here until it is done
//            or withdrawn.
// Thread:    one thread per rank.
// Lifetime:  outlives its transfers.
class TcpConnection {
 public:
  TcpConnection(Socket socket, int peer, std::string peer_name)
      : socket_(std::move(socket)), peer_(peer), peer_name_(std::move(peer_name)) {}

  const Socket& socket() const { return socket_; }
  const std::string& peer_name() const { return peer_name_; }
  bool lost() const { return !socket_.open(); }
  bool sending() const { return !outgoing_.empty(); }
  bool needed() const { return !outgoing_.empty() || !receives_.empty() || filling_ != nullptr; }

  void post_send(TcpTransfer& transfer);
  void post_receive(TcpTransfer& transfer);
  void withdraw(TcpTransfer& transfer) noexcept;
  bool write_some();  // both: true when bytes moved; an end of the stream makes it lost()
  bool read_some();   // throws MachineError (22) when the peer runs another program

 private:
  struct Early {  // arrived before its receive
    Message message;
    std::unique_ptr<std::byte[]> bytes;
  };
  bool take(std::byte* into, std::size_t count, std::size_t& taken);
  void open_frame();
  void close_frame();
  bool claim_early(TcpTransfer& transfer);

  Socket socket_;
  int peer_;
  std::string peer_name_;

  std::deque<TcpTransfer*> outgoing_;
  FrameHeader out_header_;
  std::size_t out_done_ = 0;  // bytes of the first frame that left, header included

  FrameHeader in_header_;
  std::size_t in_header_done_ = 0;
  std::size_t in_done_ = 0;  // payload bytes of the current frame that came
  Message in_message_;
  std::byte* in_place_ = nullptr;   // where the payload goes
  TcpTransfer* filling_ = nullptr;  // whose memory that is, or null: in_early_
  std::unique_ptr<std::byte[]> in_early_;
  std::vector<TcpTransfer*> receives_;  // posted, no frame yet
  std::list<Early> early_;
};

}  // namespace fm::comm
