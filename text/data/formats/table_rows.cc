#include "text/data/formats/table_rows.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/process.h"
#include "core/text.h"
#include "text/data/formats/arrow_c_data.h"
#include "text/data/formats/open_table.h"

namespace fm::data {
namespace {

constexpr int kMostLevels = 60;            // of lists and structs, below those of JSON
constexpr std::size_t kPiece = 1'000'000;  // bytes of lines, about

bool bit(const void* bits, std::int64_t at) {
  const auto* const bytes = static_cast<const std::uint8_t*>(bits);
  return ((bytes[at / 8] >> static_cast<unsigned>(at % 8)) & 1U) != 0;
}

template <class T>
T number_at(const void* numbers, std::int64_t at) {
  T number{};
  std::memcpy(&number, static_cast<const char*>(numbers) + at * std::int64_t{sizeof(T)}, sizeof(T));
  return number;
}

template <class T>
void append_number(std::string& out, T number) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  out.append(text, end);
}

// As Python writes it; JSON has no word for what is no number.
void append_float(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  const std::size_t before = out.size();
  append_number(out, number);
  if (out.find_first_of(".e", before) == out.npos) out += ".0";
}

std::string_view view_at(const ArrowArray& array, std::int64_t at) {
  const char* const view = static_cast<const char*>(array.buffers[1]) + 16 * at;
  const auto size = number_at<std::int32_t>(view, 0);
  if (size <= 12) return {view + 4, static_cast<std::size_t>(size)};
  const auto buffer = number_at<std::int32_t>(view, 2);
  const auto first = number_at<std::int32_t>(view, 3);
  return {static_cast<const char*>(array.buffers[2 + buffer]) + first,
          static_cast<std::size_t>(size)};
}

template <class Offset>
std::string_view text_at(const ArrowArray& array, std::int64_t at) {
  const auto first = number_at<Offset>(array.buffers[1], at);
  const auto last = number_at<Offset>(array.buffers[1], at + 1);
  return {static_cast<const char*>(array.buffers[2]) + first,
          static_cast<std::size_t>(last - first)};
}

// Writes values of columns. `problem` becomes what is wrong with a text.
class ValueWriter {
 public:
  ValueWriter(std::string& out, std::string& problem) : out_(out), problem_(problem) {}

  // `row` counts from the array's offset.
  void write(const ArrowSchema& schema, const ArrowArray& array, std::int64_t row) {
    const std::int64_t at = row + array.offset;
    const bool has_bits = array.n_buffers > 0 && array.buffers[0] != nullptr;
    if (has_bits && array.null_count != 0 && !bit(array.buffers[0], at)) {
      out_ += "null";
    } else if (schema.dictionary != nullptr) {
      write(*schema.dictionary, *array.dictionary, index_of(schema.format[0], array, at));
    } else if (std::strlen(schema.format) == 1) {
      write_plain(schema.format[0], array, at);
    } else {
      write_nested(schema, array, at);
    }
  }

 private:
  static std::int64_t index_of(char format, const ArrowArray& array, std::int64_t at) {
    const void* const numbers = array.buffers[1];
    switch (format) {
      case 'c': return number_at<std::int8_t>(numbers, at);
      case 'C': return number_at<std::uint8_t>(numbers, at);
      case 's': return number_at<std::int16_t>(numbers, at);
      case 'S': return number_at<std::uint16_t>(numbers, at);
      case 'i': return number_at<std::int32_t>(numbers, at);
      case 'I': return number_at<std::uint32_t>(numbers, at);
      default: return number_at<std::int64_t>(numbers, at);  // l, and L within its range
    }
  }

  void write_text(std::string_view text) {
    if (problem_.empty()) problem_ = check_utf8(text);
    append_json(out_, text);
  }

  void write_unread(std::string_view format) {
    out_ += "{\"unread\":";
    append_json(out_, format);
    out_ += '}';
  }

  void write_plain(char format, const ArrowArray& array, std::int64_t at) {
    switch (format) {
      case 'n': out_ += "null"; return;
      case 'b': out_ += bit(array.buffers[1], at) ? "true" : "false"; return;
      case 'c':
      case 'C':
      case 's':
      case 'S':
      case 'i':
      case 'I':
      case 'l': append_number(out_, index_of(format, array, at)); return;
      case 'L': append_number(out_, number_at<std::uint64_t>(array.buffers[1], at)); return;
      case 'f': append_float(out_, number_at<float>(array.buffers[1], at)); return;
      case 'g': append_float(out_, number_at<double>(array.buffers[1], at)); return;
      case 'u': write_text(text_at<std::int32_t>(array, at)); return;
      case 'U': write_text(text_at<std::int64_t>(array, at)); return;
      default: write_unread(std::string_view(&format, 1));  // bytes, half floats
    }
  }

  void write_nested(const ArrowSchema& schema, const ArrowArray& array, std::int64_t at) {
    const std::string_view format = schema.format;
    if (format == "vu") {
      write_text(view_at(array, at));
    } else if (format == "+s") {
      write_object(schema, array, at);
    } else if (format == "+l") {
      write_list(schema, array, number_at<std::int32_t>(array.buffers[1], at),
                 number_at<std::int32_t>(array.buffers[1], at + 1));
    } else if (format == "+L") {
      write_list(schema, array, number_at<std::int64_t>(array.buffers[1], at),
                 number_at<std::int64_t>(array.buffers[1], at + 1));
    } else if (format.starts_with("+w:")) {
      const std::int64_t size = core::integer_of(format.substr(3)).value_or(0);
      write_list(schema, array, size * at, size * (at + 1));
    } else {
      write_unread(format);
    }
  }

  void write_list(const ArrowSchema& schema, const ArrowArray& array, std::int64_t first,
                  std::int64_t last) {
    out_ += '[';
    for (std::int64_t at = first; at < last; ++at) {
      if (at > first) out_ += ',';
      write(*schema.children[0], *array.children[0], at);
    }
    out_ += ']';
  }

  void write_object(const ArrowSchema& schema, const ArrowArray& array, std::int64_t at) {
    out_ += '{';
    for (std::int64_t child = 0; child < schema.n_children; ++child) {
      if (child > 0) out_ += ',';
      append_json(out_, schema.children[child]->name);
      out_ += ':';
      write(*schema.children[child], *array.children[child], at);
    }
    out_ += '}';
  }

  std::string& out_;
  std::string& problem_;
};

template <class T>
void release(T& value) {
  if (value.release != nullptr) value.release(&value);
  value = {};
}

int levels_of(const ArrowSchema& schema, int most) {
  int levels = 0;
  for (std::int64_t child = 0; most > 0 && child < schema.n_children; ++child) {
    levels = std::max(levels, levels_of(*schema.children[child], most - 1));
  }
  if (most > 0 && schema.dictionary != nullptr) {
    levels = std::max(levels, levels_of(*schema.dictionary, most - 1));
  }
  return levels + 1;
}

// Invariant: rows before `row_` of `batch_` have been written.
// Thread:    one.
// Lifetime:  owns the stream, its schema and one batch.
class TableRows : public RowLines {
 public:
  TableRows(ArrowArrayStream stream, std::string path) : stream_(stream), path_(std::move(path)) {
    check(stream_.get_schema(&stream_, &schema_));
    FM_DATA_CHECK(std::string_view(schema_.format) == "+s" &&
                      levels_of(schema_, kMostLevels + 1) <= kMostLevels,
                  path_, ": a table must have columns, of at most ", kMostLevels,
                  " levels; write it anew");
  }
  TableRows(const TableRows&) = delete;
  TableRows& operator=(const TableRows&) = delete;
  ~TableRows() override {
    release(batch_);
    release(schema_);
    release(stream_);
  }

  std::string_view next() override {
    out_.clear();
    while (out_.size() < kPiece && !ended_) {
      if (row_ == batch_.length) {
        load();
      } else {
        write_row();
      }
    }
    return out_;
  }

 private:
  void load() {
    release(batch_);
    row_ = 0;
    check(stream_.get_next(&stream_, &batch_));
    ended_ = batch_.release == nullptr;
  }

  void write_row() {
    const std::size_t before = out_.size();
    std::string problem;
    ValueWriter(out_, problem).write(schema_, batch_, row_++);
    if (!problem.empty()) {
      out_.resize(before);
      out_ += kBadRow + problem;
    }
    out_ += '\n';
  }

  void check(int error) {
    if (error == 0) return;
    const char* const why = stream_.get_last_error(&stream_);
    FM_DATA_CHECK(false, path_, ": the table must be whole; write or fetch it anew (",
                  core::shortened(why == nullptr ? std::strerror(error) : why), ")");
  }

  ArrowArrayStream stream_;
  std::string path_;
  ArrowSchema schema_{};
  ArrowArray batch_{};
  std::int64_t row_ = 0;
  bool ended_ = false;
  std::string out_;
};

// How rows become JSONL without this program.
std::string advice(const std::string& path, RowLayout layout) {
  return core::concat(
      "build fmengine where pyarrow is (scripts/setup.sh --arrow, or -DFM_ARROW_DIR="
      "FOLDER), or make JSONL of it: python -c 'from datasets import load_dataset; "
      "load_dataset(\"",
      name_of(layout), "\", data_files=\"", path, "\", split=\"train\").to_json(\"",
      path.substr(0, path.rfind('.')), ".jsonl\")'");
}

}  // namespace

std::unique_ptr<RowLines> make_table_rows(ArrowArrayStream stream, const std::string& path) {
  return std::make_unique<TableRows>(stream, path);
}

Table open_table(const std::string& path, RowLayout layout, int part, int parts) {
  decltype(&fm_open_table) open = nullptr;
  try {
    open = reinterpret_cast<decltype(open)>(core::late_symbol("libfm_arrow.so", "fm_open_table"));
  } catch (const core::UserError&) {
    FM_USER_CHECK(false, path, ": ", name_of(layout), " needs Arrow's library, and there is none ",
                  "here; ", advice(path, layout));
  }
  ArrowArrayStream stream{};
  const TablePart asked{layout == RowLayout::kParquet ? 1 : 0, part, parts};
  OpenedTable opened{.stream = &stream, .rows_before = 0, .why = {}};
  FM_DATA_CHECK(open(path.c_str(), &asked, &opened) == 0, path, ": a whole ", name_of(layout),
                " file is required; write or fetch it anew (", core::shortened(opened.why.data()),
                ")");
  return {.rows = make_table_rows(stream, path), .rows_before = opened.rows_before};
}

}  // namespace fm::data
