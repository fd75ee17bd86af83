#include "engine/state/run_identity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "comm/agree.h"
#include "core/check.h"
#include "core/text.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/threads.h"

namespace fm::engine {
namespace {

using Json = nlohmann::json;

// "rope_theta: 10000.0 in the checkpoint, 500000.0 now" for every key that both have.
std::vector<std::string> differences(const std::string& saved_text, const std::string& now_text) {
  if (saved_text.empty() || now_text.empty()) return {};
  const Json saved = Json::parse(saved_text);
  const Json now = Json::parse(now_text);
  std::vector<std::string> out;
  for (const auto& [key, value] : now.items()) {
    if (!saved.contains(key) || saved[key] == value) continue;
    out.push_back(
        core::concat(key, ": ", saved[key].dump(), " in the checkpoint, ", value.dump(), " now"));
  }
  return out;
}

constexpr std::string_view kPath = " path=";

// Of data_text(), or of an older build's "KIND PATH bytes=...".
std::string fingerprint_of(const std::string& data) {
  const std::size_t path = data.find(kPath);
  if (path != std::string::npos) return data.substr(0, path);
  const std::size_t kind = data.find(' ');
  const std::size_t bytes = data.rfind(" bytes=");
  if (kind == std::string::npos || bytes == std::string::npos) return data;
  return data.substr(0, kind) + data.substr(bytes);
}

// What is known of the difference: "; its tokenizer differs", or "".
std::string why_data_differ(const std::string& saved, const std::string& now) {
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  if (has(saved, " part=") && has(now, " chosen=")) {
    return "; the checkpoint's split takes documents in the order of the files: add "
           "--shuffle_split false";
  }
  // "text CONTENT-RECIPE": text/prepare/prepare_text.cc
  const auto text_of_file = [](const std::string& text) {
    return text.substr(0, text.find(' ', 5));
  };
  const std::string before = text_of_file(saved);
  const std::string after = text_of_file(now);
  const bool same_text = before.starts_with("text ") && before != after &&
                         before.substr(0, before.rfind('-')) == after.substr(0, after.rfind('-'));
  return same_text ? "; the text is the same, but it is read in another way: the tokenizer, the "
                     "chat template, --text_field or --train_on_inputs differs"
                   : "";
}

// Another number of ranks changes the samples of a step where the JSON does not fix them.
std::string cure_of_batch(const std::string& saved, const std::vector<std::string>& differences) {
  constexpr const char* kKey = "train_batch_size";
  const std::string start = core::concat(kKey, ": ");
  if (std::ranges::none_of(differences,
                           [&](const std::string& each) { return each.starts_with(start); })) {
    return "";
  }
  return core::concat(
      "; a step has other samples now; if another number of ranks is the reason, "
      "set \"",
      kKey, "\": ", Json::parse(saved).at(kKey).dump(),
      " in place of gradient_accumulation_steps, and any number of ranks goes on "
      "as before");
}

// The word behind " KEY=" in a fingerprint of rows (text/data/id_rows.cc); "": it has none.
std::string word_of(const std::string& fingerprint, const std::string& key) {
  const std::string start = " " + key + "=";
  const std::size_t at = fingerprint.find(start);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + start.size();
  return fingerprint.substr(begin, fingerprint.find_first_of(" ,;", begin) - begin);
}

// The flags by which rows become those of the checkpoint again, where they are what differs.
std::string flags_of_rows(const std::string& saved, const std::string& now) {
  constexpr std::pair<const char*, const char*> kFlags[] = {{"packing", "--packing"},
                                                            {"seq_len", "--max_seq_len"}};
  std::string flags;
  for (const auto& [key, flag] : kFlags) {
    const std::string before = word_of(saved, key);
    if (before.empty() || before == word_of(now, key)) continue;
    flags += core::concat(flags.empty() ? "" : " ", flag, " ", before);
  }
  return flags;
}

std::vector<Arithmetic> gather(const Arithmetic& mine, comm::Communicator& world) {
  std::vector<Arithmetic> all;
  for (const std::string& text :
       comm::gather_texts(world, core::concat(mine.threads, " ", mine.libraries))) {
    all.push_back({.libraries = text.substr(text.find(' ') + 1), .threads = std::stoi(text)});
  }
  return all;
}

}  // namespace

std::string data_text(const std::string& fingerprint, const std::string& path) {
  return core::concat(fingerprint, kPath, path);
}

RunIdentity identity_of(const TrainOptions& options, const std::string& data,
                        const Arithmetic& arithmetic, const std::vector<Fact>& facts) {
  return {.seed = options.seed,
          .data = data,
          .optimizer = std::string(options.optimizer.rule->name),
          .arithmetic = text_of(arithmetic),
          .model = values_for(kResumeAgrees, facts),
          .optimization = values_for(kResumeSays, facts)};
}

std::vector<std::string> compare_runs(const RunIdentity& saved, const RunIdentity& now) {
  FM_USER_CHECK(saved.optimizer == now.optimizer,
                "a run resumes with the optimizer it was saved with; use the same, or --resume "
                "never with another --output_dir (checkpoint: ",
                saved.optimizer, ", now: ", now.optimizer, ")");
  const std::string rows = flags_of_rows(fingerprint_of(saved.data), fingerprint_of(now.data));
  FM_USER_CHECK(rows.empty(),
                "a run resumes with the rows it was saved with, or its position would mean "
                "nothing; pass ",
                rows,
                ", or start anew from the exported model with --init_ckpt and another "
                "--output_dir (checkpoint: ",
                saved.data, ", now: ", now.data, ")");
  FM_USER_CHECK(fingerprint_of(saved.data) == fingerprint_of(now.data),
                "a run resumes on the data it was saved with, or its position would mean nothing;"
                " use the same data, --max_seq_len and --seed, or start anew from the exported "
                "model with --init_ckpt and another --output_dir",
                why_data_differ(saved.data, now.data), " (checkpoint: ", saved.data,
                ", now: ", now.data, ")");
  const std::vector<std::string> model = differences(saved.model, now.model);
  FM_USER_CHECK(model.empty(),
                "a run resumes the model it was saved with: these weights mean nothing to another "
                "function; use the same config.json and frozen weights and train the same "
                "parameters, or start anew with another --output_dir (",
                core::join(model, "; "), ")");
  std::vector<std::string> warnings;
  const std::vector<std::string> rule = differences(saved.optimization, now.optimization);
  if (!rule.empty()) {
    warnings.push_back("the run goes on with other numbers than it was saved with: " +
                       core::join(rule, "; ") + cure_of_batch(saved.optimization, rule));
  }
  // Older builds saved the GEMM library only, with which the text begins.
  const bool is_older = saved.model.empty() && now.arithmetic.starts_with(saved.arithmetic);
  if (saved.arithmetic != now.arithmetic && !is_older) {
    warnings.push_back(core::concat("the checkpoint was computed with ", saved.arithmetic,
                                    ", this run uses ", now.arithmetic,
                                    ": losses agree to rounding, not bit for bit"));
  }
  return warnings;
}

Arithmetic arithmetic_of(core::DType element, const std::string& libraries) {
  const bool fp32 = element == core::DType::kF32;
  return {
      .libraries = fp32 ? libraries : core::concat(core::name_of(element), " compute, ", libraries),
      .threads = kernels::kernel_threads()};
}

Arithmetic arithmetic_here(core::DType element) {
  return arithmetic_of(element, core::concat(kernels::gemm_library(element), ", attention ",
                                             kernels::attention_library()));
}

std::string text_of(const Arithmetic& arithmetic) {
  return core::concat(arithmetic.libraries, ", ", arithmetic.threads,
                      arithmetic.threads == 1 ? " thread" : " threads", " per rank");
}

std::string check_same_arithmetic(const Arithmetic& mine, comm::Communicator& world) {
  const std::vector<Arithmetic> all = gather(mine, world);
  const auto other_libraries = std::ranges::find_if(
      all, [&](const Arithmetic& one) { return one.libraries != all[0].libraries; });
  FM_USER_CHECK(
      other_libraries == all.end(),
      "all ranks must compute with the same libraries and instruction set; start every "
      "rank with the same build; on different CPUs set FME_GEMM=onednn and "
      "ONEDNN_MAX_CPU_ISA to what all of them have, on GPUs install the same cuBLASLt and "
      "cuDNN, or set FME_ATTENTION=own (rank ",
      other_libraries - all.begin(), ": ", other_libraries->libraries,
      "; rank 0: ", all[0].libraries, ")");
  const auto other_threads = std::ranges::find_if(
      all, [&](const Arithmetic& one) { return one.threads != all[0].threads; });
  if (other_threads == all.end()) return "";
  return core::concat(
      "ranks compute with different numbers of threads, so another layout agrees to "
      "rounding, not bit for bit; set OMP_NUM_THREADS for all of them alike (rank ",
      other_threads - all.begin(), ": ", text_of(*other_threads), "; rank 0: ", text_of(all[0]),
      ")");
}

void check_same_start(const std::vector<Fact>& facts, comm::Communicator& world) {
  const std::vector<std::string> all = comm::gather_texts(world, values_for(kRanksAgree, facts));
  const auto other =
      std::ranges::find_if(all, [&](const std::string& one) { return one != all[0]; });
  if (other == all.end()) return;
  const Json first = Json::parse(all[0]);
  const Json odd = Json::parse(*other);
  std::vector<std::string> out;
  for (const auto& [key, value] : odd.items()) {
    const std::string expected = first.contains(key) ? first[key].dump() : "given";
    if (expected != value.dump())
      out.push_back(core::concat(key, " is ", value.dump(), ", not ", expected));
  }
  FM_USER_CHECK(false,
                "all ranks must be started with the same JSON, flags, model and data; give every "
                "host the same files (rank ",
                other - all.begin(), " beside rank 0: ", core::join(out, "; "), ")");
}

}  // namespace fm::engine
