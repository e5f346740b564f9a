// ChosenModel: the classifier that --model names: one of examples/models, or a file, an ONNX model,
// a frozen TensorFlow graph or what `keel import` made of one. A file's graph is called where the
// model is built, with its weights beside it. Plain value; any thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_CHOSEN_MODEL_H
#define KEEL_EXAMPLES_CLI_MODEL_CHOSEN_MODEL_H

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/base/output_files.h"
#include "models/classifier.h"

namespace keel_cli {

struct ChosenModel {
  keel_examples::Model model;  // of a file: named by its absolute path
  // Builds a training graph with its own update; empty where there is none.
  std::function<keel_examples::Classifier(keel::Graph&, const keel_examples::ImageFormat&)>
      with_own_update;
  std::optional<keel::Error> no_loss = {};  // why nothing can be trained, where that is so
  // A file's weights by the names of its states, and SHA-256 of its bytes; else empty.
  std::map<std::string, keel::Tensor> weights;
  std::string model_sha256;
  std::optional<int64_t> batch;  // how many images at a time, where the file fixes it
  // The images that it takes where no data say so: nothing where the file leaves their size open.
  std::optional<keel_examples::ImageFormat> usual = keel_examples::ImageFormat{};
  // Returns the format that it is built for when images of another come: with its own classes.
  // Throws keel::Error where it cannot take them. Empty: it takes all.
  std::function<keel_examples::ImageFormat(const keel_examples::ImageFormat&)> fit;

  keel_examples::ImageFormat fitted(const keel_examples::ImageFormat& format) const {
    return fit ? fit(format) : format;
  }
  // The usual format, fitted. Throws keel::Error naming `purpose` where there is none.
  keel_examples::ImageFormat known_format(const std::string& purpose) const;
};

// "softmax|mlp|...|FILE.onnx|FILE.pb|FILE.keel".
std::string model_choices();
// Throws keel::Error where `path`, a saved file, was trained with a model's file of other bytes, or
// with none.
void require_same_model_file(const ChosenModel& model, const std::optional<std::string>& sha256,
                             const std::string& path);
// Throws keel::Error where --batch is given and the model takes another number at a time.
void require_batch(const ChosenModel& model, int64_t batch);
// Says whether a value of --model names a file, by its ending.
bool is_model_file(const std::string& name);
// Throws keel::Error, which names the files that --model takes as well, where no model has the
// name.
const keel_examples::Model& built_in_model(const std::string& name);
// The files that are read for this value of --model; none for a built-in model.
std::vector<NamedFile> model_files(const std::string& name);
// Throws keel::Error for a name that is none, and for a file that cannot be read or is no
// classifier of images: it needs one input with the images and an output [batch, classes]; a
// training graph has labels and a loss beside these.
std::shared_ptr<const ChosenModel> choose_model(const std::string& name);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_CHOSEN_MODEL_H
