#include "checkpoint/safetensors_plan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_file.h"
#include "checkpoint/safetensors_parse.h"
#include "core/check.h"
#include "core/files/durable_file.h"

namespace fm::checkpoint {
namespace {

constexpr std::size_t kAlignment = 8;

core::Bytes bytes_of(const TensorToStore& tensor) {
  const int type = rank_of_type(tensor.dtype);
  FM_CHECK(type >= 0, "unknown stored type ", tensor.dtype);
  auto bits = static_cast<std::int64_t>(kStoredTypes[type].bits);
  for (const std::int64_t size : tensor.shape) bits *= size;
  FM_CHECK(bits % 8 == 0, tensor.name, " does not end on a byte");
  return core::Bytes(bits / 8);
}

std::string header_text(const std::vector<StoredTensor>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::string text = header.dump();
  text.pop_back();  // entries are appended one by one: an ordered object looks each up linearly
  for (const StoredTensor& tensor : tensors) {
    const nlohmann::ordered_json entry = {
        {"dtype", tensor.dtype},
        {"shape", tensor.shape},
        {"data_offsets", {tensor.begin.count(), tensor.end.count()}}};
    if (text.size() > 1) text += ',';
    text += nlohmann::json(tensor.name).dump() + ':' + entry.dump();
  }
  text += '}';
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

}  // namespace

SafetensorsPlan plan_safetensors(const std::vector<TensorToStore>& tensors,
                                 const std::map<std::string, std::string>& metadata) {
  std::vector<TensorToStore> sorted = tensors;
  std::sort(sorted.begin(), sorted.end(), [](const TensorToStore& a, const TensorToStore& b) {
    const int type_a = rank_of_type(a.dtype);
    const int type_b = rank_of_type(b.dtype);
    return type_a != type_b ? type_a > type_b : a.name < b.name;
  });
  SafetensorsPlan plan;
  core::Bytes end;
  for (TensorToStore& tensor : sorted) {
    FM_CHECK(plan.tensors.empty() || plan.tensors.back().name != tensor.name, "tensor ",
             tensor.name, " is to be stored twice");
    const core::Bytes begin = end;
    end += bytes_of(tensor);
    plan.tensors.push_back({.name = std::move(tensor.name),
                            .dtype = std::move(tensor.dtype),
                            .shape = std::move(tensor.shape),
                            .begin = begin,
                            .end = end});
  }
  const std::string text = header_text(plan.tensors, metadata);
  const std::uint64_t length = text.size();
  plan.head.resize(sizeof(length));
  std::memcpy(plan.head.data(), &length, sizeof(length));
  plan.head += text;
  const core::Bytes data_begin(static_cast<std::int64_t>(plan.head.size()));
  for (StoredTensor& tensor : plan.tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  plan.file_bytes = data_begin + end;
  return plan;
}

SafetensorsPlan plan_floats(const std::vector<TensorSpec>& tensors, core::DType dtype) {
  const char* const name = dtype == core::DType::kBF16  ? "BF16"
                           : dtype == core::DType::kF16 ? "F16"
                                                        : "F32";
  std::vector<TensorToStore> all;
  for (const TensorSpec& tensor : tensors) all.push_back({tensor.name, name, tensor.shape});
  return plan_safetensors(all, {{"format", "pt"}});
}

void write_safetensors(const std::string& path, std::span<const core::TensorSlice> tensors) {
  std::vector<TensorSpec> specs;
  std::unordered_map<std::string, const core::TensorSlice*> by_name;
  for (const core::TensorSlice& tensor : tensors) {
    specs.push_back({tensor.name, tensor.shape});
    by_name[tensor.name] = &tensor;
  }
  const SafetensorsPlan plan = plan_f32(specs);
  const std::filesystem::path target = std::filesystem::absolute(path);
  const std::filesystem::path fresh =
      target.parent_path() /
      core::concat(".tmp-", target.filename().string(), "-", core::random_tag());
  core::WritableFile file = core::WritableFile::create(fresh, plan.file_bytes);
  file.write_at(core::Bytes(0), std::as_bytes(std::span(plan.head)));
  for (const StoredTensor& place : plan.tensors) {
    const core::TensorSlice& tensor = *by_name.at(place.name);
    const core::Bytes bytes = core::bytes_of(tensor.columns, core::DType::kF32);
    FM_CHECK(tensor.first.count() == 0 && bytes == place.end - place.begin, "tensor ", tensor.name,
             " must be whole");
    const core::FetchedRow row(tensor, 0, core::FetchedRow::Use::kRead);
    file.write_at(place.begin, std::as_bytes(row.floats()));
  }
  file.sync_and_close();
  std::filesystem::rename(fresh, target);
  core::sync_folder(target.parent_path());
}

std::vector<SlicePlace> place_slices(const std::vector<FileSpec>& files,
                                     const std::vector<SafetensorsPlan>& plans,
                                     std::span<const FileSlice> slices) {
  struct Known {
    std::size_t file;
    const StoredTensor* tensor;
  };
  std::map<std::pair<std::string_view, std::string_view>, Known> known;
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (const StoredTensor& tensor : plans[f].tensors) {
      known[{files[f].file, tensor.name}] = {f, &tensor};
    }
  }
  std::vector<SlicePlace> places;
  for (const FileSlice& one : slices) {
    const core::TensorSlice& slice = one.slice;
    if (slice.count().count() == 0) continue;
    const auto found = known.find({one.file, slice.name});
    FM_CHECK(found != known.end(), "tensor ", slice.name, " is not planned in file ", one.file);
    const StoredTensor& tensor = *found->second.tensor;
    FM_CHECK(tensor.shape == slice.shape, "tensor ", slice.name, " has shape ",
             shape_text(tensor.shape), ", its slice says ", shape_text(slice.shape));
    const auto& type = kStoredTypes[static_cast<std::size_t>(rank_of_type(tensor.dtype))];
    const auto width = static_cast<std::int64_t>(type.bits / 8);
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      const core::Elements first = slice.first_of(row);
      const core::Bytes begin = tensor.begin + core::Bytes(first.count() * width);
      const SlicePlace place{found->second.file, begin, &slice, row, width};
      FM_CHECK(
          first.count() >= 0 && slice.columns.count() > 0 && begin + place.bytes() <= tensor.end,
          "slice ", first.count(), " + ", slice.columns.count(), " of ", slice.name);
      places.push_back(place);
    }
  }
  return places;
}

}  // namespace fm::checkpoint
