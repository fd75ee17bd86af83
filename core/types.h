// Quantities with their unit in the type: bytes and elements never mix.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

namespace fm::core {

template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t count) : count_(count) {}
  constexpr std::int64_t count() const { return count_; }
  constexpr auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) { return count_ += other.count_, *this; }
  constexpr Quantity& operator-=(Quantity other) { return count_ -= other.count_, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, std::int64_t times) {
    return Quantity(a.count_ * times);
  }
  friend constexpr Quantity operator/(Quantity a, std::int64_t parts) {
    return Quantity(a.count_ / parts);
  }
  friend constexpr std::int64_t operator/(Quantity a, Quantity b) { return a.count_ / b.count_; }
  friend constexpr Quantity operator%(Quantity a, Quantity b) {
    return Quantity(a.count_ % b.count_);
  }

 private:
  std::int64_t count_ = 0;
};

using Elements = Quantity<struct ElementsTag>;
using Bytes = Quantity<struct BytesTag>;

enum class DType : std::uint8_t { kF32, kBF16, kF16, kF64, kI32, kI64, kU8 };
inline constexpr DType kLastDType = DType::kU8;

constexpr Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return Bytes(4);
    case DType::kBF16: return Bytes(2);
    case DType::kF16: return Bytes(2);
    case DType::kF64: return Bytes(8);
    case DType::kI32: return Bytes(4);
    case DType::kI64: return Bytes(8);
    case DType::kU8: return Bytes(1);
  }
  return Bytes(0);
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "fp32";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "fp16";
    case DType::kF64: return "fp64";
    case DType::kI32: return "int32";
    case DType::kI64: return "int64";
    case DType::kU8: return "uint8";
  }
  return "?";
}

constexpr Bytes bytes_of(Elements elements, DType dtype) {
  return Bytes(elements.count() * size_of(dtype).count());
}

// Element number `at` of an array whose type only `dtype` tells; null stays null.
inline void* element_at(void* array, Elements at, DType dtype) {
  if (array == nullptr) return nullptr;
  return static_cast<unsigned char*>(array) + bytes_of(at, dtype).count();
}

template <class Tag>
constexpr Quantity<Tag> round_up(Quantity<Tag> value, Quantity<Tag> multiple) {
  return Quantity<Tag>((value.count() + multiple.count() - 1) / multiple.count() *
                       multiple.count());
}

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t parts) {
  return (value + parts - 1) / parts;
}

// How many ranks share the tokens of a row (core/sequence_part.h): groups of `ulysses` ranks that
// exchange heads, in a ring of `ring` such groups.
struct SequenceSplit {
  int ulysses = 1;
  int ring = 1;
  constexpr int ranks() const { return ulysses * ring; }
  constexpr bool operator==(const SequenceSplit&) const = default;
};

// One micro-batch of one rank: B rows of T tokens, of which the others of `split` have as many.
struct BatchShape {
  std::int64_t batch = 1;
  std::int64_t seq_len = 1;
  SequenceSplit split = {};
  constexpr std::int64_t tokens() const { return batch * seq_len; }
  constexpr std::int64_t row() const { return seq_len * split.ranks(); }  // tokens of all ranks
};

}  // namespace fm::core
