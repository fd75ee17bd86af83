// How a run's text becomes ids.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "engine/options.h"
#include "text/data/sample_source.h"

namespace fm::engine {

// Ranks of this host, which share its disks. Collective over the world.
std::unique_ptr<comm::Communicator> ranks_of_host(comm::Communicator& world);

// Bytes of a JSONL file that every rank holds in memory where no tokenizer reads it; of a packed
// one an eighth of it.
inline constexpr std::int64_t kMostInMemory = std::int64_t{32} << 20;

struct TextReader {
  data::OpenJsonl open;
  data::EndTokens ends = {};  // at which generation from the run's model will stop
};

// How JSONL becomes ids below `vocab`, prepared in --cache_dir by the ranks of `host` (which must
// outlive it), until `stop` says on one of them that a signal asks to end: text by that tokenizer
// (where `text`: there is some), ids and bytes of files beyond kMostInMemory as they are. Throws
// UserError (10, 11) when the tokenizer cannot be read or its ids do not fit the model.
TextReader text_reader(const TrainOptions& options, std::int64_t vocab, bool text,
                       comm::Communicator& host, std::function<bool()> stop);

}  // namespace fm::engine
