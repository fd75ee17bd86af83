// index.json of an MDS dataset (MosaicML Streaming, version 2), and what a sample of it is.
//
//   shard  := samples: u32 | offset of each sample, then the end: u32 | JSON | samples
//   sample := size of each column whose size is not fixed: u32 | columns in the order of the index
//   ndarray := [type: u8] [dims << 2 | width of a dim: u8, dims] numbers; in brackets what the
//              encoding "ndarray:TYPE:SHAPE" leaves open. A dim has 1, 2, 4 or 8 bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/data/id_array.h"

namespace fm::data {

// Where numbers of one kind are in the samples of a shard.
struct MdsNumbers {
  std::size_t field = 0;              // what they say, in kRowFields
  std::size_t column = 0;             // which column holds them
  bool array = false;                 // it is an ndarray, else bytes
  TokenType type = TokenType::kAuto;  // kAuto: the array says
  std::int64_t fixed = 0;             // of an array of fixed shape; 0: the array says
};

struct MdsColumns {
  std::vector<std::int64_t> sizes;  // in bytes, of each column; 0: the sample says
  MdsNumbers ids;
  std::vector<MdsNumbers> others;   // that say what is trained
  std::vector<std::string> unused;  // names of the rest
};

struct MdsShard {
  std::string path;
  bool packed = false;  // only the compressed file is there
  std::int64_t samples = 0;
  std::int64_t bytes = 0;  // unpacked
  MdsColumns columns;
};

// Takes the column "tokens", or "input_ids", and those of kRowFields: an ndarray of whole numbers,
// or bytes of `asked` type (int64 where that is kAuto, as llm-foundry writes them). Other columns
// may be anything. Throws UserError (11) for an index that is damaged, compression other than zstd
// and gz, another encoding of those columns, and masks that are not known.
std::vector<MdsShard> read_mds_index(const std::string& folder, TokenType asked);

// The numbers in the bytes of a sample. `problem` becomes what is wrong, or stays "".
IdArray numbers_of_sample(std::span<const std::byte> sample, const MdsColumns& columns,
                          const MdsNumbers& numbers, std::string& problem);

}  // namespace fm::data
