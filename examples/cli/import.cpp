#include <iostream>
#include <utility>

#include <fmt/core.h>
#include <keel/core/base/file.h>
#include <keel/core/base/printable.h>
#include <keel/keel.h>
#include <keel/ops/exchange/onnx/import.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/output_files.h"
#include "cli/onnx/model_file.h"

namespace keel_cli {
namespace {

void keep_outputs(keel::onnx::ImportedModel& model, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, keel::Value>> kept;
  keel::Values values;
  for (const std::string& name : names) {
    kept.emplace_back(name, model.output(name));
    values.push_back(kept.back().second);
  }
  model.outputs = std::move(kept);
  model.graph->set_outputs(values);
}

}  // namespace

int run_import(const std::vector<std::string>& words) {
  CommandLine line(
      "import", "MODEL.onnx: makes a graph of an ONNX model, as text, and a file of its weights");
  line.add("out", "FILE.keel", "the graph; the weights go to FILE.keel.safetensors");
  line.add_repeated("bind", "NAME=FILE.npy", "makes an input a constant of the graph");
  line.add_repeated("output", "NAME", "an output to keep (all)");
  line.add_subject("file", "keel import model.onnx --out model.keel");
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
  std::vector<NamedFile> inputs = files_of_model("keel import", line.subject());
  for (NamedFile& file : named_files("--bind", line.texts("bind")))
    inputs.push_back(std::move(file));
  require_distinct({{"--out", out}, {"--out", weights_path(out)}}, inputs);
  require_writable("--out", out);
  require_writable("--out", weights_path(out));
  const auto bind = named_tensors("--bind", line.texts("bind"));
  keel::onnx::ImportedModel model =
      keel::onnx::load(line.subject(), {.bind = bind, .weights_in_graph = false});
  if (line.has("output")) keep_outputs(model, line.texts("output"));
  write_model_file(out, *model.graph, model.weights);
  for (const auto& input : model.inputs) {
    std::cout << "input " << keel::printable(input.first) << " "
              << keel::to_string(input.second.type()) << "\n";
  }
  for (const auto& output : model.outputs) {
    std::cout << "output " << keel::printable(output.first) << " "
              << keel::to_string(output.second.type()) << "\n";
  }
  std::cout << fmt::format("{} nodes, {} states\n", model.graph->size(), model.weights.size());
  return kExitDone;
}

}  // namespace keel_cli
