#include "checkpoint/torch_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/pickle.h"
#include "checkpoint/zip_records.h"
#include "core/check.h"
#include "core/files/lfs_pointer.h"

namespace fm::checkpoint {
namespace {

using PickleKind = PickleValue::PickleKind;

constexpr std::size_t kMostPickle = 16'000'000;  // tensors of published models need 150 bytes each
constexpr std::string_view kPickle = "/data.pkl";

struct StorageType {
  std::string_view global;
  std::string_view dtype;
};
constexpr StorageType kStorageTypes[] = {
    {"torch FloatStorage", "F32"},     {"torch HalfStorage", "F16"},
    {"torch BFloat16Storage", "BF16"}, {"torch DoubleStorage", "F64"},
    {"torch BoolStorage", "BOOL"},     {"torch ByteStorage", "U8"},
    {"torch CharStorage", "I8"},       {"torch ShortStorage", "I16"},
    {"torch IntStorage", "I32"},       {"torch LongStorage", "I64"},
};

class TorchFile {
 public:
  TorchFile(std::span<const std::byte> file, const std::string& name) : name_(name) {
    for (const ZipRecord& record : zip_records(file, name)) {
      FM_DATA_CHECK(records_.emplace(record.name, record).second, name,
                    ": a record must be there once; get the file again (", record.name, ")");
    }
    const auto found = std::ranges::find_if(records_, [](const auto& each) {
      return each.first.ends_with(kPickle) && std::ranges::count(each.first, '/') == 1;
    });
    FM_DATA_CHECK(found != records_.end(), name,
                  ": a file of torch.save must hold a record data.pkl; get the file again");
    const ZipRecord& pickle = found->second;
    folder_ = pickle.name.substr(0, pickle.name.size() - kPickle.size());
    FM_DATA_CHECK(pickle.data.size() <= kMostPickle, name, ": the names of the tensors must fit ",
                  kMostPickle, " bytes; save the model in several files (", pickle.data.size(),
                  " bytes)");
    check_crc32(crc32_of(pickle.data), pickle.crc, pickle.name, name);
    const ZipRecord* const order = record("byteorder");
    FM_DATA_CHECK(order == nullptr || text_of(*order) == "little", name,
                  ": numbers must be little-endian; save the model on such a machine");
    pickle_ = read_pickle(text_of(pickle), name);
  }

  SafetensorsHeader header() const {
    const PickleValue& root = pickle_[pickle_.root];
    FM_DATA_CHECK(root.kind == PickleKind::kMap, name_,
                  ": a dictionary of names and tensors is required; save model.state_dict()");
    SafetensorsHeader header;
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < root.items.size(); i += 2) {
      const PickleValue& name = pickle_[root.items[i]];
      FM_DATA_CHECK(name.kind == PickleKind::kText, name_,
                    ": keys must be names of tensors; save model.state_dict()");
      FM_DATA_CHECK(names.insert(name.text).second, name_, ": tensor ", name.text,
                    " must be there once; get the file again");
      header.tensors.push_back(tensor(name.text, pickle_[root.items[i + 1]]));
    }
    for (const auto& [name, each] : records_) {
      if (each.crc == 0) continue;
      const auto size = core::Bytes(static_cast<std::int64_t>(each.data.size()));
      header.sums.push_back({std::string(name), each.begin, each.begin + size, each.crc});
    }
    std::ranges::stable_sort(header.tensors, {}, [](const StoredTensor& each) {
      return std::pair(each.begin, each.end);
    });
    return header;
  }

 private:
  static std::string_view text_of(const ZipRecord& record) {
    return {reinterpret_cast<const char*>(record.data.data()), record.data.size()};
  }
  const ZipRecord* record(std::string_view name) const {
    const auto found = records_.find(core::concat(folder_, "/", name));
    return found == records_.end() ? nullptr : &found->second;
  }

  // The arguments of a call of `global`, at least `count`; null when it is none.
  const std::vector<std::uint32_t>* call_of(const PickleValue& value, std::string_view global,
                                            std::size_t count) const {
    if (value.kind != PickleKind::kCall) return nullptr;
    const PickleValue& called = pickle_[value.items[0]];
    const PickleValue& arguments = pickle_[value.items[1]];
    const bool right = called.kind == PickleKind::kGlobal && called.text == global;
    return right && arguments.items.size() >= count ? &arguments.items : nullptr;
  }

  // A whole number that is not negative.
  std::int64_t size(const PickleValue& value, std::string_view tensor) const {
    FM_DATA_CHECK(value.kind == PickleKind::kNumber && value.number >= 0, name_, ": tensor ",
                  tensor,
                  " must have whole numbers as its shape, strides and offset; get the file again");
    return value.number;
  }
  std::vector<std::int64_t> sizes(const PickleValue& value, std::string_view tensor) const {
    FM_DATA_CHECK(value.kind == PickleKind::kSequence, name_, ": tensor ", tensor,
                  " must have a shape and strides; get the file again");
    std::vector<std::int64_t> all;
    for (const std::uint32_t item : value.items) all.push_back(size(pickle_[item], tensor));
    return all;
  }

  // Rows behind each other, as safetensors has them.
  static bool is_contiguous(const std::vector<std::int64_t>& shape,
                            const std::vector<std::int64_t>& strides) {
    std::int64_t expected = 1;
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      if (shape[dim] == 1) continue;
      if (strides[dim] != expected) return false;
      expected *= shape[dim];
    }
    return true;
  }

  struct Storage {
    std::string_view dtype;
    const ZipRecord* record = nullptr;
  };

  // Of the persistent id ("storage", class, record, device, numbers).
  Storage storage(const PickleValue& value, std::string_view tensor) const {
    const bool foreign = value.kind == PickleKind::kForeign;
    const PickleValue& id = foreign ? pickle_[value.items[0]] : value;
    const bool right = foreign && id.kind == PickleKind::kSequence && id.items.size() >= 3 &&
                       pickle_[id.items[0]].text == "storage";
    FM_DATA_CHECK(right, name_, ": tensor ", tensor,
                  " must name its numbers; get the file again, or save it as safetensors");
    const std::string_view global = pickle_[id.items[1]].text;
    const auto* const type = std::ranges::find(kStorageTypes, global, &StorageType::global);
    FM_DATA_CHECK(type != std::end(kStorageTypes), name_, ": tensor ", tensor,
                  " must be of floating-point or whole numbers; convert it (", global, ")");
    const std::string_view key = pickle_[id.items[2]].text;
    const ZipRecord* const found = record(core::concat("data/", key));
    FM_DATA_CHECK(found != nullptr, name_, ": the numbers of tensor ", tensor,
                  " must be there; get the file again (no record data/", key, ")");
    return {type->dtype, found};
  }

  StoredTensor tensor(std::string_view name, const PickleValue& value) const {
    const PickleValue* at = &value;
    if (const auto* const inner = call_of(value, "torch._utils _rebuild_parameter", 1)) {
      at = &pickle_[inner->front()];
    }
    const auto* const parts = call_of(*at, "torch._utils _rebuild_tensor_v2", 4);
    FM_DATA_CHECK(parts != nullptr, name_, ": every value must be a dense tensor; save ",
                  "model.state_dict() alone (", name, " is none)");
    const Storage from = storage(pickle_[(*parts)[0]], name);
    StoredTensor tensor{.name = std::string(name),
                        .dtype = std::string(from.dtype),
                        .shape = sizes(pickle_[(*parts)[2]], name),
                        .begin = {},
                        .end = {}};
    const std::vector<std::int64_t> strides = sizes(pickle_[(*parts)[3]], name);
    const auto width = static_cast<std::int64_t>(kStoredTypes[rank_of_type(from.dtype)].bits / 8);
    std::int64_t bytes = width;
    std::int64_t begin = 0;
    bool fits = strides.size() == tensor.shape.size() &&
                !__builtin_mul_overflow(size(pickle_[(*parts)[1]], name), width, &begin);
    for (const std::int64_t count : tensor.shape) {
      fits = fits && !__builtin_mul_overflow(bytes, count, &bytes);
    }
    const auto held = static_cast<std::int64_t>(from.record->data.size());
    fits = fits && begin <= held && bytes <= held - begin;
    FM_DATA_CHECK(fits, name_, ": tensor ", name, " must lie in its numbers; get the file again ",
                  "(shape ", shape_text(tensor.shape), " in ", held, " bytes)");
    FM_DATA_CHECK(bytes == 0 || is_contiguous(tensor.shape, strides), name_, ": tensor ", name,
                  " must be contiguous; save its .contiguous() (shape ", shape_text(tensor.shape),
                  ", strides ", shape_text(strides), ")");
    tensor.begin = from.record->begin + core::Bytes(begin);
    tensor.end = tensor.begin + core::Bytes(bytes);
    return tensor;
  }

  std::string name_;
  std::map<std::string, ZipRecord, std::less<>> records_;
  std::string_view folder_;
  Pickle pickle_;
};

}  // namespace

SafetensorsHeader parse_torch_file(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view whole(reinterpret_cast<const char*>(file.data()), file.size());
  FM_DATA_CHECK(!core::is_lfs_pointer(whole), file_name, ": a file of torch.save is required (",
                core::kIsLfsPointer, ")");
  const bool old = file.size() >= 2 && file[0] == std::byte{0x80};
  FM_DATA_CHECK(!old, file_name,
                ": is of torch before 1.6; load and save the model with a newer one "
                "(from_pretrained, then save_pretrained)");
  FM_DATA_CHECK(is_zip(file), file_name,
                ": a file of torch.save is a ZIP archive; get the file again (", file.size(),
                " bytes)");
  return TorchFile(file, file_name).header();
}

}  // namespace fm::checkpoint
