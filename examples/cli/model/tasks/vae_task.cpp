#include <cmath>

#include <fmt/core.h>

#include "cli/base/run_flags.h"
#include "cli/model/picture.h"
#include "cli/model/saved_run.h"
#include "cli/model/task.h"
#include "models/generative.h"

namespace keel_cli {
namespace {

constexpr int64_t kSide = 28;

// A variational autoencoder of grey images.
class VaeTask final : public TrainTask {
 public:
  explicit VaeTask(keel::LabelledSplits data) : data_(std::move(data)) {}

  std::string origin() const override { return data_.origin; }
  std::string items() const override { return "images"; }
  keel::Dataset training_items() const override { return images_of(data_.train); }
  keel::Dataset test_items() const override { return images_of(data_.test); }
  keel::Shape image_shape() const override { return {kSide, kSide, 1}; }
  std::string data_sha256() const override { return keel_cli::data_sha256(data_.train); }
  std::string test_sha256() const override { return keel_cli::data_sha256(data_.test); }

  TrainedModel build(keel::Graph& graph) const override {
    const keel_examples::Vae vae = keel_examples::build_vae(graph);
    return {.loss = vae.loss,
            .measured = {.inputs = {vae.image}, .output = vae.losses, .label = {}},
            .made = vae.samples};
  }
  void add_metadata(std::map<std::string, std::string>&) const override {}

  std::string describe(const Scores& scores, int64_t) const override {
    return fmt::format("bound {:.2f} nats an image", -scores.loss);
  }
  std::string result(const std::optional<Scores>& test) const override {
    if (!test) return "test bound not measured";
    return fmt::format("test {}, over {} images", describe(*test, 0), data_.test.count());
  }
  // The first few samples beside each other.
  std::string picture(const keel::Tensor& made) const override {
    constexpr int64_t kShown = 4;
    constexpr int64_t kColumns = kShown * kSide;
    Picture picture{.height = kSide, .width = kColumns, .channels = 1, .pixels = {}};
    for (int64_t row = 0; row < kSide; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        const int64_t image = column / kSide;
        const double shade = made.at((image * kSide + row) * kSide + column % kSide);
        picture.pixels.push_back(
            std::isfinite(shade) ? static_cast<uint8_t>(std::lround(shade * 255)) : uint8_t{0});
      }
    }
    return drawn(picture, kColumns);
  }

 private:
  static keel::Dataset images_of(const keel::LabelledImages& set) {
    return keel::Dataset::from_images(set).select({"image"});
  }

  keel::LabelledSplits data_;
};

}  // namespace

std::unique_ptr<TrainTask> make_vae_task(const std::string& data) {
  keel::LabelledSplits splits = load_data(data);
  const keel::LabelledImages& set = splits.train;
  if (set.height != kSide || set.width != kSide || set.channels != 1) {
    throw keel::Error(
        {.op = "--data",
         .argument = data,
         .expected = "grey images of 28x28 for vae",
         .got = fmt::format("images of {}x{}x{}", set.height, set.width, set.channels)});
  }
  return std::make_unique<VaeTask>(std::move(splits));
}

}  // namespace keel_cli
