// Puts products together with the element-wise work beside them: what only a product reads becomes
// part of how it loads the operand, what alone reads a product is computed on its result while that
// is at hand. Which of it pays is for the backend to say; bits do not change, since every op rounds
// as it would alone.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/product_parts.h"
#include "keel/graph/passes/shared_bodies.h"

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

class ProductFuser {
 public:
  ProductFuser(const Graph& from, Graph& to, const SupportsFunction& supports, FuseReport* report)
      : from_(from),
        to_(to),
        supports_(supports),
        report_(report),
        op_(from.ops().at("fused_product")),
        cloner_(from, to),
        answers_(from, op_, supports),
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
      const Support& support = trial(id);
      if (support.supported) continue;
      decline(described(from_.node(id)), from_.node(it->second), support);
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
    // All products that read a value load it, or none: otherwise it has to be stored anyway. So
    // where one cannot, those beside it are asked again.
    std::vector<uint32_t> asked = products_;
    for (size_t i = 0; i < asked.size(); ++i) {
      const uint32_t id = asked[i];
      if (!loads_something(id)) continue;
      const Support& support = trial(id, false);
      if (support.supported) continue;
      for (const Value& v : from_.node(id).inputs()) {
        if (loads_.erase(v) == 0) continue;
        decline(described(v.node()), from_.node(id), support);
        for (const uint32_t reader : readers_.at(v)) {
          if (reader != id) asked.push_back(reader);
        }
      }
    }
  }

  // Rows that only loads read are gathered as the products load them, by all of these or by none.
  void find_gathers() {
    std::map<uint32_t, std::vector<ProductLoad*>> by_gather;  // in the graph's order
    for (auto& [v, load] : loads_) {
      if (gathers_rows(load.source.node())) by_gather[load.source.node_id()].push_back(&load);
    }
    for (auto& [id, loads] : by_gather) {
      const Node& gather = from_.node(id);
      const bool only_loads = !fetched_.contains(gather.output());
      const std::vector<uint32_t>& readers = readers_.at(gather.output());
      if (!only_loads || !std::all_of(readers.begin(), readers.end(), [&](uint32_t reader) {
            return all_loaded(from_.node(reader));
          })) {
        continue;
      }
      for (ProductLoad* load : loads) load->gather = &gather;
      if (all_accepted(gather)) {
        gathered_.insert(gather.id());
      } else {
        for (ProductLoad* load : loads) load->gather = nullptr;
      }
    }
  }

  // Whether the backend takes all products that read what the node gathers.
  bool all_accepted(const Node& gather) {
    std::set<uint32_t> products;
    for (const uint32_t reader : readers_.at(gather.output())) {
      const Node& loaded = from_.node(reader);
      for (size_t i = 0; i < loaded.types().size(); ++i) {
        if (!loads_.contains(loaded.output(i))) continue;
        const std::vector<uint32_t>& readers = readers_.at(loaded.output(i));
        products.insert(readers.begin(), readers.end());
      }
    }
    for (const uint32_t id : products) {
      const Support& support = trial(id, false);
      if (support.supported) continue;
      decline(described(gather), from_.node(id), support);
      return false;
    }
    return true;
  }

  bool loads_something(uint32_t id) const {
    const NodeList<Value>& inputs = from_.node(id).inputs();
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

  ProductParts parts_with(uint32_t id, bool with_epilogue) {
    const auto it = epilogue_of_.find(id);
    const bool has = with_epilogue && it != epilogue_of_.end();
    ProductParts parts =
        parts_of(from_, from_.node(id), loads_, has ? &from_.node(it->second) : nullptr);
    for (auto& body : parts.bodies) body = bodies_.of(std::move(body));
    return parts;
  }

  // What the backend says to a product with its loads and, perhaps, its epilogue.
  const Support& trial(uint32_t id, bool with_epilogue = true) {
    const ProductParts parts = parts_with(id, with_epilogue);
    return answers_.to(parts.inputs, parts.bodies, parts.site);
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
    const ProductParts parts = parts_with(id, true);
    const Node& node = to_.add(op_, cloner_(parts.inputs), {}, parts.site, parts.bodies);
    for (size_t i = 0; i < parts.outputs.size(); ++i) cloner_.map(parts.outputs[i], node.output(i));
  }

  void decline(const std::string& what, const Node& with, const Support& support) {
    tell(what + " -> " + described(with) + ": the backend declines: " + support.reason, with);
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
  SharedBodies bodies_;
  BackendAnswers answers_;
  std::vector<bool> live_;
  std::vector<uint32_t> products_;
  std::unordered_map<Value, std::vector<uint32_t>, ValueHash> readers_;
  std::unordered_set<Value, ValueHash> fetched_;
  std::unordered_map<uint32_t, uint32_t> epilogue_of_, product_of_;  // product <-> epilogue
  ProductLoads loads_;
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
