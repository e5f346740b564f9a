#include "keel/graph/passes/copy_cluster.h"

#include <string>

#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/fuse_clusters.h"

namespace keel {
namespace {

Value bring_in(const Value& v, Graph& body, Values& inputs) {
  if (is_scalar_constant(v)) {
    return body.constant(v.node().as<ConstantAttributes>().value, v.node().site());
  }
  inputs.push_back(v);
  return body.input("v" + std::to_string(inputs.size() - 1), v.dtype(), v.shape(), v.node().site());
}

}  // namespace

Values copy_cluster(const Node& node, Graph& body, ValueMap& map, Values& inputs) {
  Values read;
  for (const Value& v : node.inputs()) {
    Value& inner = map[v];
    if (!inner.valid()) inner = bring_in(v, body, inputs);
    read.push_back(inner);
  }
  Values results;
  if (node.bodies().empty()) {
    const Node& copy = body.add(node.op(), read, node.attributes(), node.site());
    for (size_t i = 0; i < copy.types().size(); ++i) results.push_back(copy.output(i));
  } else {
    const Graph& cluster = *node.bodies()[0];
    Cloner inside(cluster, body);
    for (size_t i = 0; i < read.size(); ++i) inside.map(cluster.inputs()[i], read[i]);
    for (const Node& inner : cluster.nodes()) {
      if (inner.op_name() != "input") inside.clone(inner);
    }
    results = inside(cluster.outputs());
  }
  for (size_t i = 0; i < results.size(); ++i) map[node.output(i)] = results[i];
  return results;
}

}  // namespace keel
