#include "cli/model/inference_model.h"

#include <utility>

#include "models/classifier.h"

namespace keel_cli {
namespace {

std::string required(const CommandLine& line, const char* flag, const std::string& what,
                     const std::string& fix) {
  const auto value = line.text(flag);
  if (value) return *value;
  throw keel::Error({.op = std::string("--") + flag,
                     .message = "is missing: " + what,
                     .fix = fix,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

}  // namespace

void declare_inference_flags(CommandLine& line, const std::string& out) {
  line.add("load", "FILE", "the states of keel train --save or --save-best");
  line.add("out", "FILE", out);
  line.add("model", model_choices(), "what the states are of (what the file says)");
  line.add("batch", "N", "images at a time, the same in every run (what the run decides)");
}

InferenceFlags read_inference_flags(const CommandLine& line, const std::string& out,
                                    bool needs_load) {
  InferenceFlags flags;
  flags.model = line.text("model");
  if (needs_load || line.has("load") || !(flags.model && is_model_file(*flags.model)))
    flags.load =
        required(line, "load", "the file with the states", "keel train --save FILE writes one");
  flags.out = required(line, "out", "the file to write", "--out " + out);
  if (flags.model && !is_model_file(*flags.model)) built_in_model(*flags.model);
  flags.batch = line.integer("batch", 1, kMostCount).value_or(0);
  return flags;
}

InferenceModel inference_model(const InferenceFlags& flags, const SavedModel& saved,
                               const std::string& command) {
  const auto chosen = saved.model(flags.model);
  if (flags.batch > 0) require_batch(*chosen, flags.batch);
  const auto format = saved.format() ? *saved.format() : chosen->known_format(command);
  InferenceModel model{.name = chosen->model.name, .graph = std::make_unique<keel::Graph>()};
  model.classifier = chosen->model.build(*model.graph, format);
  model.weights = saved.usable(model.graph->states()).tensors;
  saved.require_finite("look at it with keel inspect, and take an older file");
  return model;
}

}  // namespace keel_cli
