// The posted operations of one rank and the one loop that advances them: any wait advances all of
// them, so the order in which a rank waits never blocks its peers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/waiting.h"
#include "comm/wire/fabric.h"

namespace fm::comm {

// Memory for received parts until they are added.
//
// Invariant: a block is lent to one operation at a time; blocks grow and are never given back.
// Thread:    one thread per rank.
// Lifetime:  outlives its leases (operations hold the communicator's pool by shared_ptr), not its
//            source.
class StagingPool {
 public:
  explicit StagingPool(core::MemorySource* source = nullptr)  // null: the heap
      : source_(source) {}
  std::byte* take(core::Bytes bytes);
  void give_back(const std::byte* data) noexcept;

 private:
  struct Free {
    core::MemorySource* source;  // null: the heap
    core::Bytes bytes;
    void operator()(std::byte* data) const noexcept;
  };
  struct StagingBlock {
    std::unique_ptr<std::byte, Free> data;
    bool lent = false;
    core::Bytes bytes() const {
      return data == nullptr ? core::Bytes(0) : data.get_deleter().bytes;
    }
  };
  std::unique_ptr<std::byte, Free> make(core::Bytes bytes) const;

  core::MemorySource* source_;
  std::vector<StagingBlock> blocks_;
};

class Progress;

// A posted operation of any backend.
//
// Thread:    the thread that posted it.
// Lifetime:  waited for before it dies, unless an error is in flight.
class Posted : public Pending::Task {
 public:
  // What advances an operation: messages of the fabric, memory that ranks share, or other
  // operations that it posts.
  enum class By : std::uint8_t { kFabric, kMemory, kParts };

  Posted(std::shared_ptr<Progress> progress, By by);
  ~Posted() override;
  Posted(const Posted&) = delete;
  Posted& operator=(const Posted&) = delete;

  virtual bool advance() = 0;  // true when something moved
  virtual bool finished() const = 0;
  virtual std::optional<Message> missing() const = 0;  // the first message that is not done
  By by() const { return by_; }
  // How many waits of the peer of missing() may have to reach their limit first: the peer may wait
  // for another rank, which its own report would name.
  virtual int reports_before() const { return 0; }
  void wait() override;

 protected:
  Progress& progress() { return *progress_; }
  std::string peer_name(int world_rank) const;

 private:
  std::shared_ptr<Progress> progress_;
  By by_;
};

// Invariant: running_ holds exactly the operations that are posted and not finished.
// Thread:    one thread per rank.
// Lifetime:  shared by all communicators of a rank and their operations.
class Progress {
 public:
  Progress(std::unique_ptr<Fabric> fabric, int timeout_ms, const Clock& clock = kSystemClock)
      : fabric_(std::move(fabric)), timeout_ms_(timeout_ms), clock_(clock) {}
  Fabric& fabric() { return *fabric_; }
  const Fabric& fabric() const { return *fabric_; }

  // From now on peers in shared memory ring `bell`. Called once, before the first operation by
  // memory.
  void listen(std::unique_ptr<Bell> bell) { bell_ = std::move(bell); }

  void start(Posted* operation) { running_.push_back(operation); }
  void forget(const Posted* operation) noexcept { std::erase(running_, operation); }
  // Bytes of messages so far.
  core::Bytes sent() const { return sent_; }
  void count(core::Bytes bytes) { sent_ += bytes; }
  // Throws MachineError (21) naming the peer when the limit passes.
  void wait(Posted& operation);

 private:
  bool advance_all();
  void nap(int limit_ms);
  void look_around() const;
  void throw_hang(const Posted& operation) const;

  std::unique_ptr<Fabric> fabric_;
  int timeout_ms_;
  const Clock& clock_;
  std::unique_ptr<Bell> bell_;
  core::Bytes sent_;
  std::vector<Posted*> running_;
};

// A posted verb: messages, and what follows when they are all done.
class Operation : public Posted {
 public:
  using Step = std::function<void(Operation&)>;

  explicit Operation(std::shared_ptr<Progress> progress)
      : Posted(std::move(progress), By::kFabric) {}
  ~Operation() override;

  void send(const void* data, const Message& message);
  void receive(void* data, const Message& message);
  // Runs after all messages so far are done; may post more.
  void then(Step step) { step_ = std::move(step); }
  std::byte* staging(const std::shared_ptr<StagingPool>& pool, core::Bytes bytes);

  bool advance() override;
  bool finished() const override { return transfers_.empty() && step_ == nullptr; }
  std::optional<Message> missing() const override;

 private:
  std::vector<std::unique_ptr<Transfer>> transfers_;
  Step step_;
  std::shared_ptr<StagingPool> pool_;
  std::byte* staging_ = nullptr;
};

// Posted operations that follow each other: e.g. a verb moves within a host, then between hosts.
//
// Invariant: at most one part is under way; the next one is made when it has finished.
// Thread:    the thread that posted it.
// Lifetime:  as Posted. A part's function owns the memory that the part uses.
class Chain final : public Posted {
 public:
  using Part = std::function<std::unique_ptr<Posted>()>;  // null: nothing to wait for

  Chain(std::shared_ptr<Progress> progress, std::vector<Part> parts)
      : Posted(std::move(progress), By::kParts), parts_(std::move(parts)) {
    advance();
  }

  bool advance() override;
  bool finished() const override { return next_ == parts_.size() && running_ == nullptr; }
  std::optional<Message> missing() const override {
    return running_ == nullptr ? std::nullopt : running_->missing();
  }
  // The peer of a later part may still be in an earlier one.
  int reports_before() const override {
    return running_ == nullptr ? 0 : static_cast<int>(next_) - 1;
  }

 private:
  std::vector<Part> parts_;
  std::size_t next_ = 0;
  std::unique_ptr<Posted> running_;  // ends before the functions whose memory it uses
};

}  // namespace fm::comm
