// SavedModel: a file of saved states as `keel eval`, `keel predict` and `keel train --init` see it:
// the weights of a model, and what it says of itself. Whoever loads weights for use loads them
// here. Files of other programs say nothing of themselves. Plain value.
#ifndef KEEL_EXAMPLES_CLI_MODEL_SAVED_MODEL_H
#define KEEL_EXAMPLES_CLI_MODEL_SAVED_MODEL_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/model/chosen_model.h"

namespace keel_cli {

inline constexpr const char* kAverage = "/average";  // behind a state's name: average_weights()

// Reports which states were loaded from a file. Averages are loaded in place of the weights where
// the file has them, since a training with --average measures itself by its averages.
struct LoadedWeights {
  keel::WeightsMatch match;
  int64_t averaged = 0;  // states among the matched ones that have their average
};

class SavedModel {
 public:
  // `flag` is the one that names the file, for errors. Throws keel::Error for a file that is
  // missing or damaged.
  SavedModel(std::string flag, std::string path);
  // The weights that lie beside a model's own graph: --model FILE without --load.
  explicit SavedModel(std::shared_ptr<const ChosenModel> model);

  const std::string& path() const noexcept { return path_; }
  std::optional<std::string> find(const std::string& name) const;

  // The model of --model, or the file's own; a model's file that was moved is given again. Throws
  // keel::Error where the two contradict each other, where there is none, and where it is no
  // classifier.
  std::shared_ptr<const ChosenModel> model(const std::optional<std::string>& given) const;
  // The format of the images that it was trained on, where the file tells.
  std::optional<keel_examples::ImageFormat> format() const;
  // `given`, or the file's. Throws keel::Error where they differ.
  keel_examples::ImageFormat require_format(const keel_examples::ImageFormat& given,
                                            const std::string& data) const;

  // The file's tensors with averages in the place of the states that have one: none before the
  // first update, and none of a state whose own count says that no step averaged it.
  struct Usable {
    std::map<std::string, keel::Tensor> tensors;
    std::set<std::string> averaged;
  };
  Usable usable(const keel::Values& states) const;
  // Throws keel::Error that lists which of these states are missing or of another shape or dtype:
  // before a session makes memory for states of a size that the file claims.
  void require_states(const keel::Values& states) const;
  // The file's values for all these states. Throws what require_states throws; then nothing has
  // changed.
  LoadedWeights load_all(keel::Session& session, const keel::Values& states) const;
  // Loads the values of the states that match; throws keel::Error where none does.
  LoadedWeights load_matching(keel::Session& session, const keel::Values& states) const;
  // Throws keel::Error naming the first state that holds NaN or an infinity.
  void require_finite(const std::string& fix) const;
  // Warns where a session that computes in f16 meets other overflows than those of the training.
  void warn_of_other_overflow(const keel::Graph& graph, const keel::Device& device,
                              const keel::Precision& precision) const;

  // Writes what format() reads.
  static void add_format(const keel_examples::ImageFormat& format,
                         std::map<std::string, std::string>& metadata);

 private:
  std::optional<int64_t> count_of_updates(const std::string& name) const;
  bool never_averaged(const std::string& state) const;
  LoadedWeights load(keel::Session& session, const keel::Values& states,
                     const Usable& weights) const;
  void require_labelled(const std::string& model) const;
  std::shared_ptr<const ChosenModel> own_model(const std::string& name) const;

  std::string flag_;
  std::string path_;
  keel::Safetensors file_;
  std::shared_ptr<const ChosenModel> own_model_;  // where the file is that of a model
};

// The weights of --load, or where that is empty those of the file of --model.
SavedModel saved_weights(const std::string& load, const std::optional<std::string>& model);
// The files that hold the model and its weights, for require_distinct.
std::vector<NamedFile> weight_files(const std::string& load,
                                    const std::optional<std::string>& model,
                                    const SavedModel& saved);

// "28x28x1 u8, 10 classes".
std::string describe(const keel_examples::ImageFormat& format);
// "6 states match; left aside in the file: ...; 4 taken as averages over the training".
std::string describe(const LoadedWeights& weights);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_SAVED_MODEL_H
