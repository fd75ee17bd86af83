#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/safetensors.h"
#include "core/check.h"
#include "core/files/lfs_pointer.h"

namespace fm::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::uint64_t kLengthBytes = 8;

// Reads the header as events: duplicates are seen, and nothing is stored that was not checked.
class HeaderSax : public json::json_sax_t {
 public:
  explicit HeaderSax(std::uint64_t data_bytes) : data_bytes_(data_bytes) {}

  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (skipping()) return true;
    const bool in_list = depth_ == 3 && (field_ == Field::kShape || field_ == Field::kOffsets);
    if (!in_list) return scalar();
    std::vector<std::uint64_t>& list = field_ == Field::kShape ? shape_ : offsets_;
    list.push_back(value);
    return field_ == Field::kShape || list.size() <= 2 ||
           refuse("data_offsets must be two numbers");
  }
  bool string(string_t& text) override {
    if (skipping()) return true;
    if (depth_ == 2 && in_metadata_) return metadata_[key_] = text, true;
    if (depth_ != 2 || field_ != Field::kType) return scalar();
    dtype_ = text;
    return rank_of_type(text) >= 0 || refuse("unknown dtype \"" + text + "\"");
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (depth_ == 1 || skipping()) return true;
    return depth_ == 2 || refuse("an object is at a wrong place");
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (skipping()) return true;
    const bool list = depth_ == 3 && (field_ == Field::kShape || field_ == Field::kOffsets);
    return list || refuse("a list is at a wrong place");
  }
  bool end_array() override { return --depth_, true; }
  bool end_object() override {
    --depth_;
    if (depth_ != 1) return true;
    const bool fine = in_metadata_ || finish_tensor();
    in_metadata_ = false;
    return fine;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) return start_entry(name);
    if (depth_ != 2) return true;  // inside something that is skipped
    key_ = name;
    if (!keys_.insert(name).second) return refuse("key \"" + name + "\" is there twice");
    if (!in_metadata_) field_ = field_of(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const json::exception& error) override {
    problem_ = core::concat("the header must be JSON (byte ", position, ": ", error.what(), ")");
    return false;
  }

  const std::string& problem() const { return problem_; }
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
  bool skipping() const { return depth_ >= 2 && !in_metadata_ && field_ == Field::kUnknown; }
  bool scalar() {
    if (skipping()) return true;
    return refuse(in_metadata_ ? "values of __metadata__ must be strings"
                               : "a value has a wrong type or place");
  }
  bool refuse(const std::string& why) {
    problem_ = entry_.empty() ? why : core::concat("tensor \"", entry_, "\": ", why);
    return false;
  }

  bool start_entry(const std::string& name) {
    entry_ = name;
    if (!names_.insert(name).second) return refuse("the name is there twice");
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
      if (keys_.count(wanted) == 0) return refuse(core::concat(wanted, " is required"));
    }
    if (offsets_.size() != 2) return refuse("data_offsets must be two numbers");
    const std::uint64_t begin = offsets_[0];
    const std::uint64_t end = offsets_[1];
    if (begin > end || end > data_bytes_) {
      return refuse(core::concat("data_offsets must lie in the file (", begin, ", ", end, " of ",
                                 data_bytes_, ")"));
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
    if (overflow) return refuse("the shape is too large");
    if (bits % 8 != 0 || bits / 8 != end - begin) {
      return refuse(core::concat("shape and dtype must fit data_offsets (", bits, " bits in ",
                                 end - begin, " bytes)"));
    }
    used_ += end - begin;
    if (used_ > data_bytes_) return refuse("data of tensors must not overlap");
    tensor.begin = core::Bytes(static_cast<std::int64_t>(begin));
    tensor.end = core::Bytes(static_cast<std::int64_t>(end));
    tensors_.push_back(std::move(tensor));
    return true;
  }

  std::uint64_t data_bytes_;
  std::uint64_t used_ = 0;
  int depth_ = 0;
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
  std::string problem_;
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
  HeaderSax sax(data_bytes);
  const bool fine = json::sax_parse(text, text + length, &sax);
  FM_DATA_CHECK(fine, file_name,
                ": the safetensors header must be well formed; get the file again (", sax.problem(),
                ")");
  SafetensorsHeader header;
  header.tensors = std::move(sax.tensors());
  header.metadata = std::move(sax.metadata());
  header.data_begin = core::Bytes(static_cast<std::int64_t>(kLengthBytes + length));
  check_gapless(header.tensors, core::Bytes(static_cast<std::int64_t>(data_bytes)), file_name);
  for (StoredTensor& tensor : header.tensors) {
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
  }
  return header;
}

}  // namespace fm::checkpoint
