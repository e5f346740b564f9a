// Puts products together with the element-wise work beside them: what only a product reads becomes
// part of how it loads the operand, what alone reads a product is computed on its result while that
// is at hand. Which of it pays is for the backend to say; bits do not change, since every op rounds
// as it would alone.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/product_parts.h"
#include "keel/graph/passes/product_tails.h"
#include "keel/graph/passes/readers.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {
namespace {

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
        live_(live_nodes(from)),
        readers_(from, live_),
        tails_(from, live_, readers_, report),
        emitted_(from.size(), false) {}

  void run() {
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()] && is_product(node)) products_.push_back(node.id());
    }
    tails_.find(products_);
    find_loads();
    find_gathers();
    drop_refused_tails();
    tails_.tell_rows_apart();
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

  // ---- tails

  void drop_refused_tails() {
    for (const uint32_t id : products_) {
      const ProductTail* tail = tails_.of(id);
      if (tail != nullptr && !tail->rows.empty()) {
        if (const Support& support = trial(id); !support.supported) {
          decline(described(from_.node(id)), *tail->rows.front(), support);
          tails_.drop_rows(id);
        }
      }
      tail = tails_.of(id);
      if (tail == nullptr || !tail->rows.empty()) continue;
      if (const Support& support = trial(id); !support.supported) {
        decline(described(from_.node(id)), *tail->epilogue, support);
        tails_.drop(id);
      }
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
        for (const uint32_t reader : readers_.of(v)) {
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
      const bool only_loads = !readers_.fetched(gather.output());
      const std::span<const uint32_t> readers = readers_.of(gather.output());
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
    for (const uint32_t reader : readers_.of(gather.output())) {
      const Node& loaded = from_.node(reader);
      for (size_t i = 0; i < loaded.types().size(); ++i) {
        if (!loads_.contains(loaded.output(i))) continue;
        const std::span<const uint32_t> readers = readers_.of(loaded.output(i));
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
    if (readers_.fetched(v) || !is_elementwise(v.node()) || v.node().has(kMovement)) return false;
    if (tails_.product_with(v.node_id())) return false;
    const std::span<const uint32_t> readers = readers_.of(v);
    return std::all_of(readers.begin(), readers.end(),
                       [&](uint32_t id) { return is_product(from_.node(id)); });
  }

  ProductParts parts_with(uint32_t id, bool with_tail) {
    const ProductTail* tail = with_tail ? tails_.of(id) : nullptr;
    ProductParts parts =
        parts_of(from_, from_.node(id), loads_, tail == nullptr ? ProductTail{} : *tail);
    for (auto& body : parts.bodies) body = bodies_.of(std::move(body));
    return parts;
  }

  // What the backend says to a product with its loads and, perhaps, its tail.
  const Support& trial(uint32_t id, bool with_tail = true) {
    const ProductParts parts = parts_with(id, with_tail);
    return answers_.to(parts.inputs, parts.bodies, parts.site);
  }

  // ---- rewriting

  void emit(const Node& node) {
    if (node.op_name() == "input" || emitted_[node.id()]) return;
    emitted_[node.id()] = true;
    if (is_product(node)) {
      if (const ProductTail* tail = tails_.of(node.id())) {
        // Comes where its tail begins, or here where others may read it before that.
        const Values& left = tail->outputs;
        if (std::find(left.begin(), left.end(), node.output()) != left.end()) emit_tail(node.id());
        return;
      }
      if (loads_something(node.id())) return emit_fused(node.id());
    }
    if (const auto product = tails_.product_with(node.id())) return emit_tail(*product);
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
      else if (readers_.fetched(v) || !readers_.of(v).empty())
        return false;
    }
    return any;
  }

  // At the first node of a tail; what it reads and the graph has later is brought forward.
  void emit_tail(uint32_t id) {
    std::vector<const Node*> open = tails_.nodes_with(id);
    for (const Node* own : open) emitted_[own->id()] = true;
    std::set<uint32_t> missing;
    while (!open.empty()) {
      const Node& node = *open.back();
      open.pop_back();
      for (const Value& v : node.inputs()) {
        const auto product = tails_.product_with(v.node_id());
        if (cloner_.mapped(v) || product == id || !missing.insert(v.node_id()).second) continue;
        // Another tail brings forward what it needs itself.
        if (!product) open.push_back(&v.node());
      }
    }
    for (const uint32_t needed : missing) {
      const auto product = tails_.product_with(needed);
      if (!product)
        emit(from_.node(needed));
      else if (!cloner_.mapped(tails_.of(*product)->outputs.front()))
        emit_tail(*product);
    }
    emit_fused(id);
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
  ValueReaders readers_;
  ProductTails tails_;
  ProductLoads loads_;
  std::unordered_set<uint32_t> gathered_;  // nodes that products do as they load
  std::vector<bool> emitted_;              // by node
};

}  // namespace

std::unique_ptr<Graph> fuse_products(const Graph& graph, const SupportsFunction& supports,
                                     FuseReport* report) {
  auto result = std::make_unique<Graph>(graph.ops());
  ProductFuser(graph, *result, supports, report).run();
  return result;
}

}  // namespace keel
