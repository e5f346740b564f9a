#include <algorithm>
#include <filesystem>
#include <iostream>
#include <set>

#include <fmt/core.h>
#include <keel/core/base/printable.h>
#include <keel/core/tensor/npy.h>
#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/run_flags.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {
namespace {

// The file of an output: its name, with what no file name can hold replaced.
std::string file_name(const std::string& output) {
  std::string name = keel::printable(output, 200);
  for (char& c : name)
    if (c == '/' || c == '\\') c = '_';
  return (name.starts_with('.') ? "_" + name : name) + ".npy";
}

keel::Feeds feeds_of(const ModelFile& model, const std::map<std::string, keel::Tensor>& inputs) {
  keel::Feeds feeds;
  std::string known;
  for (const auto& input : model.inputs) {
    known += (known.empty() ? "" : ", ") + input.first;
    const auto given = inputs.find(input.first);
    if (given == inputs.end()) {
      throw keel::Error({.op = "keel run",
                         .message = "the model's input '" + input.first + "', " +
                                    keel::to_string(input.second.type()) + ", is not given",
                         .fix = "--input " + input.first + "=FILE.npy",
                         .kind = keel::ErrorKind::kInvalidArgument});
    }
    feeds.emplace_back(input.second, given->second);
  }
  if (feeds.size() == inputs.size()) return feeds;
  for (const auto& given : inputs) {
    const bool found = std::any_of(model.inputs.begin(), model.inputs.end(),
                                   [&](const auto& input) { return input.first == given.first; });
    if (found) continue;
    throw keel::Error({.op = "--input",
                       .expected = known.empty() ? "no inputs" : "one of: " + known,
                       .got = given.first,
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  return feeds;
}

}  // namespace

int run_run(const std::vector<std::string>& words) {
  CommandLine line("run",
                   "MODEL: runs an .onnx file, or what `keel import` made of one, on arrays");
  line.add_repeated("input", "NAME=FILE.npy", "the value of an input");
  line.add_repeated("bind", "NAME=FILE.npy", "makes an input of an .onnx file a constant");
  line.add("output-dir", "DIR", "where each output goes, as <name>.npy (.)");
  declare_backend_flag(line, "where to run");
  line.add_subject("model", "keel run model.onnx --input x=x.npy");
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const std::filesystem::path folder = line.text("output-dir").value_or(".");
  if (!std::filesystem::is_directory(folder)) {
    throw keel::Error({.op = "--output-dir",
                       .message = "there is no folder " + folder.string(),
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  const auto inputs = named_tensors("--input", line.texts("input"));
  ModelFile model = read_model_file(line.subject(), named_tensors("--bind", line.texts("bind")));
  const keel::Feeds feeds = feeds_of(model, inputs);
  std::set<std::string> files;
  keel::Values fetches;
  for (const auto& output : model.outputs) {
    fetches.push_back(output.second);
    if (!files.insert(file_name(output.first)).second) {
      throw keel::Error({.op = "keel run",
                         .message = "two outputs would be written to " + file_name(output.first)});
    }
  }
  keel::Session session(*model.graph, keel::device(read_backend(line) + ":0"));
  if (!model.weights.empty()) {
    const keel::WeightsMatch match =
        keel::load_weights(session, weight_states(*model.graph), model.weights);
    if (!match.complete())
      throw keel::Error({.op = weights_path(line.subject()), .message = keel::describe(match)});
  }
  const std::vector<keel::Tensor> results = session.run(fetches, feeds);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto path = (folder / file_name(model.outputs[i].first)).string();
    keel::write_npy(path, results[i]);
    std::cout << keel::printable(path) << " " << keel::to_string(results[i].type()) << "\n";
  }
  return kExitDone;
}

}  // namespace keel_cli
