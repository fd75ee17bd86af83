#include "text/data/formats/mds_index.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/check.h"
#include "core/files/files.h"
#include "core/text.h"
#include "text/data/row_fields.h"

namespace fm::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct ArrayType {
  int code;  // in an array that says its type
  TokenType type;
};
constexpr ArrayType kTypes[] = {{8, TokenType::kU8},   {9, TokenType::kI8},   {16, TokenType::kU16},
                                {17, TokenType::kI16}, {32, TokenType::kU32}, {33, TokenType::kI32},
                                {64, TokenType::kU64}, {65, TokenType::kI64}};

class Index {
 public:
  Index(const std::string& folder, TokenType asked)
      : folder_(folder), path_((fs::path(folder) / "index.json").string()), asked_(asked) {}

  std::vector<MdsShard> shards() const {
    const core::SmallFile file = core::read_small_file(path_, core::kMostListing);
    FM_DATA_CHECK(file.problem.empty(), path_, ": an MDS index must be readable (", file.problem,
                  ")");
    check(core::is_shallow(file.text),
          core::concat("it has more than ", core::kMostBrackets, " levels of brackets"));
    const Json index = Json::parse(file.text, nullptr, false);
    check(index.is_object() && index.value("version", Json()) == 2, "its version is not 2");
    const Json list = index.value("shards", Json());
    check(list.is_array() && !list.empty(), "it has no shards");
    std::vector<MdsShard> out;
    for (const Json& shard : list) out.push_back(shard_of(shard));
    return out;
  }

 private:
  void check(bool good, const std::string& problem) const {
    FM_DATA_CHECK(good, path_, ": an MDS index must be whole; write the dataset anew (", problem,
                  ")");
  }
  const Json& member(const Json& object, const char* name) const {
    check(object.is_object() && object.contains(name), core::concat("\"", name, "\" is missing"));
    return object[name];
  }
  std::int64_t count(const Json& object, const char* name) const {
    const Json& value = member(object, name);
    check(value.is_number_unsigned() && value <= std::int64_t{1} << 32,
          core::concat("\"", name, "\" is ", value.dump()));
    return value.get<std::int64_t>();
  }
  std::string text(const Json& value, const char* name) const {
    check(value.is_string(), core::concat("\"", name, "\" is no text"));
    return value.get<std::string>();
  }
  // A file below the folder.
  fs::path file(const Json& data) const {
    const fs::path name = text(member(data, "basename"), "basename");
    const bool below = name.is_relative() && !name.empty() &&
                       std::ranges::find(name, fs::path("..")) == name.end();
    check(below, core::concat("a file outside its folder: ", name.string()));
    return fs::path(folder_) / name;
  }

  MdsShard shard_of(const Json& object) const {
    check(member(object, "format") == "mds", "the format of a shard is not \"mds\"");
    MdsShard shard;
    shard.samples = count(object, "samples");
    shard.bytes = count(member(object, "raw_data"), "bytes");
    shard.columns = columns_of(object);
    const fs::path raw = file(object["raw_data"]);
    const Json packed = object.value("zip_data", Json());
    shard.packed = !packed.is_null() && !fs::exists(raw);
    shard.path = (shard.packed ? file(packed) : raw).string();
    if (!shard.packed) return shard;
    const std::string way = text(member(object, "compression"), "compression");
    const std::string name = way.substr(0, way.find(':'));
    FM_DATA_CHECK(
        name == "zstd" || name == "gz", path_,
        ": shards must be compressed by zstd or gz, or not at all; unpack them beside the "
        "index (compression ",
        way, ")");
    return shard;
  }

  MdsColumns columns_of(const Json& object) const {
    const Json& names = member(object, "column_names");
    const Json& encodings = member(object, "column_encodings");
    const Json& sizes = member(object, "column_sizes");
    check(names.is_array() && encodings.is_array() && sizes.is_array() &&
              names.size() == encodings.size() && names.size() == sizes.size(),
          "names, encodings and sizes of columns differ in number");
    MdsColumns columns;
    for (const Json& size : sizes) {
      check(size.is_null() || (size.is_number_unsigned() && size <= std::int64_t{1} << 32),
            "the size of a column is " + size.dump());
      columns.sizes.push_back(size.is_null() ? 0 : size.get<std::int64_t>());
    }
    auto found = std::ranges::find(names, Json("tokens"));
    if (found == names.end()) found = std::ranges::find(names, Json("input_ids"));
    FM_DATA_CHECK(
        found != names.end(), path_,
        ": an MDS dataset must have a column \"tokens\" or \"input_ids\"; tokenize it first "
        "(its columns: ",
        names.dump(), ")");
    const auto ids = static_cast<std::size_t>(found - names.begin());
    for (std::size_t at = 0; at < names.size(); ++at) {
      add_column(text(names[at], "column_names"), text(encodings[at], "column_encodings"),
                 {.field = 0, .column = at}, at == ids, columns);
    }
    return columns;
  }

  void add_column(const std::string& name, const std::string& encoding, MdsNumbers numbers,
                  bool is_ids, MdsColumns& columns) const {
    const std::string_view why = why_refused(name);
    FM_DATA_CHECK(why.empty(), path_, ": the column \"", name, "\" ", why);
    const std::optional<std::size_t> field = find_row_field(name);
    if (is_ids) {
      columns.ids = read_encoding(name, encoding, numbers);
    } else if (field && kRowFields[*field].meaning != Meaning::kId) {
      numbers.field = *field;
      columns.others.push_back(read_encoding(name, encoding, numbers));
    } else {
      columns.unused.push_back(name);
    }
  }

  MdsNumbers read_encoding(const std::string& name, const std::string& encoding,
                           MdsNumbers numbers) const {
    const std::vector<std::string> words = core::split(encoding, ':');
    numbers.array = words[0] == "ndarray";
    const bool bytes = words[0] == "bytes" && words.size() == 1;
    FM_DATA_CHECK(
        bytes || (numbers.array && words.size() <= 3), path_, ": the column \"", name,
        "\" must be an ndarray or bytes; write the dataset anew, so that nothing has to be "
        "unpickled or tokenized (encoding ",
        encoding, ")");
    if (bytes) numbers.type = asked_ == TokenType::kAuto ? TokenType::kI64 : asked_;
    if (numbers.array && words.size() > 1) {
      const auto type = std::ranges::find_if(
          kTypes, [&](const ArrayType& each) { return name_of(each.type) == words[1]; });
      FM_DATA_CHECK(type != std::end(kTypes), path_, ": the column \"", name,
                    "\" must be of whole numbers; write the dataset anew (encoding ", encoding,
                    ")");
      numbers.type = type->type;
    }
    if (words.size() == 3) numbers.fixed = product_of(words[2]);
    return numbers;
  }

  // "2048", "4,512"
  std::int64_t product_of(const std::string& shape) const {
    std::int64_t product = 1;
    for (const std::string& word : core::split(shape, ',')) {
      std::int64_t extent = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), extent);
      check(error == std::errc() && end == word.data() + word.size() && extent > 0 &&
                extent <= (std::int64_t{1} << 32) / product,
            "the shape of an array is " + shape);
      product *= extent;
    }
    return product;
  }

  std::string folder_;
  std::string path_;
  TokenType asked_;
};

// No array of a shard is so long, because offsets have 32 bits; and the square fits a number.
constexpr std::uint64_t kMostIds = std::uint64_t{1} << 31;

// Reads what stands before the numbers of an array.
class ArrayHead {
 public:
  explicit ArrayHead(std::span<const std::byte> array) : rest_(array) {}

  // Little-endian, of 1 to 8 bytes; sets bad() where there are fewer.
  std::uint64_t next(std::size_t bytes) {
    std::uint64_t value = 0;
    bad_ = bad_ || rest_.size() < bytes;
    if (bad_) return 0;
    std::memcpy(&value, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  bool bad() const { return bad_; }
  std::span<const std::byte> rest() const { return rest_; }

 private:
  std::span<const std::byte> rest_;
  bool bad_ = false;
};

IdArray numbers_of_array(std::span<const std::byte> array, const MdsNumbers& numbers,
                         std::string& problem) {
  ArrayHead head(array);
  TokenType type = numbers.type;
  if (type == TokenType::kAuto) {
    const auto code = static_cast<int>(head.next(1));
    const auto known =
        std::ranges::find_if(kTypes, [&](const ArrayType& each) { return each.code == code; });
    if (known == std::end(kTypes)) {
      problem = core::concat("its array is of no whole numbers: type ", code);
      return {};
    }
    type = known->type;
  }
  auto count = static_cast<std::uint64_t>(numbers.fixed);
  if (count == 0) {
    const std::uint64_t form = head.next(1);
    const std::size_t width = std::size_t{1} << (form & 3);
    count = 1;
    for (std::uint64_t dim = 0; dim < form >> 2; ++dim) {
      count = std::min(count * std::min(head.next(width), kMostIds), kMostIds);
    }
  }
  if (head.bad() || head.rest().size() != count * size_of(type)) {
    problem = core::concat("its array has ", head.rest().size(), " bytes for ", count, ' ',
                           name_of(type));
    return {};
  }
  return {head.rest(), type};
}

}  // namespace

std::vector<MdsShard> read_mds_index(const std::string& folder, TokenType asked) {
  return Index(folder, asked).shards();
}

IdArray numbers_of_sample(std::span<const std::byte> sample, const MdsColumns& columns,
                          const MdsNumbers& numbers, std::string& problem) {
  ArrayHead head(sample);
  std::uint64_t begin = 0;  // of the column, behind the sizes
  std::uint64_t bytes = 0;
  std::uint64_t all = 0;
  for (std::size_t at = 0; at < columns.sizes.size(); ++at) {
    const std::uint64_t size =
        columns.sizes[at] > 0 ? static_cast<std::uint64_t>(columns.sizes[at]) : head.next(4);
    if (at == numbers.column) {
      begin = all;
      bytes = size;
    }
    all += size;
  }
  if (head.bad() || all != head.rest().size()) {
    problem = core::concat("its columns have ", all, " bytes, ", head.rest().size(), " are there");
    return {};
  }
  const auto column = head.rest().subspan(begin, bytes);
  if (numbers.array) return numbers_of_array(column, numbers, problem);
  if (bytes % size_of(numbers.type) == 0) return {column, numbers.type};
  problem = core::concat(bytes, " bytes are no whole ", name_of(numbers.type));
  return {};
}

}  // namespace fm::data
