#include "checkpoint/slice_places.h"

#include <map>

#include "core/check.h"

namespace fm::checkpoint {

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
    if (slice.count.count() == 0) continue;
    const auto found = known.find({one.file, slice.name});
    FM_CHECK(found != known.end(), "tensor ", slice.name, " is not planned in file ", one.file);
    const StoredTensor& tensor = *found->second.tensor;
    FM_CHECK(tensor.shape == slice.shape, "tensor ", slice.name, " has shape ",
             shape_text(tensor.shape), ", its slice says ", shape_text(slice.shape));
    const core::Bytes begin = tensor.begin + core::bytes_of(slice.first, core::DType::kF32);
    const core::Bytes end = begin + core::bytes_of(slice.count, core::DType::kF32);
    FM_CHECK(slice.first.count() >= 0 && slice.count.count() > 0 && end <= tensor.end, "slice ",
             slice.first.count(), " + ", slice.count.count(), " of ", slice.name);
    places.push_back({.file = found->second.file, .begin = begin, .slice = &slice});
  }
  return places;
}

}  // namespace fm::checkpoint
