#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "offload/disk/disk_engine.h"

namespace fm::offload {
namespace {

constexpr std::uint64_t kWake = ~std::uint64_t{0};  // no slot
constexpr unsigned kBuffers = 1024;                 // places in the ring's table of memory
constexpr std::size_t kLargestBuffer = std::size_t{1} << 30;  // io_uring_register(2)

class UringEngine : public DiskEngine {
 public:
  // What init() made, and a descriptor of events.
  UringEngine(const io_uring& ring, int events) : ring_(ring), events_(events) {
    has_table_ = io_uring_register_buffers_sparse(&ring_, kBuffers) == 0;
    listen();
  }
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;
  ~UringEngine() override {
    ending_ = true;  // the kernel lets go of what it listens into
    wake();
    std::vector<DiskDone> done;
    try {
      wait(done);
    } catch (const core::Error&) {  // the ring goes in any case
    }
    io_uring_queue_exit(&ring_);
    ::close(events_);
  }

  void start(std::size_t slot, const DiskBlock& block) override {
    io_uring_sqe* const entry = next_entry();
    const auto size = static_cast<unsigned>(block.memory.size());
    const auto offset = static_cast<std::uint64_t>(block.offset);
    const int buffer = buffer_of(block.memory);
    void* const data = block.memory.data();
    const bool reads = block.direction == BlockDirection::kRead;
    if (buffer >= 0) {
      reads ? io_uring_prep_read_fixed(entry, block.fd, data, size, offset, buffer)
            : io_uring_prep_write_fixed(entry, block.fd, data, size, offset, buffer);
    } else {
      reads ? io_uring_prep_read(entry, block.fd, data, size, offset)
            : io_uring_prep_write(entry, block.fd, data, size, offset);
    }
    io_uring_sqe_set_data64(entry, slot);
    io_uring_submit(&ring_);  // what the kernel cannot take now, wait() hands over
  }

  void wait(std::vector<DiskDone>& done) override {
    const int result = io_uring_submit_and_wait(&ring_, 1);
    const bool in_order = result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY;
    FM_MACHINE_CHECK(in_order, core::ExitCode::kStorageFailed,
                     "io_uring_submit_and_wait: ", std::strerror(-result));
    unsigned head = 0;
    unsigned count = 0;
    io_uring_cqe* over = nullptr;
    bool woken = false;
    io_uring_for_each_cqe(&ring_, head, over) {
      ++count;
      if (over->user_data == kWake) {
        woken = true;
      } else {
        done.push_back({static_cast<std::size_t>(over->user_data), over->res});
      }
    }
    io_uring_cq_advance(&ring_, count);
    if (woken && !ending_) listen();
  }

  void wake() override {
    const std::uint64_t one = 1;
    // Only a full counter refuses, and that one wakes already.
    const ssize_t written = ::write(events_, &one, sizeof(one));
    static_cast<void>(written);
  }

  std::string will_use(std::span<std::byte> memory) override {
    if (!has_table_) return "this kernel keeps no table of memory";
    for (std::span<std::byte> left = memory; !left.empty();) {
      const std::span<std::byte> piece = left.first(std::min(left.size(), kLargestBuffer));
      if (buffers_.size() == kBuffers) return "too many pieces";
      const iovec place{piece.data(), piece.size()};
      const __u64 no_tag = 0;
      const int result = io_uring_register_buffers_update_tag(
          &ring_, static_cast<unsigned>(buffers_.size()), &place, &no_tag, 1);
      if (result < 0) return std::strerror(-result);
      buffers_.push_back(piece);
      left = left.subspan(piece.size());
    }
    return "";
  }

 private:
  // The queue has a place for every slot and for the event.
  io_uring_sqe* next_entry() {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    FM_CHECK(entry != nullptr, "the ring has a place for every slot");
    return entry;
  }
  void listen() {
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_read(entry, events_, &event_, sizeof(event_), 0);
    io_uring_sqe_set_data64(entry, kWake);
  }
  int buffer_of(std::span<std::byte> memory) const {
    for (std::size_t at = 0; at < buffers_.size(); ++at) {
      const std::span<std::byte> buffer = buffers_[at];
      const bool within = memory.data() >= buffer.data() &&
                          memory.data() + memory.size() <= buffer.data() + buffer.size();
      if (within) return static_cast<int>(at);
    }
    return -1;
  }

  io_uring ring_;
  int events_;
  std::uint64_t event_ = 0;
  bool ending_ = false;
  bool has_table_ = false;
  std::vector<std::span<std::byte>> buffers_;
};

}  // namespace

EngineOrWhy uring_engine(std::size_t slots) {
  io_uring ring{};
  const int result = io_uring_queue_init(static_cast<unsigned>(slots + 1), &ring, 0);
  if (result < 0) return {.engine = nullptr, .why = std::strerror(-result)};
  const int events = ::eventfd(0, EFD_CLOEXEC);
  if (events < 0) {
    const std::string why = std::strerror(errno);
    io_uring_queue_exit(&ring);
    return {.engine = nullptr, .why = why};
  }
  return {.engine = std::make_unique<UringEngine>(ring, events)};
}

}  // namespace fm::offload
