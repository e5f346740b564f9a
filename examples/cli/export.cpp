#include <iostream>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <keel/ops/exchange/onnx/export.h>

#include "cli/base/commands.h"
#include "cli/model/inference_model.h"

namespace keel_cli {
namespace {

// The file computes the logits, or the loss and its gradient for each parameter.
struct Fetched {
  keel::Values values;
  std::vector<std::string> names;
};

Fetched fetched(const keel_examples::Classifier& classifier, const keel::Values& states,
                bool train) {
  if (!train) return {{classifier.logits}, {"logits"}};
  keel::Values parameters;
  Fetched result{{classifier.loss}, {"loss"}};
  for (const keel::Value& state : states) {
    if (!state.node().as<keel::StateAttributes>().trainable) continue;
    parameters.push_back(state);
    result.names.push_back("gradient/" + keel::name_of(state.node()));
  }
  for (const keel::Value& gradient : keel::gradients(classifier.loss, parameters))
    result.values.push_back(gradient);
  return result;
}

void require_onnx_ending(const std::string& out) {
  if (out.ends_with(".onnx")) return;
  throw keel::Error({.op = "--out",
                     .expected = "FILE.onnx",
                     .got = out,
                     .fix = out.ends_with(".keel") ? "`keel freeze` writes graphs of Keel's" : "",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

int export_model(const InferenceFlags& flags, bool train) {
  keel::require_one_rank(keel::read_job_environment());
  const SavedModel saved = saved_weights(flags.load, flags.model);
  require_distinct({{"--out", flags.out}}, weight_files(flags.load, flags.model, saved));
  require_onnx_ending(flags.out);
  require_writable("--out", flags.out);
  const InferenceModel model = inference_model(flags, saved, "keel export");
  const keel::Values states = model.graph->states();
  const Fetched fetches = fetched(model.classifier, states, train);
  saved.require_states(states);
  keel::onnx::save(*model.graph, model.weights, fetches.values, flags.out,
                   {.names = fetches.names,
                    .batch = flags.batch,
                    .metadata = {{"model", keel::printable(model.name)}}});
  std::cout << fmt::format("wrote {}: {} {}\n", keel::printable(flags.out),
                           keel::printable(model.name),
                           train ? "with its loss and gradient" : "for inference");
  return kExitDone;
}

}  // namespace

int run_export(const std::vector<std::string>& words) {
  CommandLine line("export", "writes a model with saved weights as an ONNX file");
  declare_inference_flags(line, "the ONNX file to write");
  line.add("train", "",
           "the loss and its gradient for each parameter in place of the logits; no dropout");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  return export_model(read_inference_flags(line, "model.onnx", /*needs_load=*/true),
                      line.has("train"));
}

}  // namespace keel_cli
