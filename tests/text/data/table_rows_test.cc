// Tables of Arrow's C data interface as JSONL; their buffers are written here as the specification
// has them (arrow.apache.org/docs/format/Columnar.html).
#include "text/data/formats/table_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>

#include "core/check.h"
#include "tests/text/data/scratch_folder.h"
#include "text/data/formats/arrow_c_data.h"

namespace fm::data {
namespace {

// One column; parts of it live as long as the test.
struct Column {
  std::string format, name;
  std::int64_t length = 0;
  std::vector<std::string> buffers;  // "" is none
  std::vector<Column> children = {};
  std::vector<Column> dictionary = {};
  std::int64_t offset = 0;
};

template <class T>
std::string bytes(std::initializer_list<T> numbers) {
  return {reinterpret_cast<const char*>(std::data(numbers)), numbers.size() * sizeof(T)};
}

// Hands a table over as a stream of one batch, and counts what is given back.
class Table {
 public:
  explicit Table(Column table, const char* error = nullptr)
      : table_(std::move(table)), error_(error) {}

  ArrowArrayStream stream() {
    ArrowArrayStream out{};
    out.get_schema = [](ArrowArrayStream* self, ArrowSchema* schema) {
      *schema = of(self).schema_of(of(self).table_);
      ++of(self).open_;
      schema->release = [](ArrowSchema* at) { --static_cast<Table*>(at->private_data)->open_; };
      return 0;
    };
    out.get_next = [](ArrowArrayStream* self, ArrowArray* array) {
      if (of(self).error_ != nullptr) return 5;
      *array = {};
      if (std::exchange(of(self).given_, true)) return 0;
      *array = of(self).array_of(of(self).table_);
      ++of(self).open_;
      array->release = [](ArrowArray* at) { --static_cast<Table*>(at->private_data)->open_; };
      return 0;
    };
    out.get_last_error = [](ArrowArrayStream* self) { return of(self).error_; };
    out.release = [](ArrowArrayStream* self) { --of(self).open_; };
    out.private_data = this;
    ++open_;
    return out;
  }
  int open() const { return open_; }

 private:
  static Table& of(ArrowArrayStream* stream) { return *static_cast<Table*>(stream->private_data); }

  ArrowSchema schema_of(const Column& column) {
    ArrowSchema out{};
    out.format = column.format.c_str();
    out.name = column.name.c_str();
    out.n_children = std::ssize(column.children);
    auto& list = schema_lists_.emplace_back();
    for (const Column& child : column.children) {
      list.push_back(&schemas_.emplace_back(schema_of(child)));
    }
    out.children = list.data();
    if (!column.dictionary.empty()) {
      out.dictionary = &schemas_.emplace_back(schema_of(column.dictionary[0]));
    }
    out.private_data = this;
    return out;
  }

  ArrowArray array_of(const Column& column) {
    ArrowArray out{};
    out.length = column.length;
    out.offset = column.offset;
    out.null_count = column.buffers.empty() || column.buffers[0].empty() ? 0 : -1;
    auto& buffers = buffers_.emplace_back();
    for (const std::string& buffer : column.buffers) {
      buffers.push_back(buffer.empty() ? nullptr : buffer.data());
    }
    out.n_buffers = std::ssize(buffers);
    out.buffers = buffers.data();
    out.n_children = std::ssize(column.children);
    auto& list = array_lists_.emplace_back();
    for (const Column& child : column.children)
      list.push_back(&arrays_.emplace_back(array_of(child)));
    out.children = list.data();
    if (!column.dictionary.empty()) {
      out.dictionary = &arrays_.emplace_back(array_of(column.dictionary[0]));
    }
    out.private_data = this;
    return out;
  }

  Column table_;
  const char* error_;
  bool given_ = false;
  int open_ = 0;
  std::deque<ArrowSchema> schemas_;
  std::deque<ArrowArray> arrays_;
  std::deque<std::vector<ArrowSchema*>> schema_lists_;
  std::deque<std::vector<ArrowArray*>> array_lists_;
  std::deque<std::vector<const void*>> buffers_;
};

Column table_of(std::vector<Column> columns, std::int64_t rows) {
  return {
      .format = "+s", .name = "", .length = rows, .buffers = {""}, .children = std::move(columns)};
}

std::string lines_of(Column column, std::int64_t rows) {
  Table table(table_of({std::move(column)}, rows));
  std::string out;
  {
    const auto lines = make_table_rows(table.stream(), "t.parquet");
    for (std::string_view got = lines->next(); !got.empty(); got = lines->next()) out += got;
  }
  EXPECT_EQ(table.open(), 0);
  return out;
}

TEST(TableRows, TextsOfAllLayoutsAreStrings) {
  const std::string two = "{\"c\":\"ab\"}\n{\"c\":\"\\\"\"}\n";
  EXPECT_EQ(lines_of({"u", "c", 2, {"", bytes<std::int32_t>({0, 2, 3}), "ab\""}}, 2), two);
  EXPECT_EQ(lines_of({"U", "c", 2, {"", bytes<std::int64_t>({0, 2, 3}), "ab\""}}, 2), two);
  // A view has its text itself up to 12 bytes, else four of them, a buffer's number and a place.
  const std::string views = bytes<std::int32_t>({2}) + std::string("ab\0\0\0\0\0\0\0\0\0\0", 12) +
                            bytes<std::int32_t>({13}) + "defg" + bytes<std::int32_t>({0, 1});
  EXPECT_EQ(lines_of({"vu", "c", 2, {"", views, "_defghijklmnop"}}, 2),
            "{\"c\":\"ab\"}\n{\"c\":\"defghijklmnop\"}\n");
}

TEST(TableRows, NullsAndOffsetsCount) {
  EXPECT_EQ(
      lines_of({"u", "c", 2, {"\x05", bytes<std::int32_t>({0, 2, 2, 3}), "abx"}, {}, {}, 1}, 2),
      "{\"c\":null}\n{\"c\":\"x\"}\n");
  EXPECT_EQ(lines_of({"n", "c", 1, {}}, 1), "{\"c\":null}\n");
}

TEST(TableRows, NumbersAreAsPythonWritesThem) {
  EXPECT_EQ(lines_of({"l", "c", 2, {"", bytes<std::int64_t>({-3, std::int64_t{1} << 62})}}, 2),
            "{\"c\":-3}\n{\"c\":4611686018427387904}\n");
  EXPECT_EQ(lines_of({"L", "c", 1, {"", bytes<std::uint64_t>({~std::uint64_t{0}})}}, 1),
            "{\"c\":18446744073709551615}\n");
  EXPECT_EQ(lines_of({"C", "c", 1, {"", "\xff"}}, 1), "{\"c\":255}\n");
  EXPECT_EQ(lines_of({"c", "c", 1, {"", "\xff"}}, 1), "{\"c\":-1}\n");
  EXPECT_EQ(lines_of({"g", "c", 3, {"", bytes<double>({1.0, 0.1, 1.0 / 0.0 * 1.0})}}, 3),
            "{\"c\":1.0}\n{\"c\":0.1}\n{\"c\":null}\n");
  EXPECT_EQ(lines_of({"f", "c", 1, {"", bytes<float>({0.5F})}}, 1), "{\"c\":0.5}\n");
  EXPECT_EQ(lines_of({"b", "c", 2, {"", "\x02"}}, 2), "{\"c\":false}\n{\"c\":true}\n");
}

TEST(TableRows, ListsOfObjectsAreMessages) {
  const Column role{"u", "role", 3, {"", bytes<std::int32_t>({0, 1, 2, 3}), "uau"}};
  const Column object{"+s", "item", 3, {""}, {role}};
  const std::string both =
      "{\"c\":[{\"role\":\"u\"},{\"role\":\"a\"}]}\n{\"c\":[{\"role\":\"u\"}]}\n";
  EXPECT_EQ(lines_of({"+l", "c", 2, {"", bytes<std::int32_t>({0, 2, 3})}, {object}}, 2), both);
  EXPECT_EQ(lines_of({"+L", "c", 2, {"", bytes<std::int64_t>({0, 2, 3})}, {object}}, 2), both);
  const Column ids{"i", "item", 4, {"", bytes<std::int32_t>({1, 2, 3, 4})}};
  EXPECT_EQ(lines_of({"+w:2", "c", 2, {""}, {ids}}, 2), "{\"c\":[1,2]}\n{\"c\":[3,4]}\n");
}

TEST(TableRows, ADictionaryHasTheValues) {
  const Column words{"u", "", 2, {"", bytes<std::int32_t>({0, 1, 3}), "xyz"}};
  EXPECT_EQ(lines_of({"c", "c", 3, {"", std::string("\1\0\1", 3)}, {}, {words}}, 3),
            "{\"c\":\"yz\"}\n{\"c\":\"x\"}\n{\"c\":\"yz\"}\n");
}

TEST(TableRows, WhatJsonHasNoValueForIsNamed) {
  EXPECT_EQ(lines_of({"tsu:", "c", 1, {"", bytes<std::int64_t>({1})}}, 1),
            "{\"c\":{\"unread\":\"tsu:\"}}\n");
  EXPECT_EQ(lines_of({"z", "c", 1, {"", bytes<std::int32_t>({0, 1}), "a"}}, 1),
            "{\"c\":{\"unread\":\"z\"}}\n");
}

TEST(TableRows, ATextThatIsNoUtf8IsABadRow) {
  const std::string lines = lines_of({"u",
                                      "c",
                                      2,
                                      {"", bytes<std::int32_t>({0, 1, 2}),
                                       "\xff"
                                       "b"}},
                                     2);
  EXPECT_TRUE(lines.starts_with("\x1atext must be UTF-8")) << lines;
  EXPECT_TRUE(lines.ends_with(")\n{\"c\":\"b\"}\n")) << lines;
}

TEST(TableRows, AStreamThatFailsIsRefusedWithTheReason) {
  Table table(table_of({{"n", "c", 1, {}}}, 1), "Invalid: page 3");
  const auto said = testing::message_of<core::UserError>(
      11, [&] { make_table_rows(table.stream(), "t.parquet")->next(); });
  EXPECT_EQ(said, "t.parquet: the table must be whole; write or fetch it anew (Invalid: page 3)");
  EXPECT_EQ(table.open(), 0);
}

// The library is not there in every build: then the refusal says how JSONL is made.
TEST(OpenTable, WhatIsNoTableOrCannotBeReadIsRefusedWithTheCure) {
  const testing::ScratchFolder folder;
  const std::string path = folder.write("t.parquet", "PAR1 and no more");
  try {
    open_table(path, RowLayout::kParquet);
    FAIL();
  } catch (const core::UserError& error) {
    const std::string said = error.what();
    const bool read = static_cast<int>(error.code()) == 11;
    EXPECT_TRUE(said.starts_with(path + ": ")) << said;
    EXPECT_NE(
        said.find(read ? "write or fetch it anew" : "load_dataset(\"parquet\", data_files=\""),
        std::string::npos)
        << said;
  }
}

}  // namespace
}  // namespace fm::data
