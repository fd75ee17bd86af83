// Posted operations that follow each other: what one verb does within a host, then between hosts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "comm/verbs/progress.h"

namespace fm::comm {

// Invariant: at most one part is under way; the next one is made when it has finished.
// Thread:    the thread that posted it.
// Lifetime:  as Posted. What a part needs lives in its function.
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
  int hearsay() const override { return running_ == nullptr ? 0 : static_cast<int>(next_) - 1; }

 private:
  std::vector<Part> parts_;
  std::size_t next_ = 0;
  std::unique_ptr<Posted> running_;  // ends before the functions whose memory it uses
};

}  // namespace fm::comm
