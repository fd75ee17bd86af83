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
  InDeviceMemory(Queue& queue, T* data) : queue_(queue), data_(data) {}
  float* fetch(Elements first, Elements count) override {
    float* const copy = place(first, count);
    read(first, count, copy);
    return copy;
  }
  float* place(Elements first, Elements count) override {
    std::vector<float>& copy = fetched_[first.count()];
    copy.resize(static_cast<std::size_t>(count.count()));
    return copy.data();
  }
  void drop(Elements first, Elements count, bool written) override {
    const auto at = fetched_.find(first.count());
    if (written) write(first, count, at->second);
    fetched_.erase(at);
  }
  void read(Elements first, Elements count, float* to) override {
    if constexpr (std::is_same_v<T, float>) {
      queue_.copy_out(data_ + first.count(), to, bytes_of(count, DType::kF32));
      queue_.finish();
    } else {
      std::vector<T> stored(static_cast<std::size_t>(count.count()));
      queue_.copy_out(data_ + first.count(), stored.data(), bytes_of(count, kDTypeOf<T>));
      queue_.finish();
      std::ranges::transform(stored, to, [](T value) { return to_float(value); });
    }
  }

 private:
  void write(Elements first, Elements count, const std::vector<float>& from) {
    if constexpr (std::is_same_v<T, float>) {
      queue_.copy_in(from.data(), data_ + first.count(), bytes_of(count, DType::kF32));
      queue_.finish();
    } else {
      std::vector<T> stored(from.size());
      std::ranges::transform(from, stored.begin(),
                             [](float value) { return to_element<T>(value); });
      queue_.copy_in(stored.data(), data_ + first.count(), bytes_of(count, kDTypeOf<T>));
      queue_.finish();
    }
  }

  Queue& queue_;
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

std::shared_ptr<TensorSource> in_memory_of(Queue* queue, void* data, DType element) {
  if (queue == nullptr) return in_memory(data, element);
  if (element == DType::kBF16) {
    return std::make_shared<InDeviceMemory<Bf16>>(*queue, static_cast<Bf16*>(data));
  }
  if (element == DType::kF16) {
    return std::make_shared<InDeviceMemory<F16>>(*queue, static_cast<F16*>(data));
  }
  FM_CHECK(element == DType::kF32, "no numbers of ", name_of(element));
  return std::make_shared<InDeviceMemory<float>>(*queue, static_cast<float*>(data));
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
