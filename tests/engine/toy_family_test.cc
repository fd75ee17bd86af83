// A family of models needs no change of the product: everything a run does works with any Model.
#include "toy_family.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors_file.h"
#include "trainer_case.h"

namespace fm::engine {
namespace {

class ToyFamily : public TrainerCase {
 protected:
  // Rows that count upwards: what follows a token can be learnt.
  TrainOptions toy_options(const std::string& output, int zero_stage, int pipe) const {
    std::vector<std::int32_t> ids(17 * 40);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(model::kToyVocab));
    }
    TrainOptions out = options(output, 30);
    std::ofstream(out.data_path[0], std::ios::binary)
        .write(reinterpret_cast<const char*>(ids.data()),
               static_cast<std::streamsize>(ids.size() * sizeof(ids[0])));
    out.model_config.clear();
    out.zero_stage = zero_stage;
    out.pipe_parallel_size = pipe;
    out.save_steps = 10;
    out.gradient_clipping = 1.0;
    return out;
  }

  static void train_toy(const TrainOptions& options, int ranks) {
    const model::OpenedModel toy = model::open_toy();
    comm::run_ranks(ranks, [&](comm::Communicator& world) { train(options, toy, world, {}); });
  }

  static std::vector<float> exported(const TrainOptions& options, const std::string& name,
                                     std::vector<std::int64_t> shape) {
    std::vector<float> out(static_cast<std::size_t>(shape[0] * shape[1]));
    const auto file = std::filesystem::path(options.output_dir) / "hf/model.safetensors";
    const auto count = static_cast<std::int64_t>(out.size());
    checkpoint::TensorFile(file.string())
        .read(core::slice_in_memory(name, std::move(shape), core::Elements(0), out.data(),
                                    core::Elements(count)));
    return out;
  }
};

TEST_F(ToyFamily, TrainsSavesResumesAndExports) {
  const TrainOptions whole = toy_options("whole", 0, 1);
  train_toy(whole, 1);
  const auto expected = metrics(whole);
  EXPECT_NEAR(expected.at(1).loss, std::log(model::kToyVocab), 0.3);
  EXPECT_LT(expected.at(30).loss, 0.7 * expected.at(1).loss);

  TrainOptions parts = toy_options("parts", 3, 2);
  parts.train_steps = 20;
  train_toy(parts, 4);
  parts.train_steps = 30;
  train_toy(parts, 4);
  const auto found = metrics(parts);
  for (int step = 1; step <= 30; ++step) {
    EXPECT_EQ(found.at(step).loss, expected.at(step).loss) << step;
    EXPECT_EQ(found.at(step).grad_norm, expected.at(step).grad_norm) << step;
  }
  for (const char* name : {"toy.embed", "toy.head"}) {
    const std::vector<std::int64_t> shape{model::kToyVocab, model::kToyHidden};
    EXPECT_EQ(exported(parts, name, shape), exported(whole, name, shape));
  }
  for (const char* name : {"toy.0", "toy.1"}) {
    const std::vector<std::int64_t> shape{model::kToyHidden, model::kToyHidden};
    EXPECT_EQ(exported(parts, name, shape), exported(whole, name, shape));
  }
  std::ifstream config(std::filesystem::path(parts.output_dir) / "hf/config.json");
  EXPECT_EQ(nlohmann::json::parse(config).at("model_type"), "toy");
}

}  // namespace
}  // namespace fm::engine
