#include "checkpoint/torch_file.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>

#include "checkpoint/pickle.h"
#include "checkpoint/safetensors_file.h"
#include "core/check.h"
#include "core/files/files.h"

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

static_assert(std::endian::native == std::endian::little, "numbers of ZIP are little-endian");

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kEntry = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kWideEnd = 0x06064b50;
constexpr std::uint32_t kWidePlace = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kWideEndBytes = 56;
constexpr std::size_t kWidePlaceBytes = 20;
constexpr std::size_t kMostComment = 65535;
constexpr std::uint16_t kWideField = 1;  // the extra field that holds 64-bit numbers
constexpr std::uint32_t kInWideField = 0xFFFFFFFF;

// The archive's bytes; nothing outside of them is read.
class Archive {
 public:
  Archive(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  void require(bool condition, const char* what, std::uint64_t at) const {
    FM_DATA_CHECK(condition, name_, ": ", what, "; get the file again (byte ", at, " of ",
                  file_.size(), ")");
  }
  std::span<const std::byte> part(std::uint64_t at, std::uint64_t count) const {
    require(at <= file_.size() && count <= file_.size() - at,
            "a ZIP archive must hold what its directory names", at);
    return file_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
  }
  template <class T>
  T number(std::uint64_t at) const {
    T value;
    std::memcpy(&value, part(at, sizeof(T)).data(), sizeof(T));
    return value;
  }
  bool is(std::uint32_t signature, std::uint64_t at) const {
    return at <= file_.size() && file_.size() - at >= sizeof(signature) &&
           number<std::uint32_t>(at) == signature;
  }
  std::uint64_t size() const { return file_.size(); }

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
};

struct Directory {
  std::uint64_t at = 0;
  std::uint64_t entries = 0;
};

Directory directory_of(const Archive& archive) {
  const std::uint64_t size = archive.size();
  const std::uint64_t last = size < kEndBytes ? 0 : size - kEndBytes;
  const std::uint64_t first = last < kMostComment ? 0 : last - kMostComment;
  std::uint64_t end = last;
  while (end > first && !archive.is(kEnd, end)) --end;
  archive.require(size >= kEndBytes && archive.is(kEnd, end),
                  "the directory of a ZIP archive must stand at its end, the file is cut off",
                  size);
  if (end >= kWidePlaceBytes && archive.is(kWidePlace, end - kWidePlaceBytes)) {
    const auto wide = archive.number<std::uint64_t>(end - kWidePlaceBytes + 8);
    archive.part(wide, kWideEndBytes);
    archive.require(archive.is(kWideEnd, wide), "the end of a ZIP64 directory is required", wide);
    return {archive.number<std::uint64_t>(wide + 48), archive.number<std::uint64_t>(wide + 32)};
  }
  return {archive.number<std::uint32_t>(end + 16), archive.number<std::uint16_t>(end + 10)};
}

struct ZipEntry {
  std::uint64_t bytes = 0;
  std::uint64_t local = 0;  // where its local header stands
};

// Sizes and places beyond 32 bits are in an extra field, in this order, only those that need it.
ZipEntry entry_at(const Archive& archive, std::uint64_t at) {
  const auto stored = archive.number<std::uint32_t>(at + 20);
  const auto whole = archive.number<std::uint32_t>(at + 24);
  const auto local = archive.number<std::uint32_t>(at + 42);
  ZipEntry entry{stored, local};
  std::uint64_t field = at + kEntryBytes + archive.number<std::uint16_t>(at + 28);
  const std::uint64_t end = field + archive.number<std::uint16_t>(at + 30);
  while (field + 4 <= end && archive.number<std::uint16_t>(field) != kWideField) {
    field += 4 + archive.number<std::uint16_t>(field + 2);
  }
  const bool wide = stored == kInWideField || whole == kInWideField || local == kInWideField;
  if (!wide) return entry;
  archive.require(field + 4 <= end, "a ZIP64 entry must have its extra field", at);
  field += 4 + (whole == kInWideField ? 8 : 0);
  if (stored == kInWideField) {
    entry.bytes = archive.number<std::uint64_t>(field);
    field += 8;
  }
  if (local == kInWideField) entry.local = archive.number<std::uint64_t>(field);
  return entry;
}

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

std::uint32_t crc32_of(std::span<const std::byte> data, std::uint32_t crc) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(data.data());
  return static_cast<std::uint32_t>(crc32_z(crc, bytes, data.size()));
}

void check_crc32(std::uint32_t found, std::uint32_t said, std::string_view record,
                 const std::string& file_name) {
  FM_DATA_CHECK(said == 0 || found == said, file_name, ": record ", record, " must be as it was ",
                "saved; get the file again (CRC-32 ", found, ", the archive says ", said, ")");
}

bool is_zip(std::span<const std::byte> file) {
  std::uint32_t signature = 0;
  if (file.size() < sizeof(signature)) return false;
  std::memcpy(&signature, file.data(), sizeof(signature));
  return signature == kLocal;
}

std::vector<ZipRecord> zip_records(std::span<const std::byte> file, const std::string& file_name) {
  const Archive archive(file, file_name);
  const Directory directory = directory_of(archive);
  archive.require(directory.entries <= file.size() / kEntryBytes,
                  "a ZIP archive must hold the entries of its directory", directory.at);
  std::vector<ZipRecord> records;
  std::uint64_t at = directory.at;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    archive.part(at, kEntryBytes);
    archive.require(archive.is(kEntry, at), "an entry of the ZIP directory is required", at);
    const auto name_bytes = archive.number<std::uint16_t>(at + 28);
    const auto name = archive.part(at + kEntryBytes, name_bytes);
    const bool encrypted = (archive.number<std::uint16_t>(at + 8) & 1) != 0;
    archive.require(!encrypted && archive.number<std::uint16_t>(at + 10) == 0,
                    "records must be stored without compression and encryption, as torch.save does",
                    at);
    const ZipEntry entry = entry_at(archive, at);
    archive.part(entry.local, kLocalBytes);
    archive.require(archive.is(kLocal, entry.local), "a record of the ZIP archive is required",
                    entry.local);
    const std::uint64_t begin = entry.local + kLocalBytes +
                                archive.number<std::uint16_t>(entry.local + 26) +
                                archive.number<std::uint16_t>(entry.local + 28);
    records.push_back({{reinterpret_cast<const char*>(name.data()), name.size()},
                       archive.part(begin, entry.bytes),
                       core::Bytes(static_cast<std::int64_t>(begin)),
                       archive.number<std::uint32_t>(at + 16)});
    at += kEntryBytes + name_bytes + archive.number<std::uint16_t>(at + 30) +
          archive.number<std::uint16_t>(at + 32);
  }
  return records;
}

}  // namespace fm::checkpoint
