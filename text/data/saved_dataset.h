// Folders that datasets.save_to_disk wrote: state.json names Arrow files beside it.
#pragma once

#include <string>
#include <vector>

namespace fm::data {

// Also of a DatasetDict, whose splits are folders of this kind.
bool is_saved_dataset(const std::string& folder);

// The Arrow files in their order. Throws UserError (11) naming what is wrong in the folder, (10)
// for a DatasetDict, naming its splits.
std::vector<std::string> files_of_saved_dataset(const std::string& folder);

}  // namespace fm::data
