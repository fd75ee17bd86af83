#include "checkpoint/hf_export.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "checkpoint/hf_folder.h"
#include "checkpoint/safetensors_plan.h"
#include "comm/agree.h"
#include "core/check.h"
#include "core/element.h"
#include "core/fault.h"
#include "core/files/draft_folder.h"
#include "core/files/durable_file.h"
#include "core/files/files.h"
#include "core/json_edit.h"
#include "core/text.h"

namespace fm::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplateFile = "chat_template.jinja";
constexpr const char* kMoreTemplates = "additional_chat_templates";
constexpr const char* kCarriedFile = "model-carried.safetensors";
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer.model",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "vocab.txt",
                                           "merges.txt",
                                           "chat_template.json"};
// Of the model, and often beside a tokenizer, too.
constexpr const char* kModelFiles[] = {"preprocessor_config.json", "processor_config.json",
                                       "video_preprocessor_config.json", "generation_config.json"};
// Names Python files of the folder, which are not exported: every family is transformers' own.
constexpr const char* kAutoMap = "auto_map";

core::Bytes bytes_of(const TensorSpec& tensor, core::DType dtype) {
  std::int64_t bytes = core::size_of(dtype).count();
  for (const std::int64_t size : tensor.shape) bytes *= size;
  return core::Bytes(bytes);
}

// Greedy in the order given, as huggingface_hub does: a tensor over the limit has a file alone.
std::vector<FileSpec> split_by_size(const ExportRequest& request, core::Bytes limit) {
  std::vector<FileSpec> files(1);
  core::Bytes used;
  for (const TensorSpec& tensor : request.tensors) {
    const core::Bytes bytes = bytes_of(tensor, request.dtype);
    if (!files.back().tensors.empty() && used + bytes > limit) {
      files.emplace_back();
      used = core::Bytes(0);
    }
    files.back().tensors.push_back(tensor);
    used += bytes;
  }
  char name[64];
  const bool alone = files.size() == 1 && request.carried.empty();
  for (std::size_t f = 0; f < files.size(); ++f) {
    std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", f + 1, files.size());
    files[f].file = alone ? kWeightsFile : name;
  }
  return files;
}

// Where the folder that the weights came from has its tensors, as JSON text: the weight_map of its
// index, the name of its only file, or null.
std::string source_map(const fs::path& source) {
  if (source.empty()) return "null";
  if (fs::exists(source / kWeightsFile)) return nlohmann::json(kWeightsFile).dump();
  const core::SmallFile file = core::read_small_file(source / kWeightsIndex, core::kMostListing);
  if (!core::is_shallow(file.text)) return "null";
  const auto index = nlohmann::json::parse(file.text, nullptr, false);
  return index.is_object() ? index.value("weight_map", nlohmann::json()).dump() : "null";
}

// The files of the source, where it has each of the tensors in one and no file besides; else none.
std::vector<FileSpec> split_as_in(const nlohmann::json& weight_map, const ExportRequest& request) {
  std::map<std::string, FileSpec> files;
  for (const auto& [tensor, file] : weight_map.items()) {
    if (!file.is_string()) return {};
    const auto name = file.get<std::string>();
    if (!name.ends_with(".safetensors") || name.find('/') != std::string::npos) return {};
    files[name].file = name;
  }
  for (const TensorSpec& tensor : request.tensors) {
    const auto at = weight_map.find(tensor.name);
    if (at == weight_map.end()) return {};
    files[at->get<std::string>()].tensors.push_back(tensor);
  }
  std::vector<FileSpec> out;
  for (auto& [name, file] : files) {
    if (file.tensors.empty()) return {};
    out.push_back(std::move(file));
  }
  return out.size() == 1 ? std::vector<FileSpec>() : out;
}

// Collective: rank 0 looks at the source.
std::vector<FileSpec> split_files(const ExportRequest& request, comm::Communicator& world) {
  if (request.kind == ExportRequest::Content::kAdapter) {
    return {{.file = "adapter_model.safetensors", .tensors = request.tensors}};
  }
  std::string map = "null";
  if (world.rank() == 0) comm::attempt([&] { map = source_map(request.shards_like); });
  const auto source = nlohmann::json::parse(comm::text_of_rank0(world, map));
  if (source.is_string()) return split_by_size(request, core::Bytes(INT64_MAX));
  std::vector<FileSpec> files;
  if (source.is_object()) files = split_as_in(source, request);
  return files.empty() ? split_by_size(request, request.shard_limit) : files;
}

// `carried`: the plan of their file.
std::string index_json(const std::vector<FileSpec>& files, core::DType dtype,
                       const SafetensorsPlan& carried) {
  core::Bytes total;
  std::map<std::string, std::string> weight_map;
  for (const StoredTensor& tensor : carried.tensors) {
    total += tensor.end - tensor.begin;
    weight_map[tensor.name] = kCarriedFile;
  }
  for (const FileSpec& file : files) {
    for (const TensorSpec& tensor : file.tensors) {
      total += bytes_of(tensor, dtype);
      weight_map[tensor.name] = file.file;
    }
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total.count()}}},
                                        {"weight_map", weight_map}};
  return index.dump(2) + "\n";
}

// transformers 5 says "dtype", earlier versions "torch_dtype"; both load the weights as that.
std::string stating(core::DType dtype, const std::string& config_json) {
  const char* const name = dtype == core::DType::kBF16  ? "bfloat16"
                           : dtype == core::DType::kF16 ? "float16"
                                                        : "float32";
  const auto given = nlohmann::ordered_json::parse(config_json);
  auto stated = given;
  if (!given.contains("torch_dtype")) stated["dtype"] = nullptr;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (stated.contains(key)) stated[key] = name;
    const bool inner = stated.contains("text_config") && stated["text_config"].contains(key);
    if (inner) stated["text_config"][key] = name;
  }
  stated.erase(kAutoMap);
  return stated == given ? config_json : stated.dump(2) + "\n";
}

std::string without_auto_map(const std::string& name, const std::string& text) {
  const bool named = name == "tokenizer_config.json" && text.find(kAutoMap) != std::string::npos &&
                     core::is_shallow(text) && nlohmann::json::accept(text);
  return named && nlohmann::json::parse(text).contains(kAutoMap)
             ? core::without_member(text, kAutoMap)
             : text;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// A folder, no link to one, with the files of its marker and nothing that somebody added, but maybe
// a folder that is an export, too: the adapters beside a model.
bool is_our_export(const fs::path& folder) {
  bool ours = false;
  comm::attempt([&] {  // what cannot be read is not known to be ours
    if (!fs::is_directory(fs::symlink_status(folder))) return;
    const std::string marker =
        core::read_small_file(folder / kExportMarker, core::kMostConfig).text;
    if (!core::is_shallow(marker)) return;
    auto files = nlohmann::json::parse(marker).at("files").get<std::set<std::string>>();
    files.insert(kExportMarker);
    for (const std::string& name : names_in(folder)) {
      if (!files.contains(name) && is_our_export(folder / name)) files.insert(name);
    }
    ours = files == names_in(folder);
  });
  return ours;
}

// "": it is not there, empty, or an export of ours.
std::string why_not_replaced(const fs::path& folder) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(folder, error);
  if (!fs::exists(there)) return "";
  if (fs::is_symlink(there)) return "it is a link";
  if (!fs::is_directory(there)) return "it is no folder";
  if (fs::is_empty(folder, error) || is_our_export(folder)) return "";
  return "it holds what no export wrote";
}

void check_replaced(const fs::path& folder, const std::string& why) {
  FM_USER_CHECK(why.empty(),
                "a Hugging Face folder must have a free name, or take the place of an older export "
                "as it was written; move what is there, or choose another name (",
                folder.string(), ": ", why, ")");
}

class Exporter {
 public:
  Exporter(const ExportRequest& request, comm::Communicator& world)
      : request_(request),
        world_(world),
        target_(fs::absolute(request.folder).lexically_normal()),
        files_(split_files(request, world)) {
    if (target_.filename().empty()) target_ = target_.parent_path();  // "out/" means "out"
    for (const FileSpec& file : files_) {
      plans_.push_back(plan_floats(file.tensors, request.dtype));
      for (const TensorSpec& tensor : file.tensors) file_of_[tensor.name] = file.file;
    }
    for (const core::TensorSlice& slice : request.mine) {
      const auto at = file_of_.find(slice.name);
      FM_CHECK(at != file_of_.end(), "tensor ", slice.name, " is not to be exported");
      mine_.push_back({at->second, slice});
    }
  }

  void run() {
    check_complete();
    const std::string why = world_.rank() == 0 ? why_not_replaced(target_) : "";
    check_replaced(target_, comm::text_of_rank0(world_, why));
    end_if_stopped();  // from this question on who asks removes the folder
    all_must([this] {
      if (world_.rank() == 0) create_folder();
    });
    temporary_ = comm::text_of_rank0(world_, temporary_.string());
    end_if_stopped();
    all_must([this] { write_slices(); });
    end_if_stopped();
    all_must([this] {
      if (world_.rank() == 0) publish();
    });
  }

 private:
  // All ranks' slices together have as many elements as the tensors.
  void check_complete() {
    core::Elements planned;
    core::Elements held;
    for (const TensorSpec& tensor : request_.tensors) {
      planned += core::Elements(bytes_of(tensor, request_.dtype) / core::size_of(request_.dtype));
    }
    for (const core::TensorSlice& slice : request_.mine) held += slice.count();
    core::Elements all;
    for (const std::int64_t count : comm::gather_numbers(world_, held.count())) {
      all += core::Elements(count);
    }
    FM_CHECK(all == planned, "slices of all ranks must cover every tensor once: ", all.count(),
             " of ", planned.count(), " elements");
  }

  template <class Body>
  void all_must(const Body& body) {
    request_.fence.check();
    const std::string mine = comm::attempt(body);
    if (!mine.empty()) request_.fence.check();  // its error is not the storage's
    const std::string problem = comm::first_problem(world_, mine);
    if (problem.empty()) return;
    draft_.reset();
    world_.barrier().finish();  // who throws first ends the others, maybe before they cleaned up
    throw core::MachineError(
        core::ExitCode::kStorageFailed,
        core::concat(
            "the Hugging Face folder must be written; correct the cause and export again (",
            target_.string(), ": ", problem, ")"));
  }

  bool stopped() const { return request_.stop && request_.stop(); }
  void end_if_stopped() {
    if (!stopped()) return;
    draft_.reset();
    throw core::MachineError(
        core::ExitCode::kPreempted,
        "stopped by a signal: nothing is left of the new folder (" + target_.string() + ")");
  }

  void create_folder() {
    const std::string name = target_.filename().string();
    core::sweep_drafts(target_.parent_path(), name);
    temporary_ = draft_.emplace(target_.parent_path(), name).path();
    for (std::size_t f = 0; f < files_.size(); ++f) {
      core::WritableFile file =
          core::WritableFile::create(temporary_ / files_[f].file, plans_[f].file_bytes);
      file.write_at(core::Bytes(0), std::as_bytes(std::span(plans_[f].head)));
      file.sync_and_close();
    }
    const SafetensorsPlan carried = write_carried();
    if (files_.size() > 1 || !request_.carried.empty()) {
      core::write_new_file(temporary_ / kWeightsIndex, index_json(files_, request_.dtype, carried));
    }
    if (request_.kind == ExportRequest::Content::kAdapter) {
      core::write_new_file(temporary_ / "adapter_config.json", request_.config_json);
    } else {
      core::write_new_file(temporary_ / "config.json",
                           stating(request_.dtype, request_.config_json));
    }
    write_tokenizer();
    std::set<std::string> names = names_in(temporary_);
    names.erase(core::kDraftLock);
    const nlohmann::json marker = {{"files", names}};
    core::write_new_file(temporary_ / kExportMarker, marker.dump() + "\n");
  }

  // Returns the plan of the file, which is empty where nothing is carried.
  SafetensorsPlan write_carried() const {
    if (request_.carried.empty()) return {};
    const HfFolder source(request_.carried_from);
    std::map<std::string, HfFolder::RawTensor> tensors;
    std::vector<TensorToStore> planned;
    for (const ExportRequest::Carried& each : request_.carried) {
      HfFolder::RawTensor tensor = source.raw(each.stored);
      planned.push_back({each.name, tensor.dtype, tensor.shape});
      tensors.emplace(each.name, std::move(tensor));
    }
    SafetensorsPlan plan = plan_safetensors(planned, {{"format", "pt"}});
    core::WritableFile file =
        core::WritableFile::create(temporary_ / kCarriedFile, plan.file_bytes);
    file.write_at(core::Bytes(0), std::as_bytes(std::span(plan.head)));
    for (const StoredTensor& place : plan.tensors) {
      file.write_at(place.begin, tensors.at(place.name).bytes);
    }
    file.sync_and_close();
    return plan;
  }

  void write_tokenizer() const {
    if (!request_.byte_tokenizer || !request_.tokenizer_from.empty()) write_model_files();
    if (request_.tokenizer_from.empty()) {
      if (!request_.byte_tokenizer) return;
      core::write_new_file(temporary_ / "tokenizer.json", byte_tokenizer_json());
      core::write_new_file(temporary_ / "tokenizer_config.json", byte_tokenizer_config_json());
      core::write_new_file(temporary_ / "generation_config.json", byte_generation_config_json());
      return;
    }
    for (const char* name : kTokenizerFiles) copy_of_tokenizer(name);
    // transformers reads this file first, whatever tokenizer_config.json says.
    const fs::path& given = request_.chat_template;
    copy(given.empty() ? request_.tokenizer_from / kTemplateFile : given, kTemplateFile);
    if (given.empty()) copy_more_templates();
  }

  // A tokenizer of another folder knows what ends an answer; how images are read the model knows.
  void write_model_files() const {
    const bool model = request_.kind != ExportRequest::Content::kAdapter;
    for (const std::string name : kModelFiles) {
      const bool own =
          model && !request_.shards_like.empty() && fs::exists(request_.shards_like / name);
      const bool named =
          request_.tokenizer_texts.contains(name) ||
          (!request_.tokenizer_from.empty() && fs::exists(request_.tokenizer_from / name));
      if (named && !(own && name != "generation_config.json")) {
        copy_of_tokenizer(name);
      } else if (own) {
        copy(request_.shards_like / name, name);
      }
    }
  }

  void copy_of_tokenizer(const std::string& name) const {
    const auto text = request_.tokenizer_texts.find(name);
    if (text == request_.tokenizer_texts.end()) {
      copy(request_.tokenizer_from / name, name);
    } else {
      core::write_new_file(temporary_ / name, without_auto_map(name, text->second));
    }
  }

  // Those of other names than default, a file each.
  void copy_more_templates() const {
    const fs::path source = request_.tokenizer_from / kMoreTemplates;
    if (!fs::is_directory(source)) return;
    core::make_folders(temporary_ / kMoreTemplates);
    for (const fs::directory_entry& entry : fs::directory_iterator(source)) {
      if (entry.path().extension() != ".jinja") continue;
      copy(entry.path(), (fs::path(kMoreTemplates) / entry.path().filename()).string());
    }
    core::sync_folder(temporary_ / kMoreTemplates);
  }

  void copy(const fs::path& source, const std::string& name) const {
    if (!fs::exists(source)) return;
    const core::SmallFile file = core::read_small_file(source, core::kMostListing);
    FM_DATA_CHECK(file.problem.empty(), source.string(),
                  ": a readable file is required; get the file again (", file.problem, ")");
    core::write_new_file(temporary_ / name, without_auto_map(name, file.text));
  }

  void write_slices() const {
    std::map<std::size_t, core::WritableFile> open;
    for (const SlicePlace& place : place_slices(files_, plans_, mine_)) {
      core::fault({"export.tensor", world_.rank()});
      if (stopped()) return;
      auto at = open.find(place.file);
      if (at == open.end()) {
        request_.fence.check();
        at =
            open.emplace(place.file, core::WritableFile::open(temporary_ / files_[place.file].file))
                .first;
      }
      const core::FetchedRow row(*place.slice, place.row, core::FetchedRow::Use::kRead);
      write_row(at->second, place, row.floats());
    }
    for (auto& [index, file] : open) file.sync_and_close();
  }

  void write_row(core::WritableFile& file, const SlicePlace& place,
                 std::span<const float> row) const {
    if (request_.dtype == core::DType::kF32) {
      file.write_at(place.begin, std::as_bytes(row));
      return;
    }
    std::vector<std::uint16_t> narrow(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool bf16 = request_.dtype == core::DType::kBF16;
      FM_MACHINE_CHECK(bf16 || std::abs(row[i]) < core::kF16Overflow,
                       core::ExitCode::kStorageFailed,
                       "weights must fit into fp16; export them as bf16 (", place.slice->name,
                       " holds ", row[i], ")");
      narrow[i] = bf16 ? core::to_bf16(row[i]).bits : core::to_f16(row[i]).bits;
    }
    file.write_at(place.begin, std::as_bytes(std::span<const std::uint16_t>(narrow)));
  }

  void publish() {
    draft_->close();
    check_replaced(target_, why_not_replaced(target_));  // somebody may have come meanwhile
    request_.fence.check();
    core::publish_folder(temporary_, target_);
    draft_.reset();  // with the older export, which has its name now
  }

  const ExportRequest& request_;
  comm::Communicator& world_;
  fs::path target_;
  std::optional<core::DraftFolder> draft_;  // rank 0
  fs::path temporary_;                      // its path, on every rank
  std::vector<FileSpec> files_;
  std::vector<SafetensorsPlan> plans_;
  std::map<std::string, std::string> file_of_;
  std::vector<FileSlice> mine_;
};

}  // namespace

void check_export_folder(const fs::path& folder) {
  check_replaced(folder, why_not_replaced(folder));
}

void export_hf_folder(const ExportRequest& request, comm::Communicator& world) {
  Exporter(request, world).run();
}

}  // namespace fm::checkpoint
