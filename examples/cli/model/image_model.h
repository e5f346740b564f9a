// ImageModel: a model out of a file as a classifier of images: how images and labels lie in its
// inputs, and what it is trained by. Immutable; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_IMAGE_MODEL_H
#define KEEL_EXAMPLES_CLI_MODEL_IMAGE_MODEL_H

#include <cstdint>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/model/model_parts.h"
#include "cli/onnx/model_file.h"
#include "models/classifier.h"

namespace keel_cli {

// Far beyond any image, and far from where products of three of them overflow.
inline constexpr int64_t kMostOfADimension = int64_t{1} << 20;

class ImageModel {
 public:
  // Throws what model_parts() throws.
  ImageModel(std::string path, ModelFile file);

  std::optional<int64_t> batch() const;
  std::optional<keel_examples::ImageFormat> usual() const;
  // The format with the model's classes. Throws keel::Error where the images do not fit its input
  // or have more classes.
  keel_examples::ImageFormat fit(const keel_examples::ImageFormat& format) const;
  // Bytes go in as 0 .. 1 where the model takes floats; the logits are those in front of a softmax,
  // where the model ends in one. Training and evaluation run the same graph. The loss is that of a
  // training graph, else the cross entropy. Statistics that the scores read and the loss does not
  // train are attached to it. REQUIRES fit(format).
  keel_examples::Classifier build(keel::Graph& graph,
                                  const keel_examples::ImageFormat& format) const;
  // Says whether the graph has an update of its own.
  bool has_update() const { return !parts_.update.empty(); }
  // Says that no optimizer can train it, as its outputs of one float are no losses.
  const std::optional<keel::Error>& no_loss() const { return parts_.no_loss; }
  // The same as build, with that update. Throws keel::Error where it cannot be what trains it.
  keel_examples::Classifier build_with_update(keel::Graph& graph,
                                              const keel_examples::ImageFormat& format) const;

 private:
  enum class Layout { kNumbers, kRows, kChannelsFirst, kChannelsLast };
  std::optional<Layout> layout_of(const keel_examples::ImageFormat& format) const;
  keel::Value as_input(const keel::Value& image, const keel_examples::ImageFormat& format) const;
  keel::Value as_labels(const keel::Value& label) const;
  keel_examples::Classifier build(keel::Graph& graph, const keel_examples::ImageFormat& format,
                                  const keel::Update& update, bool attached) const;
  // Next values of states that no optimizer trains: those that the scores or the loss read, and
  // those that have no part in the steps of the graph's own optimizer.
  keel::Update statistics() const;
  const keel::Type& input_type() const { return parts_.image.type(); }

  std::string path_;
  ModelFile file_;
  ModelParts parts_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_IMAGE_MODEL_H
