#include "checkpoint/safetensors_parse.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "core/check.h"
#include "core/files/files.h"
#include "core/json_tree.h"

namespace fm::checkpoint {
namespace {

using core::JsonKind;

constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::uint64_t kLengthBytes = 8;
constexpr const char* kWrongPlace = "a value has a wrong type or place";

// Reads the header as events: duplicates are seen, and nothing is stored that was not checked.
class HeaderVisitor final : public core::JsonVisitor {
 public:
  explicit HeaderVisitor(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}

  bool scalar(core::JsonScalar& value) override {
    if (skipping()) return true;
    if (depth() == 3) return put_number(value.unsigned_integer());
    const bool is_text = value.kind == JsonKind::kString && depth() == 2;
    if (is_text && in_metadata_) return metadata_[key_] = *value.text, true;
    if (is_text && field_ == Field::kType) {
      dtype_ = *value.text;
      return rank_of_type(dtype_) >= 0 || refuse_entry("unknown dtype \"" + dtype_ + "\"");
    }
    return refuse_entry(in_metadata_ ? "values of __metadata__ must be strings" : kWrongPlace);
  }
  bool open(JsonKind kind) override {
    if (skipping()) return true;
    if (kind == JsonKind::kObject) {
      return depth() < 2 || refuse_entry("an object is at a wrong place");
    }
    const bool list = depth() == 2 && (field_ == Field::kShape || field_ == Field::kOffsets);
    return list || refuse_entry("a list is at a wrong place");
  }
  bool close() override {
    if (depth() != 1) return true;
    const bool fine = in_metadata_ || finish_tensor();
    in_metadata_ = false;
    return fine;
  }
  bool key(std::string& name) override {
    if (depth() == 1) return start_entry(name);
    if (depth() != 2) return true;  // inside something that is skipped
    key_ = name;
    if (!keys_.insert(name).second) return refuse_entry("key \"" + name + "\" is there twice");
    if (!in_metadata_) field_ = field_of(name);
    return true;
  }

  std::vector<StoredTensor>& tensors() { return tensors_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

 private:
  enum class Field : std::uint8_t { kType, kShape, kOffsets, kUnknown };

  static Field field_of(std::string_view name) {
    if (name == "dtype") return Field::kType;
    if (name == "shape") return Field::kShape;
    if (name == "data_offsets") return Field::kOffsets;
    return Field::kUnknown;
  }
  // Unknown keys of a tensor are passed over, as the reference reader does.
  bool skipping() const { return depth() >= 2 && !in_metadata_ && field_ == Field::kUnknown; }
  // Of the list that is open.
  bool put_number(std::optional<std::uint64_t> value) {
    if (!value) return refuse_entry(kWrongPlace);
    std::vector<std::uint64_t>& list = field_ == Field::kShape ? shape_ : offsets_;
    list.push_back(*value);
    return field_ == Field::kShape || list.size() <= 2 || refuse_offsets();
  }
  bool refuse_offsets() { return refuse_entry("data_offsets must be two numbers"); }
  bool refuse_entry(const std::string& why) {
    return refuse(entry_.empty() ? why : core::concat("tensor \"", entry_, "\": ", why));
  }

  bool start_entry(const std::string& name) {
    entry_ = name;
    if (!names_.insert(name).second) return refuse_entry("the name is there twice");
    in_metadata_ = name == "__metadata__";
    field_ = Field::kType;  // the entry itself must be an object with known content
    keys_.clear();
    dtype_.clear();
    shape_.clear();
    offsets_.clear();
    return true;
  }

  bool finish_tensor() {
    for (const char* wanted : {"dtype", "shape", "data_offsets"}) {
      if (keys_.count(wanted) == 0) return refuse_entry(core::concat(wanted, " is required"));
    }
    if (offsets_.size() != 2) return refuse_offsets();
    const std::uint64_t begin = offsets_[0];
    const std::uint64_t end = offsets_[1];
    if (begin > end || end > data_bytes_) {
      return refuse_entry(core::concat("data_offsets must lie in the file (", begin, ", ", end,
                                       " of ", data_bytes_, ")"));
    }
    std::uint64_t bits = 1;
    bool overflow = false;
    StoredTensor tensor{.name = entry_, .dtype = dtype_, .shape = {}, .begin = {}, .end = {}};
    for (const std::uint64_t size : shape_) {
      overflow = overflow || __builtin_mul_overflow(bits, size, &bits) || size > INT64_MAX;
      tensor.shape.push_back(static_cast<std::int64_t>(size));
    }
    const StoredType& type = kStoredTypes[rank_of_type(dtype_)];
    overflow = overflow || __builtin_mul_overflow(bits, type.bits, &bits);
    if (overflow) return refuse_entry("the shape is too large");
    if (bits % 8 != 0 || bits / 8 != end - begin) {
      return refuse_entry(core::concat("shape and dtype must fit data_offsets (", bits, " bits in ",
                                       end - begin, " bytes)"));
    }
    used_ += end - begin;
    if (used_ > data_bytes_) return refuse_entry("data of tensors must not overlap");
    tensor.begin = core::Bytes(static_cast<std::int64_t>(begin));
    tensor.end = core::Bytes(static_cast<std::int64_t>(end));
    tensors_.push_back(std::move(tensor));
    return true;
  }

  std::uint64_t data_bytes_;
  std::uint64_t used_ = 0;
  bool in_metadata_ = false;
  Field field_ = Field::kType;
  std::string entry_;
  std::string key_;
  std::string dtype_;
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> offsets_;
  std::set<std::string> keys_;
  std::set<std::string> names_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Sorted ranges must follow each other from the first byte of the data to the last.
void check_gapless(std::vector<StoredTensor>& tensors, core::Bytes data_bytes,
                   const std::string& file_name) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  core::Bytes expected;
  for (const StoredTensor& tensor : tensors) {
    FM_DATA_CHECK(tensor.begin == expected, file_name, ": safetensors data must be without holes ",
                  "and overlaps; get the file again (tensor \"", tensor.name, "\" begins at ",
                  tensor.begin.count(), ", expected ", expected.count(), ")");
    expected = tensor.end;
  }
  FM_DATA_CHECK(expected == data_bytes, file_name,
                ": safetensors data must end with the file; get the file again (tensors end at ",
                expected.count(), " of ", data_bytes.count(), " data bytes)");
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view whole(reinterpret_cast<const char*>(file.data()), file.size());
  FM_DATA_CHECK(!core::is_lfs_pointer(whole), file_name, ": a safetensors file is required (",
                core::kIsLfsPointer, ")");
  FM_DATA_CHECK(file.size() >= kLengthBytes, file_name,
                ": a safetensors file begins with 8 bytes of header length; get the file again (",
                file.size(), " bytes)");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  FM_DATA_CHECK(length <= kMaxHeader, file_name, ": the safetensors header may have at most ",
                kMaxHeader, " bytes; is this a safetensors file? (claims ", length, ")");
  FM_DATA_CHECK(length <= file.size() - kLengthBytes, file_name,
                ": the file must hold its whole header; it is truncated, get it again (header ",
                length, " bytes, file ", file.size(), ")");
  const auto* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  FM_DATA_CHECK(length > 0 && text[0] == '{', file_name,
                ": the safetensors header must begin with '{'; is this a safetensors file?");
  const std::uint64_t data_bytes = file.size() - kLengthBytes - length;
  HeaderVisitor visitor(data_bytes);
  const std::optional<core::JsonProblem> problem = core::read_json({text, length}, visitor);
  FM_DATA_CHECK(!problem, file_name,
                ": the safetensors header must be well formed; get the file again (",
                problem->byte > 0 ? core::concat("the header must be JSON (byte ", problem->byte,
                                                 ": ", problem->reason, ")")
                                  : problem->reason,
                ")");
  SafetensorsHeader header;
  header.tensors = std::move(visitor.tensors());
  header.metadata = std::move(visitor.metadata());
  header.data_begin = core::Bytes(static_cast<std::int64_t>(kLengthBytes + length));
  check_gapless(header.tensors, core::Bytes(static_cast<std::int64_t>(data_bytes)), file_name);
  for (StoredTensor& tensor : header.tensors) {
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
  }
  return header;
}

}  // namespace fm::checkpoint
