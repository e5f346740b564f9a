// Puts products together with the element-wise work beside them: what only a product reads becomes
// part of how it loads the operand, what alone reads a product is computed on its result while that
// is at hand. Which of it pays is for the backend to say; bits do not change, since every op rounds
// as it would alone.
#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"

namespace keel {
namespace {

bool is_elementwise(const Node& node) {
  return node.has(kElementwise) && !node.has(kEffect | kSource | kRandom);
}

// Whether the node takes rows, by their numbers, out of a table.
bool gathers_rows(const Node& node) {
  if (node.op_name() != "gather" || node.input(1).shape().rank() != 1) return false;
  for (const auto& [name, value] : node.attributes().list()) {
    if (name == "axis") return std::get<int64_t>(value) == 0;
  }
  return false;
}

// Element-wise ops of one variable that turn `source` into the value that a product reads.
struct Load {
  Value source;
  const Graph* body = nullptr;  // the cluster's, which has `result`; null where it is one node
  Value result;                 // in that body or, without one, in the graph
  // Where the source's rows are gathered on the way: the node that would do it.
  const Node* gather = nullptr;

  Value stored() const { return gather == nullptr ? source : gather->input(0); }
};

class ProductFuser {
 public:
  ProductFuser(const Graph& from, Graph& to, const SupportsFunction& supports, FuseReport* report)
      : from_(from),
        to_(to),
        supports_(supports),
        report_(report),
        op_(from.ops().at("fused_product")),
        cloner_(from, to),
        live_(live_nodes(from)) {}

  void run() {
    find_readers();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()] && is_product(node)) products_.push_back(node.id());
    }
    // The latest product first: the one that a cluster with several finds at hand.
    for (auto id = products_.rbegin(); id != products_.rend(); ++id) find_epilogue(*id);
    find_loads();
    find_gathers();
    drop_refused_epilogues();
    cloner_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()]) emit(node);
    }
    cloner_.finish();
  }

 private:
  static bool is_product(const Node& node) {
    return node.has(kProduct) && node.types().size() == 1 && node.type().shape.known();
  }

  void find_readers() {
    for (const Node& node : from_.nodes()) {
      if (!live_[node.id()]) continue;
      for (const Value& v : node.inputs()) {
        std::vector<uint32_t>& readers = readers_[v];
        if (readers.empty() || readers.back() != node.id()) readers.push_back(node.id());
      }
    }
    for (const Value& v : from_.outputs()) fetched_.insert(v);
    for (const Assignment& a : from_.updates()) fetched_.insert(a.next);
  }

  // ---- epilogues

  void find_epilogue(uint32_t id) {
    const Node& product = from_.node(id);
    const Value result = product.output();
    const std::vector<uint32_t>& readers = readers_[result];
    if (readers.empty()) return;
    const Node& reader = from_.node(readers.front());
    const auto refuse = [&](const std::string& why) {
      tell(described(product) + " -> " + described(reader) + ": " + why, reader);
    };
    if (!is_elementwise(reader)) return refuse(reader.op_name() + " is not element-wise");
    if (reader.type().shape != result.shape()) {
      return refuse("the shapes " + to_string(result.shape()) + " and " +
                    to_string(reader.type().shape) + " differ");
    }
    if (fetched_.contains(result)) return refuse("the product is a result of the step, too");
    if (readers.size() > 1) return refuse(described(from_.node(readers[1])) + " reads it, too");
    if (product_of_.contains(reader.id())) return refuse("another product is computed with it");
    epilogue_of_[id] = reader.id();
    product_of_[reader.id()] = id;
  }

  void drop_refused_epilogues() {
    for (const uint32_t id : products_) {
      const auto it = epilogue_of_.find(id);
      if (it == epilogue_of_.end()) continue;
      const Support support = trial(id);
      if (support.supported) continue;
      tell(described(from_.node(id)) + " -> " + described(from_.node(it->second)) +
               ": the backend declines: " + support.reason,
           from_.node(it->second));
      product_of_.erase(it->second);
      epilogue_of_.erase(it);
    }
  }

  // ---- loads

  void find_loads() {
    for (const uint32_t id : products_) {
      for (const Value& v : from_.node(id).inputs()) {
        if (!loads_.contains(v) && only_products_read(v)) {
          if (auto load = load_of(v)) loads_[v] = *load;
        }
      }
    }
    // All products that read a value load it, or none: otherwise it has to be stored anyway.
    for (bool again = true; again;) {
      again = false;
      for (const uint32_t id : products_) {
        if (!loads_something(id)) continue;
        const Support support = trial(id, false);
        if (support.supported) continue;
        for (const Value& v : from_.node(id).inputs()) {
          if (loads_.erase(v) == 0) continue;
          tell(described(v.node()) + " -> " + described(from_.node(id)) +
                   ": the backend declines: " + support.reason,
               from_.node(id));
        }
        again = true;
      }
    }
  }

  // Rows that only loads read are gathered as the products load them, by all of these or by none.
  void find_gathers() {
    std::unordered_map<Value, std::vector<Load*>, ValueHash> by_source;
    for (auto& [v, load] : loads_) by_source[load.source].push_back(&load);
    for (auto& [source, loads] : by_source) {
      const Node& gather = source.node();
      const bool rows = gathers_rows(gather) && !fetched_.contains(source);
      const std::vector<uint32_t>& readers = readers_.at(source);
      if (!rows || !std::all_of(readers.begin(), readers.end(),
                                [&](uint32_t id) { return all_loaded(from_.node(id)); })) {
        continue;
      }
      for (Load* load : loads) load->gather = &gather;
      if (all_accepted(gather)) {
        gathered_.insert(gather.id());
      } else {
        for (Load* load : loads) load->gather = nullptr;
      }
    }
  }

  // Whether the backend takes all products that read what the node gathers.
  bool all_accepted(const Node& gather) {
    for (const uint32_t id : products_) {
      const Values& inputs = from_.node(id).inputs();
      const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](const Value& v) {
        const auto it = loads_.find(v);
        return it != loads_.end() && it->second.gather == &gather;
      });
      if (!reads) continue;
      const Support support = trial(id, false);
      if (support.supported) continue;
      tell(described(gather) + " -> " + described(from_.node(id)) +
               ": the backend declines: " + support.reason,
           from_.node(id));
      return false;
    }
    return true;
  }

  bool loads_something(uint32_t id) const {
    const Values& inputs = from_.node(id).inputs();
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Value& v) { return loads_.contains(v); });
  }

  bool only_products_read(const Value& v) const {
    if (fetched_.contains(v) || !is_elementwise(v.node()) || v.node().has(kMovement)) return false;
    if (product_of_.contains(v.node_id())) return false;
    const std::vector<uint32_t>& readers = readers_.at(v);
    return std::all_of(readers.begin(), readers.end(),
                       [&](uint32_t id) { return is_product(from_.node(id)); });
  }

  std::optional<Load> load_of(const Value& v) const {
    const Node& node = v.node();
    Load load;
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

  static void add_sources(const Node& node, Values& sources) {
    for (const Value& v : node.inputs()) {
      const bool known = std::find(sources.begin(), sources.end(), v) != sources.end();
      if (!is_scalar_constant(v) && !known) sources.push_back(v);
    }
  }

  static std::vector<bool> needed_for(const Graph& body, const Value& result) {
    std::vector<bool> needed(body.size(), false);
    needed[result.node_id()] = true;
    for (uint32_t id = result.node_id() + 1; id-- > 0;) {
      if (!needed[id]) continue;
      for (const Value& v : body.node(id).inputs()) needed[v.node_id()] = true;
    }
    return needed;
  }

  // ---- bodies

  struct Parts {
    Values inputs;  // of from_: the operands' sources, then what else the epilogue reads
    std::vector<std::shared_ptr<Graph>> bodies;
    Values outputs;  // of from_, paired with the node's outputs
    CallSite site;
  };

  Parts make_parts(uint32_t id, bool with_epilogue) const {
    const Node& product = from_.node(id);
    Parts parts;
    parts.site = product.site();
    auto load = std::make_shared<Graph>(from_.ops());
    const auto bring = [&](const Value& v) {
      parts.inputs.push_back(v);
      return load->input("v" + std::to_string(parts.inputs.size() - 1), v.dtype(), v.shape(),
                         v.node().site());
    };
    Values operands;
    for (const Value& v : product.inputs()) {
      const auto it = loads_.find(v);
      operands.push_back(bring(it == loads_.end() ? v : it->second.stored()));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto it = loads_.find(product.input(i));
      if (it == loads_.end()) continue;
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
    const auto it = epilogue_of_.find(id);
    if (it == epilogue_of_.end() || !with_epilogue) {
      auto same = std::make_shared<Graph>(from_.ops());
      const Type& type = product.type();
      same->set_outputs({same->input("product", type.dtype, type.shape, product.site())});
      parts.bodies[1] = same;
      parts.outputs = {product.output()};
    } else {
      add_epilogue(product, from_.node(it->second), parts);
    }
    return parts;
  }

  // Copies the nodes that lead to the load's result, which is returned.
  static Value copy_load(const Load& load, const Value& source, Graph& to) {
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

  // The cluster's body with the product as its first input.
  void add_epilogue(const Node& product, const Node& epilogue, Parts& parts) const {
    auto body = std::make_shared<Graph>(from_.ops());
    std::unordered_map<Value, Value, ValueHash> map;  // of from_
    map[product.output()] =
        body->input("product", product.type().dtype, product.type().shape, product.site());
    Values inputs;  // of the epilogue, in the body
    for (const Value& v : epilogue.inputs()) {
      Value& inner = map[v];
      if (!inner.valid() && is_scalar_constant(v)) {
        inner = body->constant(v.node().as<ConstantAttributes>().value, v.node().site());
      } else if (!inner.valid()) {
        inner = body->input("v" + std::to_string(parts.inputs.size()), v.dtype(), v.shape(),
                            v.node().site());
        parts.inputs.push_back(v);
      }
      inputs.push_back(inner);
    }
    Values outputs;
    if (epilogue.bodies().empty()) {
      const Node& copy = body->add(epilogue.op(), inputs, epilogue.attributes(), epilogue.site());
      outputs = {copy.output()};
    } else {
      const Graph& cluster = *epilogue.bodies()[0];
      Cloner inside(cluster, *body);
      for (size_t i = 0; i < inputs.size(); ++i) inside.map(cluster.inputs()[i], inputs[i]);
      for (const Node& node : cluster.nodes()) {
        if (node.op_name() != "input") inside.clone(node);
      }
      outputs = inside(cluster.outputs());
    }
    body->set_outputs(outputs);
    for (size_t i = 0; i < epilogue.types().size(); ++i) {
      parts.outputs.push_back(epilogue.output(i));
    }
    parts.bodies[1] = body;
    parts.site = epilogue.site();
  }

  // What the backend says to a product with its loads and, perhaps, its epilogue.
  Support trial(uint32_t id, bool with_epilogue = true) const {
    const Parts parts = make_parts(id, with_epilogue);
    Graph graph(from_.ops());
    Values stand_ins;
    for (const Value& v : parts.inputs) {
      stand_ins.push_back(
          graph.input("v" + std::to_string(stand_ins.size()), v.dtype(), v.shape(), parts.site));
    }
    return supports_(graph.add(op_, stand_ins, {}, parts.site, parts.bodies));
  }

  // ---- rewriting

  void emit(const Node& node) {
    if (node.op_name() == "input") return;
    if (is_product(node)) {
      if (epilogue_of_.contains(node.id())) return;  // comes where its epilogue is
      if (loads_something(node.id())) return emit_fused(node.id());
    }
    if (const auto it = product_of_.find(node.id()); it != product_of_.end()) {
      return emit_fused(it->second);
    }
    if (all_loaded(node) || gathered_.contains(node.id())) return;
    if (node.bodies().empty() || node.has(kElementwise)) {
      cloner_.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      bodies.push_back(fuse_products(*body, supports_, report_));
    }
    cloner_.clone(node, std::move(bodies));
  }

  // Whether products load all that is read of a node.
  bool all_loaded(const Node& node) const {
    bool any = false;
    for (size_t i = 0; i < node.types().size(); ++i) {
      const Value v = node.output(i);
      if (loads_.contains(v))
        any = true;
      else if (fetched_.contains(v) || readers_.contains(v))
        return false;
    }
    return any;
  }

  void emit_fused(uint32_t id) {
    const Parts parts = make_parts(id, true);
    const Node& node = to_.add(op_, cloner_(parts.inputs), {}, parts.site, parts.bodies);
    for (size_t i = 0; i < parts.outputs.size(); ++i) cloner_.map(parts.outputs[i], node.output(i));
  }

  void tell(const std::string& what, const Node& node) {
    if (report_ != nullptr) report_->add(what, line_of(node));
  }

  const Graph& from_;
  Graph& to_;
  const SupportsFunction& supports_;
  FuseReport* report_;
  const OpDef& op_;
  Cloner cloner_;
  std::vector<bool> live_;
  std::vector<uint32_t> products_;
  std::unordered_map<Value, std::vector<uint32_t>, ValueHash> readers_;
  std::unordered_set<Value, ValueHash> fetched_;
  std::unordered_map<uint32_t, uint32_t> epilogue_of_, product_of_;  // product <-> epilogue
  std::unordered_map<Value, Load, ValueHash> loads_;
  std::unordered_set<uint32_t> gathered_;  // nodes that products do as they load
};

}  // namespace

std::unique_ptr<Graph> fuse_products(const Graph& graph, const SupportsFunction& supports,
                                     FuseReport* report) {
  auto result = std::make_unique<Graph>(graph.ops());
  ProductFuser(graph, *result, supports, report).run();
  return result;
}

}  // namespace keel
