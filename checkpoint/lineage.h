// Which checkpoints of a folder belong together.
//
// A run begins with a fresh start or with one that goes back (--resume PATH), and lives on over
// every automatic resume. Each of its manifests carries its random id, its number (1 + the highest
// known in output_dir when it began) and its parent: the checkpoint it went back to. Checkpoints
// of older versions carry none of it: they are one run, without an id and with number 0.
//
// - The run with the highest number counts. Every manifest that can be read has a say, those of
//   damaged and put aside checkpoints too. Two with one number (somebody copied a folder): the one
//   that `latest` names.
// - Its line is what --resume auto and must may use: its own checkpoints, then those of its
//   parent's run up to the parent, and so on.
// - When the checkpoint that `latest` names has no readable manifest nobody knows its run: then
//   none of a later step counts.
// - Pruning deletes checkpoints of its own run only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fm::checkpoint {

struct Lineage {
  std::string run;          // random, hexadecimal
  std::int64_t number = 0;  // of the run in its output_dir
  std::string parent_run;   // both empty: begun from nothing
  std::string parent_tag;
  bool operator==(const Lineage&) const = default;
};

// A run that begins now below `output_dir`. Reads every manifest there.
Lineage new_run(const std::filesystem::path& output_dir);
// Nothing when the folder has no readable manifest.
std::optional<Lineage> lineage_of(const std::filesystem::path& checkpoint);

// The checkpoints that a resume may use.
class RunLine {
 public:
  explicit RunLine(const std::filesystem::path& output_dir);
  bool holds(const Lineage& lineage, std::int64_t step) const;

 private:
  struct Part {
    std::string run;
    std::int64_t last_step = 0;
  };
  std::vector<Part> parts_;
};

}  // namespace fm::checkpoint
