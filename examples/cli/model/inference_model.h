// InferenceModel: a classifier in a graph of its own, with the weights that it is to answer with:
// what `keel export` and `keel freeze` write. Owned by the command; one thread.
#ifndef KEEL_EXAMPLES_CLI_MODEL_INFERENCE_MODEL_H
#define KEEL_EXAMPLES_CLI_MODEL_INFERENCE_MODEL_H

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/output_files.h"
#include "cli/model/saved_model.h"

namespace keel_cli {

// --load, --out, --model and --batch.
struct InferenceFlags {
  std::string load, out;  // `load` may be empty where the model is a file with weights
  std::optional<std::string> model;
  int64_t batch = 0;  // 0: what the run decides
};

// `out`: what the file is, for the help.
void declare_inference_flags(CommandLine& line, const std::string& out);
// `out`: an example for the error where --out is missing.
InferenceFlags read_inference_flags(const CommandLine& line, const std::string& out,
                                    bool needs_load);

struct InferenceModel {
  std::string name;
  std::unique_ptr<keel::Graph> graph;
  keel_examples::Classifier classifier;
  // By name, averages in the place of weights that have one; what else the file holds is among
  // them.
  std::map<std::string, keel::Tensor> weights;
};

// Throws keel::Error for a batch that is not the model's, and for weights that are not finite;
// `command` names who asks.
InferenceModel inference_model(const InferenceFlags& flags, const SavedModel& saved,
                               const std::string& command);

}  // namespace keel_cli

#endif  // KEEL_EXAMPLES_CLI_MODEL_INFERENCE_MODEL_H
