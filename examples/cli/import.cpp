#include <algorithm>
#include <iostream>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/graph/ir/scopes.h>
#include <keel/keel.h>
#include <keel/ops/exchange/graphdef/file/read_graph_def.h>
#include <keel/ops/exchange/graphdef/import.h>
#include <keel/ops/exchange/onnx/import.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/flag_errors.h"
#include "cli/base/output_files.h"
#include "cli/onnx/graph_inputs.h"
#include "cli/onnx/model_file.h"
#include "cli/onnx/planned_memory.h"
#include "cli/train/training_update.h"

namespace keel_cli {
namespace {

// The usual rates of a model that nothing is known of.
constexpr double kSgdRate = 0.01, kAdamRate = 0.001;

void keep_outputs(keel::onnx::ImportedModel& model, const std::vector<std::string>& names,
                  const std::string& path) {
  std::vector<std::pair<std::string, keel::Value>> kept;
  keel::Values values;
  for (const std::string& name : names) {
    const keel::Value value = in_flag("--outputs", [&] {
      return in_flag(
          path, [&] { return model.output(name); }, "model");
    });
    kept.emplace_back(name, value);
    values.push_back(kept.back().second);
  }
  model.outputs = std::move(kept);
  model.graph->set_outputs(values);
}

// The names of --outputs, with commas between them; none where the flag is not given.
std::vector<std::string> output_names(const CommandLine& line) {
  std::vector<std::string> names;
  if (!line.has("outputs")) return names;
  const std::string text = *line.text("outputs");
  const auto fail = [](const std::string& message) {
    throw keel::Error({.op = "--outputs",
                       .message = message,
                       .fix = "--outputs NAME,...",
                       .kind = keel::ErrorKind::kInvalidArgument});
  };
  for (size_t first = 0; first <= text.size();) {
    const size_t end = std::min(text.find(',', first), text.size());
    const std::string name = text.substr(first, end - first);
    if (name.empty()) fail("has an empty name in '" + keel::printable(text) + "'");
    if (std::find(names.begin(), names.end(), name) != names.end())
      fail("names " + keel::printable(name) + " twice");
    names.push_back(name);
    first = end + 1;
  }
  return names;
}

void require_not_imported(const std::string& path) {
  if (!path.ends_with(".keel")) return;
  throw keel::Error({.op = "keel import",
                     .message = path + " is a graph of Keel's, which is imported already",
                     .kind = keel::ErrorKind::kInvalidArgument});
}

void declare_flags(CommandLine& line) {
  line.add("out", "FILE.keel", "the graph; the weights go to FILE.keel.safetensors");
  line.add_repeated("bind", "NAME=FILE.npy", "makes an input a constant of the graph");
  line.add("outputs", "NAME,...",
           "the outputs to keep, and nodes that train (all of an ONNX model, what no node reads of "
           "a frozen graph)");
  line.add("inputs", "NAME:SHAPE,...",
           "of a TensorFlow graph: shapes of its inputs, as X:[-1,784]; a value of any other name "
           "becomes an input");
  line.add("control-flow", "v2",
           "of a TensorFlow graph: converts control flow of version 1 also where shapes are not "
           "known");
  line.add(
      "optimizer", alternatives(optimizer_names()),
      "of a TensorFlow graph: leaves its own updates out and makes those of this optimizer, of "
      "the one output that is a number, the loss");
  line.add("lr", "RATE", "the learning rate of --optimizer (its usual one)");
  line.add_subject("file", "keel import model.onnx --out model.keel");
}

void require_no_graph_def_flags(const CommandLine& line) {
  for (const char* flag : {"inputs", "control-flow", "optimizer", "lr"}) {
    if (!line.has(flag)) continue;
    throw keel::Error({.op = std::string("--") + flag,
                       .message = "goes with a TensorFlow graph (.pb, .pbtxt, .meta)",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
}

keel::onnx::ImportedModel import_onnx(const CommandLine& line,
                                      const std::map<std::string, keel::Tensor>& bind) {
  const keel::onnx::ModelProto file = keel::onnx::read_model(line.subject());
  keel::onnx::ImportedModel model =
      keel::onnx::import_model(file, {.bind = bind, .weights_in_graph = false});
  if (file.has_training_info) {
    std::cout << "the file's training_info is left out: its graph alone is imported, which keel "
                 "train trains by an optimizer of Keel's\n";
  }
  if (line.has("outputs")) keep_outputs(model, output_names(line), line.subject());
  return model;
}

// The states that a new optimizer keeps are weights of the model like the others.
void add_initial_values(keel::onnx::ImportedModel& model) {
  for (const keel::Value& state : weight_states(*model.graph)) {
    const auto& attributes = state.node().as<keel::StateAttributes>();
    if (model.weights.count(attributes.name) == 0)
      model.weights.emplace(attributes.name, keel::initial_value(attributes.initializer(), 0));
  }
}

// The model's update becomes that of an optimizer under its loss.
void train_by(keel::onnx::ImportedModel& model, const std::string& optimizer, double rate) {
  keel::Values losses;
  for (const auto& output : model.outputs) {
    const keel::Type& type = output.second.type();
    if (keel::is_float(type.dtype) && type.shape.rank() == 0) losses.push_back(output.second);
  }
  if (losses.size() != 1) {
    throw keel::Error({.op = "--optimizer",
                       .expected = "one output that is a single float, the loss",
                       .got = std::to_string(losses.size()) + " of them",
                       .fix = "name it: --outputs LOSS,...",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  const keel::SiteScope lines(*model.graph, losses[0].node().site());
  model.update = make_optimizer(optimizer, rate).minimize(losses[0]);
  for (const keel::Assignment& assignment : model.update.assignments)
    model.graph->add_update(assignment.state, assignment.next);
  add_initial_values(model);
}

// Says what became of control flow of version 1. Such a graph has no order before the run, so no
// value of it can take another's place in memory.
void print_conversion(const keel::graphdef::ImportedModel& model, const std::string& path,
                      keel::graphdef::ImportOptions options) {
  if (model.conditionals + model.loops == 0) return;
  std::cout << fmt::format("control flow of version 1: {} conditionals and {} loops\n",
                           model.conditionals, model.loops);
  options.both_branches = true;
  const std::optional<size_t> planned = planned_memory(model);
  const std::optional<size_t> before = memory_of_all_values(keel::graphdef::load(path, options));
  if (!planned || !before) return;
  std::cout << fmt::format(
      "peak memory of its values: {} bytes before, where each has its own, {} bytes as planned\n",
      *before, *planned);
}

// Says what was made of the parts of the file.
void print_parts(const keel::graphdef::ImportedModel& model) {
  std::cout << fmt::format("{} of {} nodes of the file are needed\n", model.needed_nodes,
                           model.file_nodes);
  const auto list = [](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::cout << what;
    for (size_t i = 0; i < names.size(); ++i)
      std::cout << (i == 0 ? " " : ", ") << keel::printable(names[i]);
    std::cout << "\n";
  };
  list("weights, constants in the file:", model.weights_of_constants);
  list("initial values drawn by Keel:", model.drawn);
}

keel::onnx::ImportedModel import_graph_def(const CommandLine& line,
                                           const std::map<std::string, keel::Tensor>& bind) {
  keel::graphdef::ImportOptions options{.bind = bind, .weights_in_graph = false};
  options.inputs = graph_inputs("--inputs", line.text("inputs").value_or(""));
  options.outputs = output_names(line);
  if (line.choice("control-flow", {"v2"}))
    options.control_flow = keel::graphdef::ControlFlow::kConvert;
  const std::optional<std::string> optimizer = line.choice("optimizer", optimizer_names());
  if (line.has("lr") && !optimizer) {
    throw keel::Error({.op = "--lr",
                       .message = "goes with --optimizer",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  options.drop_updates = optimizer.has_value();
  keel::graphdef::ImportedModel model = keel::graphdef::load(line.subject(), options);
  print_parts(model);
  print_conversion(model, line.subject(), options);
  if (optimizer) {
    const double usual = usual_rate(*optimizer, kSgdRate, kAdamRate);
    train_by(model, *optimizer, line.number("lr", 0, 1e6).value_or(usual));
  }
  return model;
}

}  // namespace

int run_import(const std::vector<std::string>& words) {
  CommandLine line("import",
                   "MODEL: makes a graph of an ONNX model or a TensorFlow graph, as text, and a "
                   "file of its weights");
  declare_flags(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::string out = line.text("out").value_or("");
  if (out.empty()) {
    throw keel::Error({.op = "keel import",
                       .message = "--out is missing",
                       .fix = "keel import model.onnx --out model.keel",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (!out.ends_with(".keel")) {
    throw keel::Error({.op = "--out",
                       .expected = "FILE.keel",
                       .got = out,
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  require_not_imported(line.subject());
  const bool graph_def = keel::graphdef::is_graph_def_path(line.subject());
  if (!graph_def) require_no_graph_def_flags(line);
  std::vector<NamedFile> inputs = files_of_model("keel import", line.subject());
  for (NamedFile& file : named_files("--bind", line.texts("bind")))
    inputs.push_back(std::move(file));
  require_distinct({{"--out", out}, {"--out", weights_path(out)}}, inputs);
  require_writable("--out", out);
  require_writable("--out", weights_path(out));
  const auto bind = named_tensors("--bind", line.texts("bind"));
  const keel::onnx::ImportedModel model =
      graph_def ? import_graph_def(line, bind) : import_onnx(line, bind);
  std::vector<std::string> names;
  for (const auto& output : model.outputs) names.push_back(output.first);
  write_model_file(out, *model.graph, model.weights, names);
  for (const auto& input : model.inputs) {
    std::cout << "input " << keel::printable(input.first) << " "
              << keel::to_string(input.second.type()) << "\n";
  }
  for (const auto& output : model.outputs) {
    std::cout << "output " << keel::printable(output.first) << " "
              << keel::to_string(output.second.type()) << "\n";
  }
  size_t updates = 0;
  for (const keel::Assignment& assignment : model.update.assignments)
    updates += model.weights.count(keel::name_of(assignment.state.node()));
  std::cout << fmt::format("{} nodes, {} states{}\n", model.graph->size(), model.weights.size(),
                           updates == 0 ? "" : fmt::format(", {} of them updated", updates));
  return kExitDone;
}

}  // namespace keel_cli
