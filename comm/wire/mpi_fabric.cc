#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "comm/wire/fabrics.h"
#include "comm/wire/late_mpi.h"
#include "core/check.h"

namespace fm::comm {
namespace {

using core::ExitCode;
constexpr std::int64_t kPiece = std::int64_t{1} << 30;  // MPI counts in int
constexpr int kLooksBeforeSleep = 2'000;                // a message in shared memory takes 1 us
constexpr auto kNap = std::chrono::microseconds(50);
constexpr int kNapsPerLength = 200;  // then naps become one kNap longer: a long wait is cheap
constexpr int kLongest = 20;

void check_mpi(int code, const std::string& what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  mpi().Error_string(code, text.data(), &length);
  int error_class = MPI_SUCCESS;
  mpi().Error_class(code, &error_class);
  FM_MACHINE_CHECK(error_class != MPI_ERR_TRUNCATE, ExitCode::kMismatch,
                   "all ranks must post the same operations in the same order; start every rank "
                   "with the same program, flags and files (",
                   what, ": more bytes came, ", text.data(), ")");
  throw core::MachineError(ExitCode::kPeerLost,
                           core::concat("all ranks must live to the end; look at the output of the "
                                        "others (",
                                        what, ": ", text.data(), ")"));
}

// Messages of a group arrive in posting order, so they share tag 0. Collectives have tags of their
// own, which also separate different verbs and types. MPI guarantees tags up to 32,767.
int tag_of(const Message& message) {
  if (message.verb == Verb::kMessage) return 0;
  const auto slot = static_cast<int>((message.sequence * 2 + message.phase) % 500);
  const int kind = static_cast<int>(message.verb) * 8 + static_cast<int>(message.dtype);
  return 1 + slot * 64 + kind;
}

struct OpenGroup {
  MPI_Comm comm = mpi().no_comm;  // freed by MPI_Finalize: MPI_Comm_free would wait for peers
  std::vector<int> world_ranks;
  int rank_of(int world_rank) const {
    return static_cast<int>(std::ranges::find(world_ranks, world_rank) - world_ranks.begin());
  }
};

class MpiTransfer : public Transfer {
 public:
  enum class Direction : std::uint8_t { kSend, kReceive };

  // `calls` outlives it.
  MpiTransfer(const Message& message, std::byte* data, Direction direction, const OpenGroup& group,
              CallMark& calls)
      : Transfer(message), direction_(direction), calls_(calls) {
    const int peer = group.rank_of(message.peer);
    const std::int64_t bytes = message.bytes.count();
    std::int64_t begin = 0;
    do {
      const int count = static_cast<int>(std::min(kPiece, bytes - begin));
      pieces_.push_back({.request = mpi().no_request, .bytes = count});
      post(data + begin, peer, pieces_.back(), group.comm);
      begin += count;
    } while (begin < bytes);
  }

  ~MpiTransfer() override {
    int finalized = 0;
    mpi().Finalized(&finalized);
    if (finalized != 0) return;
    for (Piece& piece : pieces_) {
      if (piece.request == mpi().no_request) continue;
      if (direction_ == Direction::kReceive) mpi().Cancel(&piece.request);
      mpi().Request_free(&piece.request);  // a message that has begun continues: see Transfer
    }
  }

  bool done() const override {
    while (next_ < pieces_.size()) {
      Piece& piece = pieces_[next_];
      MPI_Status status{};
      int finished = 0;
      const int code =
          calls_.run("MPI_Test", [&] { return mpi().Test(&piece.request, &finished, &status); });
      // Checked first: a message that is too long is an error of MPI too, but MPI names no size.
      if (finished != 0 && direction_ == Direction::kReceive) check_size(status, piece);
      check_mpi(code, what());
      if (finished == 0) return false;
      ++next_;
    }
    return true;
  }

 private:
  struct Piece {
    MPI_Request request;
    int bytes;
  };

  void post(std::byte* data, int peer, Piece& piece, MPI_Comm comm) {
    const int tag = tag_of(message());
    MPI_Request* const to = &piece.request;
    const int code =
        direction_ == Direction::kSend
            ? calls_.run(
                  "MPI_Isend",
                  [&] { return mpi().Isend(data, piece.bytes, mpi().byte, peer, tag, comm, to); })
            : calls_.run("MPI_Irecv", [&] {
                return mpi().Irecv(data, piece.bytes, mpi().byte, peer, tag, comm, to);
              });
    check_mpi(code, what());
  }

  void check_size(const MPI_Status& status, const Piece& piece) const {
    int came = 0;
    mpi().Get_count(&status, mpi().byte, &came);
    Message there = message();
    there.bytes += core::Bytes(came - piece.bytes);
    check_agreement(message(), there, core::concat("rank ", message().peer));
  }

  std::string what() const {
    return core::concat(name_of(message().verb), " with rank ", message().peer, ", operation ",
                        message().sequence, ", ", message().bytes.count(), " bytes here");
  }

  Direction direction_;
  CallMark& calls_;
  mutable std::vector<Piece> pieces_;  // MPI_Test changes the request
  mutable std::size_t next_ = 0;
};

class MpiFabric : public Fabric {
 public:
  MpiFabric(int world_rank, Roster roster, std::shared_ptr<CallMark> calls)
      : world_rank_(world_rank), roster_(std::move(roster)), calls_(std::move(calls)) {
    OpenGroup world;
    check_mpi(mpi().Comm_dup(mpi().world, &world.comm), "MPI_Comm_dup");
    mpi().Comm_set_errhandler(world.comm, mpi().errors_return);
    for (const Member& member : roster_) world.world_ranks.push_back(member.world_rank);
    groups_[0] = std::move(world);
  }

  std::unique_ptr<Transfer> send(const void* data, const Message& message) override {
    // MPI_Isend only reads; one pointer type serves both directions.
    return post(const_cast<void*>(data), message, MpiTransfer::Direction::kSend);
  }
  std::unique_ptr<Transfer> receive(void* data, const Message& message) override {
    return post(data, message, MpiTransfer::Direction::kReceive);
  }

  // Operation::advance() calls MPI_Test; here a rank only yields its core to others. With no
  // message under way nothing calls MPI, but MPI may still hold messages that it reported as sent.
  void progress(int limit_ms) override {
    if (limit_ms == 0) advance();
    looks_ = std::min(looks_ + 1, kLooksBeforeSleep + kNapsPerLength * kLongest);
    if (looks_ < kLooksBeforeSleep || limit_ms == 0) {
      sched_yield();
    } else {
      const int naps = looks_ - kLooksBeforeSleep;
      std::this_thread::sleep_for(kNap * std::min(1 + naps / kNapsPerLength, kLongest));
    }
  }

  void advance() override {
    int there = 0;
    calls_->run("MPI_Iprobe", [&] {
      return mpi().Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, groups_.at(0).comm, &there,
                          MPI_STATUS_IGNORE);
    });
  }
  void open_group(std::uint64_t group, std::span<const int> world_ranks) override;
  void look_into(const Message& missing) override;
  std::string name() const override { return "mpi"; }
  std::string peer_name(int world_rank) const override {
    return name_of(roster_[static_cast<std::size_t>(world_rank)]);
  }

 private:
  // Throws when message `other` has arrived from the peer of `missing`.
  void look_for(Message other, const Message& missing);
  std::unique_ptr<Transfer> post(void* data, const Message& message,
                                 MpiTransfer::Direction direction) {
    looks_ = 0;
    return std::make_unique<MpiTransfer>(message, static_cast<std::byte*>(data), direction,
                                         groups_.at(message.group), *calls_);
  }

  int world_rank_;
  Roster roster_;
  std::shared_ptr<CallMark> calls_;
  std::map<std::uint64_t, OpenGroup> groups_;
  int looks_ = 0;
};

void MpiFabric::open_group(std::uint64_t group, std::span<const int> world_ranks) {
  const OpenGroup& world = groups_.at(0);
  OpenGroup child;
  child.world_ranks.assign(world_ranks.begin(), world_ranks.end());
  MPI_Group world_group = mpi().no_group;
  MPI_Group members = mpi().no_group;
  mpi().Comm_group(world.comm, &world_group);
  mpi().Group_incl(world_group, static_cast<int>(world_ranks.size()), world_ranks.data(), &members);
  // split() has just met all members. The tag separates groups that are made at the same time.
  const int tag = static_cast<int>(group % 32'000);
  const int code = calls_->run("MPI_Comm_create_group", [&] {
    return mpi().Comm_create_group(world.comm, members, tag, &child.comm);
  });
  mpi().Group_free(&members);
  mpi().Group_free(&world_group);
  check_mpi(code, core::concat("MPI_Comm_create_group on rank ", world_rank_));
  mpi().Comm_set_errhandler(child.comm, mpi().errors_return);
  groups_[group] = std::move(child);
}

// To MPI the same operation with another verb or type is another message, so it would wait for
// ever.
void MpiFabric::look_into(const Message& missing) {
  if (missing.verb == Verb::kMessage) return;
  Message other = missing;
  for (int verb = 0; verb <= static_cast<int>(kLastVerb); ++verb) {
    for (int dtype = 0; dtype <= static_cast<int>(core::kLastDType); ++dtype) {
      other.verb = static_cast<Verb>(verb);
      other.dtype = static_cast<core::DType>(dtype);
      const bool same = other.verb == missing.verb && other.dtype == missing.dtype;
      if (other.verb != Verb::kMessage && !same) look_for(other, missing);
    }
  }
}

void MpiFabric::look_for(Message other, const Message& missing) {
  const OpenGroup& group = groups_.at(missing.group);
  int there = 0;
  MPI_Status status{};
  const int peer = group.rank_of(missing.peer);
  check_mpi(
      calls_->run("MPI_Iprobe",
                  [&] { return mpi().Iprobe(peer, tag_of(other), group.comm, &there, &status); }),
      "MPI_Iprobe");
  if (there == 0) return;
  int bytes = 0;
  mpi().Get_count(&status, mpi().byte, &bytes);
  other.bytes = core::Bytes(bytes);
  check_agreement(missing, other, peer_name(missing.peer));
}

}  // namespace

std::unique_ptr<Fabric> make_mpi_fabric(int world_rank, Roster roster,
                                        std::shared_ptr<CallMark> calls) {
  return std::make_unique<MpiFabric>(world_rank, std::move(roster), std::move(calls));
}

}  // namespace fm::comm
