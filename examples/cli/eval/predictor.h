// Predictor: a classifier with saved weights on a device, and the flags that name the two: what
// `keel eval` and `keel predict` share. One thread at a time.
#ifndef KEEL_EXAMPLES_CLI_EVAL_PREDICTOR_H
#define KEEL_EXAMPLES_CLI_EVAL_PREDICTOR_H

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/output_files.h"
#include "cli/model/computing_flags.h"
#include "cli/model/saved_model.h"

namespace keel_cli {

// --load, --model, --data, --label, --split, --backend, --device-id, --threads, --placement,
// --precision and its kind, --disable-pass.
struct PredictorFlags {
  std::string load;                  // may be empty where the model is a file with weights
  std::optional<std::string> model;  // else that of --load
  std::optional<std::string> data;   // likewise
  std::string label;
  std::string split = "test";
  std::string backend = "npu";
  std::string device = "npu";  // of it: "npu:3", or the environment decides
  int threads = 1;
  ComputingFlags computing;
  std::vector<std::string> disabled_passes;
};

void declare_predictor_flags(CommandLine& line);
// Throws keel::Error where a flag is wrong, or --load is missing.
PredictorFlags read_predictor_flags(const CommandLine& line);

// The images that the flags and the file name: of the test, of the training, those that the
// training kept aside, or all of them.
struct ChosenImages {
  std::string data;    // the value of --data, given or the file's
  std::string origin;  // in words
  keel::LabelledImages set;
  keel::Dataset items;  // of Dataset::from_images, those of the split, in the dtype of the model
  int64_t count;        // of them
};
ChosenImages choose_images(const PredictorFlags& flags, const SavedModel& saved);
// The value of --data, given or the file's, and the column of its classes.
std::string data_of(const PredictorFlags& flags, const SavedModel& saved);

class Predictor {
 public:
  // Throws keel::Error where the file is not of that model, or holds NaN or infinities, before it
  // takes memory of the size that the file claims.
  Predictor(const PredictorFlags& flags, const SavedModel& saved,
            std::shared_ptr<const ChosenModel> model, const keel_examples::ImageFormat& format);

  // The logits [count, classes] of images [count, numbers]; a program is compiled for each count,
  // or for the one that the model takes.
  keel::Tensor logits(const keel::Tensor& images);

  // "lenet from FILE, step 1650, averaged weights, on npu:0 in fp32".
  std::string describe() const;
  const std::string& model() const noexcept { return model_->model.name; }
  const std::string& precision() const noexcept { return precision_; }
  // "averaged" where the training averaged its weights (--average), else "last".
  const char* weights() const noexcept { return averaged_ ? "averaged" : "last"; }

 private:
  keel::Tensor logits_in_parts(const keel::Tensor& images, int64_t batch);

  std::string origin_;
  bool averaged_ = false;
  std::shared_ptr<const ChosenModel> model_;
  std::string precision_;
  keel::ComputeThreads threads_;
  keel::Graph graph_;
  keel_examples::Classifier classifier_;
  std::optional<keel::Session> session_;
};

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_EVAL_PREDICTOR_H
