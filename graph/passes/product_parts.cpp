#include "keel/graph/passes/product_parts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "keel/graph/passes/copy_cluster.h"
#include "keel/graph/passes/fuse_clusters.h"

namespace keel {
namespace {

void add_sources(const Node& node, Values& sources) {
  for (const Value& v : node.inputs()) {
    const bool known = std::find(sources.begin(), sources.end(), v) != sources.end();
    if (!is_scalar_constant(v) && !known) sources.push_back(v);
  }
}

std::vector<bool> needed_for(const Graph& body, const Value& result) {
  std::vector<bool> needed(body.size(), false);
  needed[result.node_id()] = true;
  for (uint32_t id = result.node_id() + 1; id-- > 0;) {
    if (!needed[id]) continue;
    for (const Value& v : body.node(id).inputs()) needed[v.node_id()] = true;
  }
  return needed;
}

// Copies the nodes that lead to the load's result, which is returned.
Value copy_load(const ProductLoad& load, const Value& source, Graph& to) {
  std::unordered_map<Value, Value, ValueHash> map;
  const auto copy = [&](const Node& node) {
    Values inputs;
    for (const Value& v : node.inputs()) {
      if (is_scalar_constant(v) && !map.contains(v)) {
        map[v] = to.constant(v.node().as<ConstantAttributes>().value, v.node().site());
      }
      inputs.push_back(map.at(v));
    }
    const Node& fresh = to.add(node.op(), inputs, node.attributes(), node.site());
    for (size_t i = 0; i < node.types().size(); ++i) map[node.output(i)] = fresh.output(i);
  };
  if (load.body == nullptr) {
    map[load.source] = source;
    copy(load.result.node());
    return map.at(load.result);
  }
  const std::vector<bool> needed = needed_for(*load.body, load.result);
  for (const Value& v : load.body->inputs()) {
    if (needed[v.node_id()]) map[v] = source;
  }
  for (const Node& node : load.body->nodes()) {
    if (needed[node.id()] && !node.has(kSource)) copy(node);
  }
  return map.at(load.result);
}

// The body that takes a product's result, its first input, to the tail's outputs.
class TailBody {
 public:
  TailBody(const Graph& from, const Node& product, ProductParts& parts)
      : body_(std::make_shared<Graph>(from.ops())), parts_(parts) {
    inner_[product.output()] =
        body_->input("product", product.type().dtype, product.type().shape, product.site());
  }

  void add(const ProductTail& tail) {
    if (tail.epilogue != nullptr) {
      copy_cluster(*tail.epilogue, *body_, inner_, parts_.inputs);
      parts_.site = tail.epilogue->site();
    }
    for (const Node* row : tail.rows) add_rows(*row);
    Values outputs;
    for (const Value& v : tail.outputs) outputs.push_back(inner_.at(v));
    body_->set_outputs(outputs);
    parts_.outputs = tail.outputs;
    parts_.bodies[1] = body_;
  }

 private:
  void add_rows(const Node& row) {
    Values inputs;
    for (const Value& v : row.inputs()) inputs.push_back(in_memory(v));
    const Node& copy = body_->add(row.op(), inputs, row.attributes(), row.site());
    for (size_t i = 0; i < row.types().size(); ++i) inner_[row.output(i)] = copy.output(i);
    parts_.site = row.site();
  }

  // A value of the graph in the body, never as a constant: row-wise ops read their operands in
  // memory.
  Value in_memory(const Value& v) {
    const auto it = inner_.find(v);
    if (it == inner_.end()) return inner_[v] = bring(v);
    return it->second.node().op_name() == "constant" ? bring(v) : it->second;
  }
  Value bring(const Value& v) {
    parts_.inputs.push_back(v);
    return body_->input("v" + std::to_string(parts_.inputs.size() - 1), v.dtype(), v.shape(),
                        v.node().site());
  }

  std::shared_ptr<Graph> body_;
  ProductParts& parts_;
  ValueMap inner_;
};

}  // namespace

std::optional<ProductLoad> load_of(const Value& v) {
  const Node& node = v.node();
  ProductLoad load;
  load.result = v;
  Values sources;
  if (node.bodies().empty()) {
    add_sources(node, sources);
  } else {
    load.body = node.bodies()[0].get();
    load.result = load.body->outputs()[v.output()];
    const std::vector<bool> needed = needed_for(*load.body, load.result);
    for (size_t i = 0; i < load.body->inputs().size(); ++i) {
      if (needed[load.body->inputs()[i].node_id()]) sources.push_back(node.input(i));
    }
  }
  if (sources.size() != 1 || sources[0].shape() != v.shape()) return std::nullopt;
  load.source = sources[0];
  return load;
}

ProductParts parts_of(const Graph& from, const Node& product, const ProductLoads& loads,
                      const ProductTail& tail) {
  ProductParts parts;
  parts.site = product.site();
  auto load = std::make_shared<Graph>(from.ops());
  const auto bring = [&](const Value& v) {
    parts.inputs.push_back(v);
    return load->input("v" + std::to_string(parts.inputs.size() - 1), v.dtype(), v.shape(),
                       v.node().site());
  };
  Values operands;
  for (const Value& v : product.inputs()) {
    const auto it = loads.find(v);
    operands.push_back(bring(it == loads.end() ? v : it->second.stored()));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto it = loads.find(product.input(i));
    if (it == loads.end()) continue;
    if (const Node* gather = it->second.gather) {
      operands[i] = load->add(gather->op(), {operands[i], bring(gather->input(1))},
                              gather->attributes(), gather->site())
                        .output();
    }
    operands[i] = copy_load(it->second, operands[i], *load);
  }
  load->set_outputs(
      {load->add(product.op(), operands, product.attributes(), product.site()).output()});
  parts.bodies = {load, nullptr};
  if (tail.empty()) {
    auto same = std::make_shared<Graph>(from.ops());
    const Type& type = product.type();
    same->set_outputs({same->input("product", type.dtype, type.shape, product.site())});
    parts.bodies[1] = same;
    parts.outputs = {product.output()};
  } else {
    TailBody(from, product, parts).add(tail);
  }
  return parts;
}

}  // namespace keel
