#include "checkpoint/safetensors_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "checkpoint/safetensors_parse.h"
#include "checkpoint/torch_file.h"
#include "core/check.h"
#include "core/finite.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

}  // namespace

float f32_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

float f32_of_f16(std::uint16_t bits) {
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction x 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent - 15U + 127U;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

void to_f32(StoredFloat stored, std::span<const std::byte> bytes, std::span<float> out) {
  const std::byte* at = bytes.data();
  switch (stored) {
    case StoredFloat::kF32:
      if (!out.empty()) std::memcpy(out.data(), at, out.size_bytes());
      break;
    case StoredFloat::kF16:
      for (float& value : out) value = f32_of_f16(load<std::uint16_t>(at)), at += 2;
      break;
    case StoredFloat::kBF16:
      for (float& value : out) value = f32_of_bf16(load<std::uint16_t>(at)), at += 2;
      break;
    case StoredFloat::kF64:
      for (float& value : out) value = static_cast<float>(load<double>(at)), at += 8;
      break;
  }
}

namespace {

struct Readable {
  std::string_view dtype;
  StoredFloat stored;
};
constexpr Readable kReadable[] = {{"F32", StoredFloat::kF32},
                                  {"F16", StoredFloat::kF16},
                                  {"BF16", StoredFloat::kBF16},
                                  {"F64", StoredFloat::kF64}};

StoredFloat stored_float(const StoredTensor& tensor, const std::string& path) {
  for (const Readable& readable : kReadable) {
    if (readable.dtype == tensor.dtype) return readable.stored;
  }
  FM_DATA_CHECK(false, path, ": weights must be stored as F32, F16, BF16 or F64; convert the file ",
                "(tensor ", tensor.name, " is ", tensor.dtype, ")");
}

// The indices of a flat element.
std::vector<std::int64_t> indices_of(std::int64_t element, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> indices(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0; element /= shape[dim]) {
    indices[dim] = element % shape[dim];
  }
  return indices;
}

// `values`: elements from `first` on of the tensor.
void check_finite(std::span<const float> values, std::int64_t first, const StoredTensor& tensor,
                  const std::string& path) {
  const std::optional<std::size_t> bad = core::first_non_finite(values);
  if (!bad) return;
  FM_DATA_CHECK(false, path, ": tensor ", tensor.name,
                " must hold finite numbers; get the file again, or save the model from before it "
                "diverged (element ",
                shape_text(indices_of(first + static_cast<std::int64_t>(*bad), tensor.shape)),
                " is ", values[*bad], ", stored as ", tensor.dtype, ")");
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::vector<std::string> sizes;
  sizes.reserve(shape.size());
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return core::concat("[", core::join(sizes, ", "), "]");
}

TensorFile::TensorFile(const std::string& path, Parse parse)
    : path_(path), file_(path), header_(parse(file_.bytes(), path)) {
  file_.check_uncut();
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) place_[header_.tensors[i].name] = i;
}

const StoredTensor* TensorFile::find(const std::string& name) const {
  const auto found = place_.find(name);
  return found == place_.end() ? nullptr : &header_.tensors[found->second];
}

void TensorFile::read(const core::TensorSlice& slice) const {
  const StoredTensor* tensor = find(slice.name);
  FM_DATA_CHECK(tensor != nullptr, path_, ": tensor ", slice.name,
                " is required; check that weights and model config belong together");
  FM_DATA_CHECK(
      tensor->shape == slice.shape, path_, ": tensor ", slice.name,
      " must have the model's shape; check that weights and model config belong together (",
      shape_text(tensor->shape), " in the file, ", shape_text(slice.shape), " wanted)");
  check_sums(*tensor);
  for (std::int64_t row = 0; row < slice.rows; ++row) {
    const core::FetchedRow fetched(slice, row, core::FetchedRow::Use::kFill);
    read(*tensor, slice.first_of(row), fetched.floats());
  }
  file_.check_uncut();
}

std::span<const std::byte> TensorFile::bytes_of(const StoredTensor& tensor) const {
  check_sums(tensor);
  return file_.bytes().subspan(static_cast<std::size_t>(tensor.begin.count()),
                               static_cast<std::size_t>((tensor.end - tensor.begin).count()));
}

void TensorFile::check_sums(const StoredTensor& tensor) const {
  constexpr std::size_t kPiece = std::size_t{1} << 24;  // is let go, as below
  summed_.resize(header_.sums.size());
  for (std::size_t at = 0; at < summed_.size(); ++at) {
    const StoredSum& sum = header_.sums[at];
    if (summed_[at] || tensor.begin < sum.begin || sum.end < tensor.end) continue;
    const auto size = static_cast<std::size_t>((sum.end - sum.begin).count());
    std::span<const std::byte> left =
        file_.bytes().subspan(static_cast<std::size_t>(sum.begin.count()), size);
    std::uint32_t crc = 0;
    while (!left.empty()) {
      const auto piece = left.first(std::min(kPiece, left.size()));
      crc = crc32_of(piece, crc);
      file_.let_go(piece);
      left = left.subspan(piece.size());
    }
    file_.check_uncut();
    check_crc32(crc, sum.crc, sum.name, path_);
    summed_[at] = true;
  }
}

void TensorFile::read(const StoredTensor& tensor, core::Elements first,
                      std::span<float> out) const {
  const StoredFloat stored = stored_float(tensor, path_);
  const auto width = static_cast<std::int64_t>(kStoredTypes[rank_of_type(tensor.dtype)].bits / 8);
  const std::int64_t count = std::ssize(out);
  const core::Bytes begin = tensor.begin + core::Bytes(first.count() * width);
  FM_CHECK(first.count() >= 0 && begin + core::Bytes(count * width) <= tensor.end, "slice ",
           first.count(), " + ", count, " of ", tensor.name);
  const auto bytes_of = [&](std::int64_t from, std::int64_t end) {
    return file_.bytes().subspan(static_cast<std::size_t>(begin.count() + from * width),
                                 static_cast<std::size_t>((end - from) * width));
  };
  constexpr std::int64_t kBlock = std::int64_t{1} << 16;  // is checked while in a near cache
  constexpr std::int64_t kPiece = 16 * kBlock;  // is let go, lest the file fill memory too
  for (std::int64_t from = 0; from < count; from += kBlock) {
    const std::int64_t end = std::min(from + kBlock, count);
    const auto floats =
        out.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(end - from));
    to_f32(stored, bytes_of(from, end), floats);
    check_finite(floats, first.count() + from, tensor, path_);
    if (end % kPiece == 0 || end == count) file_.let_go(bytes_of((end - 1) / kPiece * kPiece, end));
  }
}

bool TensorFile::same(const std::string& name, const TensorFile& other,
                      const std::string& other_name) const {
  const StoredTensor* const a = find(name);
  const StoredTensor* const b = other.find(other_name);
  if (a == nullptr || b == nullptr || a->dtype != b->dtype || a->shape != b->shape) return false;
  const auto bytes_of = [](const TensorFile& file, const StoredTensor& tensor) {
    return file.file_.bytes().subspan(
        static_cast<std::size_t>(tensor.begin.count()),
        static_cast<std::size_t>((tensor.end - tensor.begin).count()));
  };
  check_sums(*a);
  other.check_sums(*b);
  const auto ours = bytes_of(*this, *a);
  const auto theirs = bytes_of(other, *b);
  const bool equal = std::ranges::equal(ours, theirs);
  file_.check_uncut();
  other.file_.check_uncut();
  file_.let_go(ours);
  other.file_.let_go(theirs);
  return equal;
}

}  // namespace fm::checkpoint
