// Megatron-LM's indexed datasets: PREFIX.bin, PREFIX.idx.
//
//   idx := "MMIDIDX" 0 0 | version: u64 = 1 | type: u8 | sequences: u64 | documents + 1: u64
//          | ids of each sequence: i32 | its first byte in bin: i64
//          | first sequence of each document, then their number: i64 | [mode of each sequence: i8]
//   bin := the ids of all sequences, one behind the other
//
// Little-endian; the numbers of idx lie as they come, not aligned. Types: 1 uint8, 2 int8, 3 int16,
// 4 int32, 5 int64, 6 float64, 7 float32, 8 uint16.
//
// Two files are fmengine's. Where the loss leaves ids out, PREFIX.counted has a byte per id, 0 for
// those. Where ids predict others than themselves, PREFIX.labels has (place of the id: i64, label:
// i64) for each of them, by place.
#pragma once

#include <string>

#include "text/data/sample_source.h"
#include "text/data/token_stream.h"

namespace fm::data {

// Whether `path` is such a prefix, or one of its two files, and the .idx begins as one does.
bool is_megatron(const std::string& path);

// The files are mapped. Throws UserError (11) when they are damaged or do not belong together, and
// for an id outside [0, vocab); read() too, when the .bin has been written since.
StreamPtr open_megatron(const std::string& path, const SourceOptions& options);

}  // namespace fm::data
