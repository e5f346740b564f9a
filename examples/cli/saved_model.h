// SavedModel: a file of saved states as `keel eval`, `keel predict` and `keel train --init` see it:
// the weights of a model, and what it says of itself. Files of other programs say nothing. Plain
// value.
#ifndef KEEL_EXAMPLES_CLI_SAVED_MODEL_H
#define KEEL_EXAMPLES_CLI_SAVED_MODEL_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "models/classifier.h"

namespace keel_cli {

class SavedModel {
 public:
  // `flag` is the one that names the file, for errors. Throws keel::Error for a file that is
  // missing or damaged.
  SavedModel(std::string flag, std::string path);

  const std::string& path() const noexcept { return path_; }
  const std::map<std::string, keel::Tensor>& tensors() const noexcept { return file_.tensors; }
  std::optional<std::string> find(const std::string& name) const;

  // The model of --model, or the file's own. Throws keel::Error where the two contradict each
  // other, where there is none, and where it is no classifier.
  const keel_examples::Model& model(const std::optional<std::string>& given) const;
  // The format of the images that it was trained on, where the file tells.
  std::optional<keel_examples::ImageFormat> format() const;
  // `given`, or the file's. Throws keel::Error where they differ.
  keel_examples::ImageFormat require_format(const keel_examples::ImageFormat& given,
                                            const std::string& data) const;

  // The file's values for all these states. Throws keel::Error that lists what is missing or of
  // another shape or dtype; then nothing has changed.
  void load_all(keel::Session& session, const keel::Values& states) const;
  // Those that match; throws keel::Error where none does.
  keel::WeightsMatch load_matching(keel::Session& session, const keel::Values& states) const;
  // Throws keel::Error naming the first state that holds NaN or an infinity.
  void require_finite(const std::string& fix) const;

  // What format() reads.
  static void add_format(const keel_examples::ImageFormat& format,
                         std::map<std::string, std::string>& metadata);

 private:
  void require_labelled(const std::string& model) const;

  std::string flag_;
  std::string path_;
  keel::Safetensors file_;
};

// "28x28x1 u8, 10 classes".
std::string describe(const keel_examples::ImageFormat& format);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_SAVED_MODEL_H
