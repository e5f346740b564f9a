// ImageModel: a model out of a file as a classifier of images: which of its inputs takes the images
// and how they lie in it, and which of its outputs tells the classes apart. Immutable; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_IMAGE_MODEL_H
#define KEEL_EXAMPLES_CLI_MODEL_IMAGE_MODEL_H

#include <cstdint>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/onnx/model_file.h"
#include "models/classifier.h"

namespace keel_cli {

class ImageModel {
 public:
  // Throws keel::Error naming `path` where there is not one input, or no output [batch, classes] of
  // floats; dimensions of 1 may stand behind the classes.
  ImageModel(std::string path, ModelFile file);

  std::optional<int64_t> batch() const;
  std::optional<keel_examples::ImageFormat> usual() const;
  // The format with the model's classes. Throws keel::Error where the images do not fit its input
  // or have more classes.
  keel_examples::ImageFormat fit(const keel_examples::ImageFormat& format) const;
  // Bytes go in as 0 .. 1 where the model takes floats; the logits are those in front of a softmax,
  // where the model ends in one. Training and evaluation run the same graph. REQUIRES fit(format).
  keel_examples::Classifier build(keel::Graph& graph,
                                  const keel_examples::ImageFormat& format) const;

 private:
  enum class Layout { kNumbers, kRows, kChannelsFirst, kChannelsLast };
  std::optional<Layout> layout_of(const keel_examples::ImageFormat& format) const;
  keel::Value as_input(const keel::Value& image, const keel_examples::ImageFormat& format) const;
  const keel::Type& input_type() const { return input_.type(); }

  std::string path_;
  ModelFile file_;
  keel::Value input_;
  keel::Value scores_;  // [batch, classes], perhaps with dimensions of 1 behind
  int64_t classes_ = 0;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_IMAGE_MODEL_H
