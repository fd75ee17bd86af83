// Posted operations of one rank and the one loop that moves them: any wait advances all of them,
// so the order in which a rank waits never decides whether its peers get on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/fabric.h"

namespace fm::comm {

// Memory that received parts wait in until they are added.
//
// Invariant: a block is lent to one operation at a time; blocks grow and are never given back.
// Thread:    one thread per rank.
// Lifetime:  outlives its leases (operations hold the communicator's pool by shared_ptr).
class StagingPool {
 public:
  std::byte* take(core::Bytes bytes);
  void give_back(const std::byte* data) noexcept;

 private:
  struct Free {
    void operator()(std::byte* data) const noexcept;
  };
  struct Block {
    std::unique_ptr<std::byte, Free> data;
    core::Bytes bytes;
    bool lent = false;
  };
  std::vector<Block> blocks_;
};

class Operation;

// Invariant: running_ holds exactly the operations that are posted and not finished.
// Thread:    one thread per rank.
// Lifetime:  shared by all communicators of a rank and their operations.
class Progress {
 public:
  Progress(std::unique_ptr<Fabric> fabric, int timeout_ms)
      : fabric_(std::move(fabric)), timeout_ms_(timeout_ms) {}
  Fabric& fabric() { return *fabric_; }
  const Fabric& fabric() const { return *fabric_; }

  void start(Operation* operation) { running_.push_back(operation); }
  void forget(const Operation* operation) noexcept { std::erase(running_, operation); }
  // Throws MachineError (21) naming the peer when the limit passes.
  void wait(Operation& operation);

 private:
  bool advance_all();

  std::unique_ptr<Fabric> fabric_;
  int timeout_ms_;
  std::vector<Operation*> running_;
};

// A posted verb: messages, and what follows when they are all done.
class Operation : public Pending::Work {
 public:
  using Step = std::function<void(Operation&)>;

  explicit Operation(std::shared_ptr<Progress> progress) : progress_(std::move(progress)) {
    progress_->start(this);
  }
  ~Operation() override;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  void send(const void* data, const Message& message);
  void receive(void* data, const Message& message);
  // Runs after all messages so far are done; may post more.
  void then(Step step) { step_ = std::move(step); }
  std::byte* staging(const std::shared_ptr<StagingPool>& pool, core::Bytes bytes);

  bool advance();  // true when something moved
  bool finished() const { return transfers_.empty() && step_ == nullptr; }
  const Message* missing() const;  // the first message that is not done, or null
  void wait() override { progress_->wait(*this); }

 private:
  std::shared_ptr<Progress> progress_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
  Step step_;
  std::shared_ptr<StagingPool> pool_;
  std::byte* staging_ = nullptr;
};

}  // namespace fm::comm
