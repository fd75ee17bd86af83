#include <poll.h>
#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

#include "comm/wire/fabrics.h"
#include "comm/wire/tcp_connection.h"
#include "core/check.h"

namespace fm::comm {
namespace {

constexpr int kLooksBeforeSleep = 20;  // a wake-up costs more than a few polls

class TcpFabric : public Fabric {
 public:
  TcpFabric(TcpFabricOptions options, std::vector<Socket> sockets) : options_(std::move(options)) {
    for (std::size_t rank = 0; rank < sockets.size(); ++rank) {
      connections_.push_back(std::make_unique<TcpConnection>(
          std::move(sockets[rank]), static_cast<int>(rank), name_of(options_.roster[rank])));
    }
  }

  std::unique_ptr<Transfer> send(const void* data, const Message& message) override {
    TcpConnection& connection = connection_to(message.peer);
    // Sends only read; one pointer type serves both directions.
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
    auto transfer = std::make_unique<TcpTransfer>(connection, message, bytes);
    connection.post_send(*transfer);
    return transfer;
  }

  std::unique_ptr<Transfer> receive(void* data, const Message& message) override {
    TcpConnection& connection = connection_to(message.peer);
    auto transfer =
        std::make_unique<TcpTransfer>(connection, message, static_cast<std::byte*>(data));
    connection.post_receive(*transfer);
    return transfer;
  }

  void progress(int limit_ms) override {
    for (int look = 0; look < kLooksBeforeSleep; ++look) {
      report_losses();
      if (move(0)) return;
      sched_yield();
    }
    move(limit_ms);
  }
  void advance() override { move(0); }

  void open_group(std::uint64_t, std::span<const int>) override {}
  std::string name() const override { return "tcp"; }
  std::string peer_name(int world_rank) const override {
    return name_of(options_.roster[static_cast<std::size_t>(world_rank)]);
  }

 private:
  TcpConnection& connection_to(int peer) {
    FM_CHECK(peer != options_.world_rank, "rank ", peer, " has no connection to itself");
    return *connections_[static_cast<std::size_t>(peer)];
  }

  bool move(int limit_ms);
  void report_losses() const {
    for (const auto& connection : connections_) {
      if (connection->lost() && connection->needed()) report_loss(*connection);
    }
  }
  [[noreturn]] void report_loss(const TcpConnection& connection) const;

  TcpFabricOptions options_;
  std::vector<std::unique_ptr<TcpConnection>> connections_;
  std::vector<pollfd> entries_;
  std::vector<TcpConnection*> polled_;
};

bool TcpFabric::move(int limit_ms) {
  entries_.clear();
  polled_.clear();
  for (const auto& connection : connections_) {
    if (connection->lost()) continue;
    const auto events = static_cast<short>(connection->sending() ? POLLIN | POLLOUT : POLLIN);
    entries_.push_back({.fd = connection->socket().fd(), .events = events, .revents = 0});
    polled_.push_back(connection.get());
  }
  if (poll(entries_.data(), entries_.size(), limit_ms) <= 0) return false;
  bool moved = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if ((entries_[i].revents & POLLOUT) != 0) moved = polled_[i]->write_some() || moved;
    if ((entries_[i].revents & ~POLLOUT) != 0) moved = polled_[i]->read_some() || moved;
  }
  return moved;
}

void TcpFabric::report_loss(const TcpConnection& connection) const {
  std::this_thread::sleep_for(std::chrono::milliseconds(options_.verdict_ms));
  throw core::MachineError(
      core::ExitCode::kPeerLost,
      core::concat("all ranks must live to the end; look at the output of the lost one and restart "
                   "to resume from the last checkpoint (",
                   connection.peer_name(), " closed its connection)"));
}

}  // namespace

std::unique_ptr<Fabric> make_tcp_fabric(TcpFabricOptions options, std::vector<Socket> sockets) {
  return std::make_unique<TcpFabric>(std::move(options), std::move(sockets));
}

}  // namespace fm::comm
