#include <iostream>
#include <map>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <keel/ops/exchange/onnx/export.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/model/saved_model.h"

namespace keel_cli {
namespace {

struct ExportFlags {
  std::string load, out;
  std::optional<std::string> model;
  int64_t batch = 0;
  bool train = false;
};

std::string required(const CommandLine& line, const char* flag, const char* what, const char* fix) {
  const auto value = line.text(flag);
  if (value) return *value;
  throw keel::Error({.op = std::string("--") + flag,
                     .message = std::string("is missing: ") + what,
                     .fix = fix,
                     .kind = keel::ErrorKind::kInvalidArgument});
}

ExportFlags read_flags(const CommandLine& line) {
  ExportFlags flags;
  flags.load =
      required(line, "load", "the file with the states", "keel train --save FILE writes one");
  flags.out = required(line, "out", "the file to write", "--out model.onnx");
  flags.model = line.text("model");
  if (flags.model && !is_model_file(*flags.model)) keel_examples::find_model(*flags.model);
  flags.batch = line.integer("batch", 1, kMostCount).value_or(0);
  flags.train = line.has("train");
  return flags;
}

// What the file computes: the logits, or the loss and its gradient for each parameter.
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

int export_model(const ExportFlags& flags) {
  const SavedModel saved("--load", flags.load);
  std::vector<NamedFile> inputs =
      model_files(flags.model ? *flags.model : saved.find("model").value_or(""));
  inputs.push_back({"--load", flags.load});
  require_distinct({{"--out", flags.out}}, inputs);
  require_writable("--out", flags.out);
  const auto chosen = saved.model(flags.model);
  const keel_examples::Model& model = chosen->model;
  keel::Graph graph;
  if (flags.batch > 0) require_batch(*chosen, flags.batch);
  const auto format = saved.format() ? *saved.format() : chosen->known_format("keel export");
  const auto classifier = model.build(graph, format);
  const keel::Values states = graph.states();
  const Fetched fetches = fetched(classifier, states, flags.train);
  saved.require_states(states);
  saved.require_finite("look at it with keel inspect, and take an older file");
  keel::Session session(graph, keel::device("cpu:0"));
  saved.load_all(session, states);
  std::map<std::string, keel::Tensor> values;
  for (const keel::Value& state : states) values[keel::name_of(state.node())] = session.read(state);
  keel::onnx::save(
      graph, values, fetches.values, flags.out,
      {.names = fetches.names, .batch = flags.batch, .metadata = {{"model", model.name}}});
  std::cout << fmt::format("wrote {}: {} {}\n", keel::printable(flags.out), model.name,
                           flags.train ? "with its loss and gradient" : "for inference");
  return kExitDone;
}

}  // namespace

int run_export(const std::vector<std::string>& words) {
  CommandLine line("export", "writes a model with saved weights as an ONNX file");
  line.add("load", "FILE", "the states of keel train --save or --save-best");
  line.add("out", "FILE", "the ONNX file to write");
  line.add("model", model_choices(), "what the states are of (what the file says)");
  line.add("batch", "N", "images at a time, the same in every run (what the run decides)");
  line.add("train", "", "the loss and its gradient for each parameter in place of the logits");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  return export_model(read_flags(line));
}

}  // namespace keel_cli
