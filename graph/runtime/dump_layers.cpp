#include "keel/graph/runtime/dump_layers.h"

#include <algorithm>
#include <utility>

#include "keel/core/base/environment.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/label.h"
#include "keel/graph/runtime/compile.h"

namespace keel {
namespace {

constexpr size_t kNearNames = 5;

using Names = std::vector<std::string>;

bool holds(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns what the user may have meant: nodes of a scope or an op of that name, or of nearly that
// name.
std::string near_names(const std::string& layer, const Names& names) {
  Names near;
  for (const std::string& name : names) {
    if (!name.starts_with(layer + "/") && !name.ends_with("/" + layer)) continue;
    if (!holds(near, name)) near.push_back(name);
  }
  if (near.empty()) {
    const std::string fix = did_you_mean(layer, names);
    return fix.empty() ? "without dump_layer all are dumped, and named" : fix;
  }
  std::string text = "it may be";
  for (size_t i = 0; i < std::min(near.size(), kNearNames); ++i)
    text += (i == 0 ? " " : ", ") + near[i];
  return text + (near.size() > kNearNames ? " ..." : "");
}

// Returns the results of the user's ops of that name.
Values results_of(const Graph& graph, const std::string& name) {
  Values results;
  for (const Node& node : graph.nodes()) {
    if (node.has(kSource) || full_name(node) != name) continue;
    for (size_t i = 0; i < node.data_types().size(); ++i) results.push_back(node.output(i));
  }
  return results;
}

// Returns the ops that give what the user's ops of that name gave, before the compiler put others
// in their place.
Names stand_ins(const std::string& layer, const SessionState& session, const Loop& step) {
  CompileRequest request;
  request.step.graph = session.graph;
  request.step.fetches = results_of(*session.graph, layer);
  if (request.step.fetches.empty()) return {};
  if (const auto queue = step.queue()) request.queue = source_of(*queue);
  request.precision = session.options.precision;
  request.placement = session.options.placement;
  request.threads = session.options.threads;
  request.device_options = session.options.device_options;
  try {
    return names_of_fetches(session.device, std::move(request));
  } catch (const Error&) {
    // A value that no step of this queue can compute is not in the step that is dumped either.
    return {};
  }
}

}  // namespace

std::vector<std::string> dumped_ops(const DumpOptions& options, const SessionState& session,
                                    const std::vector<const Loop*>& steps) {
  Names names;
  for (const Loop* step : steps) {
    const Names more = step->program().op_names();
    names.insert(names.end(), more.begin(), more.end());
  }
  if (names.empty()) {
    throw Error({.op = "dump",
                 .argument = "enable_dump",
                 .message = "this backend does not show the ops that it runs",
                 .kind = ErrorKind::kInvalidArgument});
  }
  Names ops;
  for (const std::string& layer : options.layers) {
    const size_t before = ops.size();
    if (holds(names, layer)) {
      ops.push_back(layer);
      continue;
    }
    for (const Loop* step : steps) {
      for (std::string& name : stand_ins(layer, session, *step))
        if (holds(names, name)) ops.push_back(std::move(name));
    }
    if (ops.size() > before) continue;
    throw Error({.op = "dump",
                 .argument = "dump_layer",
                 .expected = "names of nodes that are computed",
                 .got = layer,
                 .fix = near_names(layer, names),
                 .kind = ErrorKind::kInvalidArgument});
  }
  return ops;
}

}  // namespace keel
