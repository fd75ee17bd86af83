#include "core/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace fm::core {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kSmallPage = 4096;
constexpr std::size_t kPage = std::size_t{2} << 20;

class Heap : public MemorySource {
 public:
  explicit Heap(std::size_t alignment) : alignment_(alignment) {}
  void* allocate(Bytes bytes) override {
    const Bytes unit(static_cast<std::int64_t>(alignment_));
    const auto size = static_cast<std::size_t>(round_up(bytes, unit).count());
    void* const data = std::aligned_alloc(alignment_, size);
    if (data != nullptr) std::memset(data, 0, size);
    return data;
  }
  void release(void* data, Bytes) noexcept override { std::free(data); }
  std::unique_ptr<JoinedMemory> join(const JoinedParts&) override {
    FM_CHECK(false, "memory of the heap has one address");
  }

 private:
  std::size_t alignment_;
};

}  // namespace

MemorySource& heap() {
  static Heap source(kCacheLine);  // has no state that changes
  return source;
}

MemorySource& heap_pages() {
  static Heap source(kSmallPage);  // has no state that changes
  return source;
}

Buffer::Buffer(Ledger& ledger, Account account, Bytes bytes, MemorySource& source, Bytes share)
    : ledger_(&ledger), account_(account), bytes_(bytes), source_(&source), share_(share) {
  if (bytes.count() == 0) return;
  data_ = source.allocate(bytes);
  FM_MACHINE_CHECK(data_ != nullptr, ExitCode::kOutOfMemory, "memory for ", name_of(account),
                   " must fit; use more ranks, a higher ZeRO stage or a smaller batch (asked ",
                   bytes.count(), " bytes)");
  ledger_->charge(account_, share_);
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  ledger_ = std::exchange(other.ledger_, nullptr);
  account_ = other.account_;
  bytes_ = std::exchange(other.bytes_, Bytes());
  data_ = std::exchange(other.data_, nullptr);
  source_ = other.source_;
  share_ = other.share_;
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  if (data_ == nullptr) return;
  source_->release(data_, bytes_);
  ledger_->discharge(account_, share_);
  data_ = nullptr;
}

Buffer make_f32(Ledger& ledger, Account account, Elements elements, MemorySource& source) {
  return Buffer(ledger, account, bytes_of(elements, DType::kF32), source);
}

void* HugePages::allocate(Bytes bytes) {
  const auto count = static_cast<std::size_t>(bytes.count());
  const std::size_t unit = count < kPage ? kCacheLine : kPage;
  void* const data = std::aligned_alloc(unit, (count + unit - 1) / unit * unit);
  if (data == nullptr) return nullptr;
  // Whole pages only: the last one would be paid for in whole. Where it is refused, small ones do.
  if (count >= kPage) static_cast<void>(::madvise(data, count / kPage * kPage, MADV_HUGEPAGE));
  std::memset(data, 0, count);
  return data;
}

void HugePages::release(void* data, Bytes) noexcept { std::free(data); }

std::unique_ptr<JoinedMemory> HugePages::join(const JoinedParts&) {
  FM_CHECK(false, "huge pages have one address");
}

}  // namespace fm::core
