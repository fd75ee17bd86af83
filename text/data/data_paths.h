// What the words of --data_path lead to.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "text/data/row_lines.h"
#include "text/data/sample_source.h"

namespace fm::data {

struct DataFile {
  std::string path;   // a file, the folder of an MDS dataset, the prefix of Megatron's
  DataFormat format;  // what it holds: kJsonl, kJsonlIds, or one of ids
  RowLayout rows = RowLayout::kJsonLines;  // where it holds rows
};

struct DataPart {
  double weight = 0.0;  // 0: none was given, and there is one part
  std::vector<DataFile> files;
};

// `words` are files, folders (their files with known endings, an MDS dataset, or what
// datasets.save_to_disk wrote), patterns (*, ?, [...]; in the order of names) and prefixes P of
// P.bin and P.idx: one part. Where the first word is a number and no file, words are weights and
// paths in turn, and each path is a part.
//
// Throws UserError (10, 11) for a word that leads nowhere, a file that several words lead to, a
// weight that is none, a folder with files of several splits, and a file that does not say what it
// is (file_of).
std::vector<DataPart> find_data(std::span<const std::string> words, DataFormat format,
                                const RowOptions& rows = {});

// What a file is read as: `format`, or, when that is kAuto, a file is what its name says (.jsonl,
// .json, .txt, .csv, .tsv, also with .gz or .zst; .parquet, .arrow; .bin, .i32, .npy), but with a
// .idx beside a .bin it is Megatron's; a folder with index.json is MDS. Rows are ids when the first
// one has "input_ids". The file need not be there. Throws UserError (10, 11) when nothing of that
// tells.
DataFile file_of(const std::string& path, DataFormat format, const RowOptions& rows = {});

// Throws UserError (10) for options of rows by which none of the files is read.
void check_row_options(std::span<const DataPart> parts, const RowOptions& rows);

// Whether some of the files are text, which is tokenized here; or flat files of ids, in which
// documents are not known. Both throw as find_data does.
bool reads_text(std::span<const std::string> words, DataFormat format, const RowOptions& rows);
bool is_flat(std::span<const std::string> words, DataFormat format, const RowOptions& rows);

}  // namespace fm::data
