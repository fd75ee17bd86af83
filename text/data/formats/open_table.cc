#include "text/data/formats/open_table.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace fm::data {
namespace {

using Batches = std::shared_ptr<arrow::RecordBatchReader>;

// Batches of a stranger's file: what is handed over can be read without a look at each number.
class CheckedBatches final : public arrow::RecordBatchReader {
 public:
  explicit CheckedBatches(Batches batches) : batches_(std::move(batches)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return batches_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    ARROW_RETURN_NOT_OK(batches_->ReadNext(batch));
    if (*batch == nullptr) return arrow::Status::OK();
    // Texts that are no UTF-8 are bad rows, not a bad file.
    const arrow::Status valid = (*batch)->ValidateFull();
    const bool text = valid.ToString().find("UTF8") != std::string::npos;
    return text ? (*batch)->Validate() : valid;
  }

 private:
  Batches batches_;
};

// The batches [next, end) of a file in Arrow's file format.
class FileBatches final : public arrow::RecordBatchReader {
 public:
  FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file, int next, int end)
      : file_(std::move(file)), next_(next), end_(end) {}

  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    if (next_ == end_) return arrow::Status::OK();
    return file_->ReadRecordBatch(next_++).Value(batch);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int next_;
  int end_;
};

using File = std::shared_ptr<arrow::io::RandomAccessFile>;

// Where a part of `count` groups or batches begins.
int begin_of(const TablePart& part, int index, int count) {
  return static_cast<int>(std::int64_t{count} * index / part.parts);
}

arrow::Result<Batches> open_parquet(const File& file, const TablePart& part, OpenedTable& out) {
  parquet::arrow::FileReaderBuilder builder;
  parquet::ReaderProperties pages;
  pages.enable_buffered_stream();  // not whole column chunks
  ARROW_RETURN_NOT_OK(builder.Open(file, pages));
  parquet::ArrowReaderProperties properties(false);  // one thread
  properties.set_batch_size(1024);                   // rows
  properties.set_pre_buffer(false);
  builder.properties(properties);
  std::unique_ptr<parquet::arrow::FileReader> reader;
  ARROW_RETURN_NOT_OK(builder.Build(&reader));
  // The batches keep what they read from.
  std::shared_ptr<parquet::arrow::FileReader> kept(std::move(reader));
  const int first = begin_of(part, part.part, kept->num_row_groups());
  std::vector<int> groups;
  for (int at = first; at < begin_of(part, part.part + 1, kept->num_row_groups()); ++at) {
    groups.push_back(at);
  }
  const auto facts = kept->parquet_reader()->metadata();
  for (int at = 0; at < first; ++at) out.rows_before += facts->RowGroup(at)->num_rows();
  ARROW_ASSIGN_OR_RAISE(auto batches, kept->GetRecordBatchReader(groups));
  auto* const plain = batches.release();
  return Batches(plain, [kept](arrow::RecordBatchReader* ended) { delete ended; });
}

arrow::Result<Batches> open_ipc(const File& file, const TablePart& part, OpenedTable& out) {
  constexpr char kMagic[] = "ARROW1";
  ARROW_ASSIGN_OR_RAISE(const auto first, file->Read(sizeof(kMagic) - 1));
  ARROW_RETURN_NOT_OK(file->Seek(0));
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  if (first->ToString() == kMagic) {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, options));
    const int next = begin_of(part, part.part, reader->num_record_batches());
    const int end = begin_of(part, part.part + 1, reader->num_record_batches());
    for (int at = 0; at < next; ++at) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, reader->ReadRecordBatch(at));
      out.rows_before += batch->num_rows();
    }
    return std::make_shared<FileBatches>(std::move(reader), next, end);
  }
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(file, options));
  if (part.part == 0) return reader;
  return arrow::RecordBatchReader::Make({}, reader->schema());
}

arrow::Status open(const char* path, const TablePart& part, OpenedTable& out) {
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
  ARROW_ASSIGN_OR_RAISE(auto batches, part.is_parquet != 0 ? open_parquet(file, part, out)
                                                           : open_ipc(file, part, out));
  return arrow::ExportRecordBatchReader(std::make_shared<CheckedBatches>(std::move(batches)),
                                        static_cast<::ArrowArrayStream*>(out.stream));
}

}  // namespace

extern "C" int fm_open_table(const char* path, const TablePart* part, OpenedTable* out) {
  std::string problem;
  try {
    out->rows_before = 0;
    const arrow::Status status = open(path, *part, *out);
    if (status.ok()) return 0;
    problem = status.ToString();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  problem.resize(std::min(problem.size(), out->why.size() - 1));
  std::memcpy(out->why.data(), problem.c_str(), problem.size() + 1);
  return 1;
}

}  // namespace fm::data
