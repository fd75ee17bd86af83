#include "text/data/formats/open_table.h"

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

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

// The batches of a file in Arrow's file format, one after the other.
class FileBatches final : public arrow::RecordBatchReader {
 public:
  explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file)
      : file_(std::move(file)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    if (next_ == file_->num_record_batches()) return arrow::Status::OK();
    return file_->ReadRecordBatch(next_++).Value(batch);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int next_ = 0;
};

arrow::Result<Batches> open_parquet(const std::shared_ptr<arrow::io::RandomAccessFile>& file) {
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
  ARROW_ASSIGN_OR_RAISE(auto batches, kept->GetRecordBatchReader());
  auto* const plain = batches.release();
  return Batches(plain, [kept](arrow::RecordBatchReader* ended) { delete ended; });
}

arrow::Result<Batches> open_ipc(const std::shared_ptr<arrow::io::RandomAccessFile>& file) {
  constexpr char kMagic[] = "ARROW1";
  ARROW_ASSIGN_OR_RAISE(const auto first, file->Read(sizeof(kMagic) - 1));
  ARROW_RETURN_NOT_OK(file->Seek(0));
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  if (first->ToString() == kMagic) {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, options));
    return std::make_shared<FileBatches>(std::move(reader));
  }
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(file, options));
  return reader;
}

arrow::Status open(const char* path, bool is_parquet, ::ArrowArrayStream* out) {
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
  ARROW_ASSIGN_OR_RAISE(auto batches, is_parquet ? open_parquet(file) : open_ipc(file));
  return arrow::ExportRecordBatchReader(std::make_shared<CheckedBatches>(std::move(batches)), out);
}

}  // namespace

extern "C" int fm_open_table(const char* path, int is_parquet, void* stream, char* why,
                             std::size_t room) {
  std::string problem;
  try {
    const arrow::Status status =
        open(path, is_parquet != 0, static_cast<::ArrowArrayStream*>(stream));
    if (status.ok()) return 0;
    problem = status.ToString();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::size_t size = std::min(problem.size(), room - 1);
  std::memcpy(why, problem.data(), size);
  why[size] = '\0';
  return 1;
}

}  // namespace fm::data
