#include "core/buffer.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace fm::core {

namespace {
constexpr std::size_t kAlignment = 64;
}

Buffer::Buffer(Ledger& ledger, Account account, Bytes bytes)
    : ledger_(&ledger), account_(account), bytes_(bytes) {
  if (bytes.count() == 0) return;
  const auto size = static_cast<std::size_t>(round_up(bytes, Bytes(kAlignment)).count());
  data_ = std::aligned_alloc(kAlignment, size);
  FM_MACHINE_CHECK(data_ != nullptr, ExitCode::kOutOfMemory, "memory for ", name_of(account),
                   " must fit; use more ranks, a higher ZeRO stage or a smaller batch (asked ",
                   size, " bytes)");
  std::memset(data_, 0, size);
  ledger_->charge(account_, bytes_);
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  ledger_ = std::exchange(other.ledger_, nullptr);
  account_ = other.account_;
  bytes_ = std::exchange(other.bytes_, Bytes());
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() noexcept {
  if (data_ == nullptr) return;
  std::free(data_);
  ledger_->discharge(account_, bytes_);
  data_ = nullptr;
}

Buffer make_f32(Ledger& ledger, Account account, Elements elements) {
  return Buffer(ledger, account, bytes_of(elements, DType::kF32));
}

}  // namespace fm::core
