#include "device/cuda/cudnn.h"

#include <cudnn_frontend.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/crc32c.h"
#include "core/files/files.h"
#include "core/files/output_file.h"
#include "device/cuda/cudnn_faults.h"
#include "device/cuda/late_library.h"

void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace fm::device::cuda {
namespace {

namespace fe = cudnn_frontend;

using Graph = fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Numbers of a graph's arrays.
enum Array : std::int64_t { kQ = 1, kK, kV, kOut, kSums, kDout, kDq, kDk, kDv };

// Of a piece's: rows of any number of queries lie one behind the other.
constexpr std::int64_t kSumsAlignment = sizeof(float);

constexpr core::Bytes kMostPlan = core::Bytes(std::int64_t{64} << 20);

std::string text_of(const AttentionPiece& piece) {
  return core::concat(piece.backward ? "backward " : "forward ", core::name_of(piece.element),
                      piece.repeatable ? " repeatable" : " fast", " rows ", piece.rows, " tokens ",
                      piece.tokens, " heads ", piece.heads, '/', piece.kv_heads, " of ",
                      piece.all_heads, '/', piece.all_kv_heads, " of ", piece.head_dim, " window ",
                      piece.window, " scale ", piece.scale);
}

// Describes a piece to the library.
class Description {
 public:
  Description(Graph& graph, const AttentionPiece& piece) : graph_(graph), piece_(piece) {
    const bool bf16 = piece.element == core::DType::kBF16;
    graph_.set_io_data_type(bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void forward() {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    seen_keys(options);
    auto [out, sums] = graph_.sdpa(heads(kQ), keys(kK), keys(kV), options);
    written(out, kOut, piece_.heads, piece_.all_heads);
    sums->set_output(true).set_uid(kSums).set_data_type(fe::DataType_t::FLOAT);
    sums->set_dim(sums_dim()).set_stride(sums_stride()).set_alignment(kSumsAlignment);
  }

  void backward() {
    auto options = fe::graph::SDPA_backward_attributes().set_name("attention_backward");
    options.set_deterministic_algorithm(piece_.repeatable);
    seen_keys(options);
    const Tensor sums = graph_.tensor(fe::graph::Tensor_attributes()
                                          .set_uid(kSums)
                                          .set_alignment(kSumsAlignment)
                                          .set_dim(sums_dim())
                                          .set_stride(sums_stride())
                                          .set_data_type(fe::DataType_t::FLOAT));
    auto [dq, dk, dv] = graph_.sdpa_backward(heads(kQ), keys(kK), keys(kV), heads(kOut),
                                             heads(kDout), sums, options);
    written(dq, kDq, piece_.heads, piece_.all_heads);
    written(dk, kDk, piece_.kv_heads, piece_.all_kv_heads);
    written(dv, kDv, piece_.kv_heads, piece_.all_kv_heads);
  }

 private:
  using Sizes = std::vector<std::int64_t>;

  // Never a mask of numbers: 9.x gave NaN with one, but bands.
  template <class Options>
  void seen_keys(Options& options) const {
    options.set_attn_scale(piece_.scale);
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    options.set_diagonal_band_right_bound(0);
    if (piece_.window > 0) options.set_diagonal_band_left_bound(static_cast<int>(piece_.window));
  }

  Sizes dim(std::int64_t heads) const {
    return {piece_.rows, heads, piece_.tokens, piece_.head_dim};
  }
  Sizes stride(std::int64_t all_heads) const {
    const std::int64_t token = all_heads * piece_.head_dim;
    return {piece_.tokens * token, piece_.head_dim, token, 1};
  }
  Sizes sums_dim() const { return {piece_.rows, piece_.heads, piece_.tokens, 1}; }
  Sizes sums_stride() const { return {piece_.heads * piece_.tokens, piece_.tokens, 1, 1}; }

  Tensor read(Array number, std::int64_t count, std::int64_t all) const {
    return graph_.tensor(
        fe::graph::Tensor_attributes().set_uid(number).set_dim(dim(count)).set_stride(stride(all)));
  }
  Tensor heads(Array number) const { return read(number, piece_.heads, piece_.all_heads); }
  Tensor keys(Array number) const { return read(number, piece_.kv_heads, piece_.all_kv_heads); }
  void written(const Tensor& tensor, Array number, std::int64_t count, std::int64_t all) const {
    tensor->set_output(true).set_uid(number).set_dim(dim(count)).set_stride(stride(all));
  }

  Graph& graph_;
  const AttentionPiece& piece_;
};

// A step of the front end; `said`: of the first that failed.
bool good(fe::error_t answer, std::string& said) {
  if (answer.is_good()) return true;
  said = answer.get_message();
  return false;
}

class Cudnn : public AttentionLibrary {
 public:
  explicit Cudnn(CudnnCard card) : card_(std::move(card)) {}
  ~Cudnn() override {
    plans_.clear();
    try {
      if (handle_ != nullptr) fe::detail::destroy_handle(handle_);
    } catch (const std::exception&) {  // the process ends soon, and the handle with it
    }
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  // "": it can be used.
  std::string open() {
    std::string said = fault_of(fe::detail::get_backend_version(), {});
    if (!said.empty()) return said;
    properties_ = std::make_shared<fe::DeviceProperties>();
    if (!card_.description.empty()) {
      const std::vector<std::uint8_t> text(card_.description.begin(), card_.description.end());
      return good(properties_->deserialize(text), said) ? "" : said;
    }
    if (!good(properties_->set_device_id(card_.number).build(), said)) return said;
    const auto answer = fe::detail::create_handle(&handle_);
    return answer == CUDNN_STATUS_SUCCESS ? "" : fe::detail::get_error_string(answer);
  }

  std::string name() const override {
    const std::size_t version = fe::detail::get_backend_version();
    return core::concat("cuDNN ", version / 10000, '.', version / 100 % 100, '.', version % 100);
  }
  std::string reason() const override { return reason_; }

  std::optional<core::Bytes> prepare(const AttentionPiece& piece) override {
    try {
      return workspace_of(piece);
    } catch (const std::exception& error) {  // the front end's, and those of its JSON library
      reason_ = error.what();
      return std::nullopt;
    }
  }

  void run(void* stream, const AttentionPiece& piece, const PieceArrays& arrays,
           void* workspace) override {
    const auto set = fe::detail::set_stream(handle_, static_cast<cudaStream_t>(stream));
    FM_MACHINE_CHECK(set == CUDNN_STATUS_SUCCESS, core::ExitCode::kDeviceFailed,
                     "cuDNN must take the queue of the GPU; report it (",
                     fe::detail::get_error_string(set), ", ", name(), ")");
    std::unordered_map<std::int64_t, void*> at = {{kQ, const_cast<void*>(arrays.q)},
                                                  {kK, const_cast<void*>(arrays.k)},
                                                  {kV, const_cast<void*>(arrays.v)},
                                                  {kOut, arrays.out},
                                                  {kSums, arrays.sums}};
    if (piece.backward) {
      at[kDout] = const_cast<void*>(arrays.dout);
      at[kDq] = arrays.dq;
      at[kDk] = arrays.dk;
      at[kDv] = arrays.dv;
    }
    std::string said;
    FM_MACHINE_CHECK(good(plans_.at(piece)->execute(handle_, at, workspace), said),
                     core::ExitCode::kDeviceFailed,
                     "cuDNN must be able to compute attention; report it, and go on with "
                     "FME_ATTENTION=own (",
                     said, "; ", text_of(piece), "; ", name(), ")");
  }

 private:
  std::optional<core::Bytes> workspace_of(const AttentionPiece& piece) {
    reason_ = fault_of(fe::detail::get_backend_version(), piece);
    if (!reason_.empty()) return std::nullopt;
    auto found = plans_.find(piece);
    if (found == plans_.end()) {
      std::shared_ptr<Graph> plan = kept(piece);
      if (plan == nullptr) plan = made(piece);
      if (plan == nullptr) return std::nullopt;
      found = plans_.emplace(piece, std::move(plan)).first;
    }
    std::int64_t bytes = 0;
    if (!good(found->second->get_workspace_size(bytes), reason_)) return std::nullopt;
    return core::Bytes(bytes);
  }

  std::shared_ptr<Graph> empty_graph() const {
    auto graph = std::make_shared<Graph>();
    graph->set_device_properties(properties_).set_sm_version(card_.architecture);
    return graph;
  }

  // Compiles without the device, and reads the result, as a plan that is kept is read: cuDNN
  // executes no other of those that know a device by its properties alone.
  std::shared_ptr<Graph> made(const AttentionPiece& piece) {
    std::shared_ptr<Graph> graph = empty_graph();
    Description description(*graph, piece);
    if (piece.backward) {
      description.backward();
    } else {
      description.forward();
    }
    const bool done = good(graph->validate(), reason_) &&
                      good(graph->build_operation_graph(), reason_) &&
                      good(graph->create_execution_plans({fe::HeurMode_t::A}), reason_) &&
                      good(graph->check_support(), reason_) &&
                      good(graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE), reason_);
    std::vector<std::uint8_t> plan;
    if (!done || !good(graph->serialize(plan, false), reason_)) return nullptr;
    keep(piece, plan);
    return read(plan, reason_);
  }

  std::shared_ptr<Graph> read(const std::vector<std::uint8_t>& plan, std::string& said) const {
    std::shared_ptr<Graph> graph = empty_graph();
    try {
      if (good(graph->deserialize(plan), said)) return graph;
    } catch (const std::exception& error) {
      said = error.what();
    }
    return nullptr;
  }

  // What a file of a plan begins with.
  std::string head_of(const AttentionPiece& piece) const {
    return core::concat(name(), ", front end ", CUDNN_FRONTEND_VERSION, ", ", card_.name, ", ",
                        card_.architecture, ", ", text_of(piece), "\n");
  }
  std::filesystem::path path_of(const std::string& head) const {
    char sum[16];
    std::snprintf(sum, sizeof sum, "%08x", core::crc32c(head));
    return card_.folder / core::concat("attention-", sum, ".plan");
  }

  void keep(const AttentionPiece& piece, const std::vector<std::uint8_t>& plan) {
    if (card_.folder.empty()) return;
    const std::string head = head_of(piece);
    const std::string body(plan.begin(), plan.end());
    const std::string sum = core::concat(core::crc32c(body), "\n");
    std::error_code problem;
    std::filesystem::create_directories(card_.folder, problem);
    const std::string said = core::write_output_file(path_of(head), head + sum + body);
    if (!said.empty()) warn(said);
  }

  // Null: there is none, or it is of something else.
  std::shared_ptr<Graph> kept(const AttentionPiece& piece) {
    if (card_.folder.empty()) return nullptr;
    const std::string head = head_of(piece);
    const std::filesystem::path path = path_of(head);
    std::error_code absent;
    if (!std::filesystem::exists(path, absent)) return nullptr;
    const core::SmallFile file = core::read_small_file(path, kMostPlan);
    const std::size_t end = file.text.find('\n', head.size());
    const bool ours = file.problem.empty() && file.text.starts_with(head) && end != file.text.npos;
    const std::string body = ours ? file.text.substr(end + 1) : "";
    if (!ours ||
        file.text.substr(head.size(), end - head.size()) != std::to_string(core::crc32c(body))) {
      warn(core::concat(path.string(), " is not what was kept; it is made again"));
      return nullptr;
    }
    std::string said;
    if (std::shared_ptr<Graph> graph = read({body.begin(), body.end()}, said)) return graph;
    warn(core::concat(path.string(), ": ", said, "; it is made again"));
    return nullptr;
  }

  void warn(const std::string& problem) {
    if (std::exchange(has_warned_, true)) return;
    card_.warn("plans of attention are kept to start faster: " + problem);
  }

  CudnnCard card_;
  std::shared_ptr<fe::DeviceProperties> properties_;
  cudnnHandle_t handle_ = nullptr;
  std::map<AttentionPiece, std::shared_ptr<Graph>> plans_;
  std::string reason_;
  bool has_warned_ = false;
};

}  // namespace

OpenedCudnn open_cudnn(const CudnnCard& card) {
  try {
    static const LateLibrary kCudnn(name_of(Library::kCudnn));
    // The front end opens it by name, and would take one of CUDA 12 first.
    static const LateLibrary kRuntime(name_of(Library::kRuntime));
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", kRuntime.path().c_str(), 0);
    // cuDNN compiles by it, and finds this one.
    static const LateLibrary kNvrtc(name_of(Library::kNvrtc));
    open_builtins_of(kNvrtc);
    fe::cudnn_dlhandle = kCudnn.handle();
    auto library = std::make_unique<Cudnn>(card);
    std::string problem = library->open();
    if (!problem.empty()) return {nullptr, library->name() + ": " + problem};
    return {std::move(library), ""};
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace fm::device::cuda
