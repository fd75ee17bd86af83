#include "core/tensor_slice.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "core/check.h"
#include "core/element.h"

namespace fm::core {
namespace {

class InMemory : public TensorSource {
 public:
  explicit InMemory(float* data) : data_(data) {}
  float* fetch(Elements first, Elements /*count*/) override { return data_ + first.count(); }
  void drop(Elements /*first*/, Elements /*count*/, bool /*written*/) override {}
  bool reads_by_threads() const override { return true; }

 private:
  float* data_;
};

// Several parts may be fetched at once.
template <class T>
class InNarrowMemory : public TensorSource {
 public:
  explicit InNarrowMemory(T* data) : data_(data) {}
  float* fetch(Elements first, Elements count) override {
    float* const copy = place(first, count);
    const T* const from = data_ + first.count();
    std::transform(from, from + count.count(), copy, [](T value) { return to_float(value); });
    return copy;
  }
  float* place(Elements first, Elements count) override {
    std::vector<float>& copy = fetched_[first.count()];
    copy.resize(static_cast<std::size_t>(count.count()));
    return copy.data();
  }
  void drop(Elements first, Elements /*count*/, bool written) override {
    const auto at = fetched_.find(first.count());
    T* const to = data_ + first.count();
    const std::vector<float>& copy = at->second;
    for (std::size_t i = 0; written && i < copy.size(); ++i) to[i] = to_element<T>(copy[i]);
    fetched_.erase(at);
  }

 private:
  T* data_;
  std::map<std::int64_t, std::vector<float>> fetched_;
};

// Several parts may be fetched at once.
template <class T>
class InDeviceMemory : public TensorSource {
 public:
  InDeviceMemory(Crossing& crossing, T* data) : crossing_(crossing), data_(data) {}
  float* fetch(Elements first, Elements count) override {
    float* const copy = place(first, count);
    cross_to(first, count, copy);
    return copy;
  }
  float* place(Elements first, Elements count) override {
    std::vector<float>& copy = fetched_[first.count()];
    copy.resize(static_cast<std::size_t>(count.count()));
    return copy.data();
  }
  void drop(Elements first, Elements count, bool written) override {
    const auto at = fetched_.find(first.count());
    if (written) cross_from(first, count, at->second.data());
    fetched_.erase(at);
  }
  // Floats go straight to where somebody has made room for them.
  void read(Elements first, Elements count, float* to) override {
    if constexpr (std::is_same_v<T, float>) {
      crossing_.queue().copy_out(data_ + first.count(), to, bytes_of(count, DType::kF32));
      crossing_.queue().finish();
    } else {
      cross_to(first, count, to);
    }
  }

 private:
  void cross_to(Elements first, Elements count, float* to) {
    const auto take = [&to](std::span<const std::byte> piece) {
      const std::span from(reinterpret_cast<const T*>(piece.data()), piece.size() / sizeof(T));
      to = std::ranges::transform(from, to, [](T value) { return to_float(value); }).out;
    };
    crossing_.out(data_ + first.count(), bytes_of(count, kDTypeOf<T>), take);
  }
  void cross_from(Elements first, Elements count, const float* from) {
    const auto fill = [&from](std::span<std::byte> piece) {
      const std::span numbers(from, piece.size() / sizeof(T));
      std::ranges::transform(numbers, reinterpret_cast<T*>(piece.data()),
                             [](float value) { return to_element<T>(value); });
      from += numbers.size();
    };
    crossing_.in(data_ + first.count(), bytes_of(count, kDTypeOf<T>), fill);
  }

  Crossing& crossing_;
  T* data_;
  std::map<std::int64_t, std::vector<float>> fetched_;
};

// Cuts numbers [begin, end) of an entry's part of its tensor into slices.
class EntryCutter {
 public:
  EntryCutter(const ParamEntry& entry, Repeats repeats, const std::shared_ptr<TensorSource>& source,
              std::vector<TensorSlice>& out)
      : entry_(entry),
        repeats_(repeats),
        source_(source),
        out_(out),
        inner_(entry.inner()),
        row_(entry.row()),
        stride_(entry.stride()) {}

  // `at`: of number `begin` in the source.
  void cut(Elements begin, Elements end, Elements at) {
    at_ = at;
    const Elements in_row = begin % row_;
    if (in_row.count() > 0) begin = add(begin, std::min(end - begin, row_ - in_row), 1);
    const std::int64_t rows = (end - begin) / row_;
    if (rows > 0) begin = add(begin, row_, rows);
    if (begin < end) add(begin, end - begin, 1);
  }

 private:
  // Columns [begin % row, + columns) of so many rows, range by range.
  Elements add(Elements begin, Elements columns, std::int64_t rows) {
    const Elements from = begin % row_;
    Elements part_begin;
    for (const IndexRange& part : entry_.parts) {
      const Elements part_end = part_begin + inner_ * part.count;
      const Elements first = std::max(from, part_begin);
      const Elements last = std::min(from + columns, part_end);
      const bool left_out = repeats_ == Repeats::kLeaveOut && part.holder.index > 0;
      if (first < last && !left_out) {
        add_range(stride_ * (begin / row_) + inner_ * part.first + (first - part_begin),
                  last - first, rows, at_ + (first - from));
      }
      part_begin = part_end;
    }
    at_ += columns * rows;
    return begin + columns * rows;
  }
  void add_range(Elements first, Elements columns, std::int64_t rows, Elements at) {
    out_.push_back({.name = entry_.name,
                    .shape = entry_.shape,
                    .first = first,
                    .columns = columns,
                    .rows = rows,
                    .stride = rows > 1 ? stride_ : Elements(0),
                    .source = source_,
                    .at = at,
                    .apart = rows > 1 ? row_ : Elements(0)});
  }

  const ParamEntry& entry_;
  Repeats repeats_;
  const std::shared_ptr<TensorSource>& source_;
  std::vector<TensorSlice>& out_;
  Elements inner_, row_, stride_, at_;
};

}  // namespace

void TensorSource::read(Elements first, Elements count, float* to) {
  const float* const from = fetch(first, count);
  std::copy_n(from, count.count(), to);
  drop(first, count, false);
}

std::shared_ptr<TensorSource> in_memory(float* data) { return std::make_shared<InMemory>(data); }

std::shared_ptr<TensorSource> in_memory(void* data, DType element) {
  if (element == DType::kBF16) {
    return std::make_shared<InNarrowMemory<Bf16>>(static_cast<Bf16*>(data));
  }
  if (element == DType::kF16) {
    return std::make_shared<InNarrowMemory<F16>>(static_cast<F16*>(data));
  }
  FM_CHECK(element == DType::kF32, "no numbers of ", name_of(element));
  return in_memory(static_cast<float*>(data));
}

std::shared_ptr<TensorSource> in_memory_of(Crossing* crossing, void* data, DType element) {
  if (crossing == nullptr) return in_memory(data, element);
  if (element == DType::kBF16) {
    return std::make_shared<InDeviceMemory<Bf16>>(*crossing, static_cast<Bf16*>(data));
  }
  if (element == DType::kF16) {
    return std::make_shared<InDeviceMemory<F16>>(*crossing, static_cast<F16*>(data));
  }
  FM_CHECK(element == DType::kF32, "no numbers of ", name_of(element));
  return std::make_shared<InDeviceMemory<float>>(*crossing, static_cast<float*>(data));
}

TensorSlice slice_in_memory(std::string name, std::vector<std::int64_t> shape, Elements first,
                            float* data, Elements count) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .first = first,
          .columns = count,
          .source = in_memory(data)};
}

FetchedRow::FetchedRow(const TensorSlice& slice, std::int64_t row, Use use, Elements begin,
                       Elements count)
    : source_(*slice.source),
      first_(slice.at + slice.source_stride() * row + begin),
      count_(count),
      use_(use),
      data_(use == Use::kFill ? source_.place(first_, count_) : source_.fetch(first_, count_)) {}

FetchedRow::~FetchedRow() { source_.drop(first_, count_, use_ != Use::kRead); }

std::vector<TensorSlice> cut_slices(const ParamTable& table, Elements first, Elements count,
                                    const std::shared_ptr<TensorSource>& source, Elements at,
                                    Repeats repeats) {
  std::vector<TensorSlice> out;
  for (const ParamEntry& entry : table.entries()) {
    const Elements begin = std::max(first, entry.offset);
    const Elements end = std::min(first + count, entry.offset + entry.numel);
    if (begin >= end) continue;
    EntryCutter(entry, repeats, source, out)
        .cut(begin - entry.offset, end - entry.offset, at + (begin - first));
  }
  return out;
}

}  // namespace fm::core
