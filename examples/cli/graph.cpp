#include <algorithm>
#include <iostream>

#include <keel/keel.h>

#include "cli/base/command_line.h"
#include "cli/base/commands.h"
#include "cli/base/errors.h"
#include "cli/base/flag_errors.h"
#include "cli/base/pass_flags.h"
#include "cli/base/precision_flags.h"
#include "cli/base/run_flags.h"
#include "cli/model/chosen_model.h"
#include "cli/train/train_options.h"

namespace keel_cli {
namespace {

// The backend and the options that --compiled compiles for.
struct Target {
  std::string backend;
  int64_t batch;
  keel::Precision precision;
  std::vector<std::string> disabled_passes;
  keel::PlacementPolicy placement;
  bool all_placements;  // not of nodes on the host alone
};

bool has_trainable_state(const keel::Graph& graph) {
  const keel::Values& states = graph.states();
  return std::any_of(states.begin(), states.end(), [](const keel::Value& state) {
    return state.node().as<keel::StateAttributes>().trainable;
  });
}

void print_placements(const keel::PlacementReport& report, bool all) {
  std::cout << "placement: policy " << keel::name_of(report.policy) << ", " << report.nodes.size()
            << " nodes, " << report.host_tasks << " on the host; " << report.copies_to_host
            << " copies to the host (" << report.bytes_to_host << " bytes) and "
            << report.copies_to_device << " back (" << report.bytes_to_device << " bytes)\n";
  for (const keel::NodePlacement& placement : report.nodes) {
    if (all || placement.on_host) std::cout << "  " << keel::to_string(placement) << "\n";
  }
}

void print_compiled(keel::Graph& graph, const keel::Update& update,
                    const keel_examples::Classifier& model, const Target& target) {
  keel::Session session(graph, device_to_run_on(target.backend),
                        {.disabled_passes = target.disabled_passes,
                         .precision = target.precision,
                         .placement = target.placement});
  const keel::Type& image = model.image.type();
  keel::ElementSpec element{{{"image", {image.dtype, image.shape.with_dim(0, target.batch)}},
                             {"label", {keel::u8, {target.batch}}}}};
  const auto queue = std::make_shared<keel::DeviceQueue>(
      session.device(), std::move(element), keel::DeviceQueueOptions{.name = "train", .depth = 1});
  const keel::Loop loop =
      session.sink({.update = update, .fetches = {model.loss}, .source = queue});
  const keel::CompileReport& report = loop.compile_report();
  std::cout << loop.describe() << "loop: " << keel::name_of(loop.kind());
  if (!loop.placement().reason.empty()) std::cout << " (" << loop.placement().reason << ")";
  if (loop.kind() == keel::LoopKind::kDevice && report.placement.host_tasks > 0)
    std::cout << " (" << keel::sunk_with_host_tasks(report.placement) << ")";
  std::cout << "\ninserted:";
  for (const keel::InsertedOp& op : report.inserted_ops)
    std::cout << " " << op.type << " " << op.name << ";";
  std::cout << "\npasses:";
  for (const keel::PassReport& pass : report.passes) std::cout << " " << pass.name;
  std::cout << "\n";
  for (const std::string& notice : report.notices) std::cout << "  " << notice << "\n";
  std::cout << "not fused:\n";
  for (const std::string& reason : report.not_fused) std::cout << "  " << reason << "\n";
  print_placements(report.placement, target.all_placements);
  if (report.precision.decisions.empty()) return;
  std::cout << "precision: " << report.precision.mode
            << (report.precision.is_default ? " (the device's default)" : "") << "\n";
  for (const auto& decision : report.precision.decisions)
    std::cout << "  " << keel::to_string(decision) << "\n";
}

}  // namespace

int run_graph(const std::vector<std::string>& words) {
  CommandLine line("graph", "prints a model's training step as text");
  line.add("model", model_choices(), "which model (softmax)");
  line.add("optimizer", alternatives(optimizer_names()),
           "whose update to show (sgd; that of a training graph)");
  line.add("dot", "", "for Graphviz: keel graph --dot | dot -Tsvg");
  line.add("compiled", "", "the task list that a backend makes of it, the loop around it included");
  declare_backend_flag(line, "for --compiled");
  line.add("batch", "N", "for --compiled (100)");
  declare_pass_flag(line);
  declare_placement_flag(line);
  line.add("all-placements", "", "for --compiled: where each node runs, not only the host's");
  declare_precision_flags(line);
  line.parse(words);
  if (line.wants_help()) {
    std::cout << line.help();
    return kExitDone;
  }
  const auto chosen = choose_model(line.text("model").value_or("softmax"));
  const keel_examples::Model& model = chosen->model;
  const auto optimizer = line.choice("optimizer", optimizer_names());
  const PrecisionFlags precision = read_precision(line);
  const Target target{
      read_backend(line),
      line.integer("batch", 1, int64_t{1} << 32).value_or(chosen->batch.value_or(100)),
      precision.value,
      read_disabled_passes(line),
      read_placement(line),
      line.has("all-placements")};
  for (const char* flag : {"placement", "all-placements", "batch", "backend"}) {
    if (!line.has(flag) || line.has("compiled")) continue;
    throw keel::Error({.op = std::string("--") + flag,
                       .message = "is about the step as it is compiled",
                       .fix = "add --compiled",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (line.has("dot") && line.has("compiled")) {
    throw keel::Error({.op = "--dot",
                       .message = "draws the graph, and --compiled prints a list of tasks",
                       .fix = "drop one of the two",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  const bool only_passes = !has_precision_flag(line);
  if ((!only_passes || !target.disabled_passes.empty()) && !line.has("compiled")) {
    throw keel::Error({.op = only_passes ? "--disable-pass" : "precision",
                       .message = only_passes ? "is about compiling the step"
                                              : "is decided when the step is compiled",
                       .fix = "add --compiled",
                       .kind = keel::ErrorKind::kInvalidArgument});
  }
  if (line.has("compiled")) precision.resolved_on(keel::backend(target.backend));
  require_batch(*chosen, target.batch);

  keel::Graph graph;
  const bool own = chosen->with_own_update && !optimizer;
  const auto format = chosen->known_format("keel graph");
  const auto classifier = own ? chosen->with_own_update(graph, format) : model.build(graph, format);
  keel::Update update = classifier.update;
  if (own) {
    update += keel::attached_updates(classifier.loss);
  } else if (has_trainable_state(graph)) {
    const std::string name = optimizer.value_or("sgd");
    const double rate = usual_rate(name, model.sgd_rate, model.adam_rate);
    update = make_optimizer(name, rate).minimize(classifier.loss);
  } else {
    if (optimizer)
      refuse_flag("--optimizer", "has nothing to update: " + model.name + " has nothing to train",
                  "leave it out");
    print_warning(model.name + " has nothing to train: this is how it is evaluated");
  }
  if (line.has("compiled")) {
    print_compiled(graph, update, classifier, target);
    return kExitDone;
  }
  graph.prepare_loop(update, {classifier.loss});
  std::cout << (line.has("dot") ? keel::to_dot(graph) : keel::print_graph(graph)) << "\n";
  return kExitDone;
}

}  // namespace keel_cli
