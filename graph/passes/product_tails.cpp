#include "keel/graph/passes/product_tails.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_set>

#include "keel/graph/passes/fuse_clusters.h"

namespace keel {

namespace {

// Nodes between a product and what its rows read: a handful where a loss is a mean.
constexpr size_t kMostSeen = 500;

}  // namespace

// The latest product first: the one that a cluster with several finds at hand.
void ProductTails::find(const std::vector<uint32_t>& products) {
  for (auto id = products.rbegin(); id != products.rend(); ++id) find_tail(*id);
}

void ProductTails::find_tail(uint32_t product) {
  const std::string why = find_epilogue(product);
  const bool has_rows = find_rows(product);
  if (const auto it = tails_.find(product); it != tails_.end()) {
    it->second.outputs = outputs_of(product);
  }
  if (why.empty() || has_rows) return;
  const Node& node = graph_.node(product);
  tell(node, graph_.node(readers_.of(node.output()).front()), why);
}

// Why there is none; empty where there is one, or nobody reads the product.
std::string ProductTails::find_epilogue(uint32_t product) {
  const Value result = graph_.node(product).output();
  const std::span<const uint32_t> readers = readers_.of(result);
  if (readers.empty()) return "";
  const Node& reader = graph_.node(readers.front());
  if (!is_elementwise(reader)) return reader.op_name() + " is not element-wise";
  if (reader.type().shape != result.shape()) {
    return "the shapes " + to_string(result.shape()) + " and " + to_string(reader.type().shape) +
           " differ";
  }
  if (readers_.fetched(result)) return "the product is a result of the step, too";
  if (readers.size() > 1) return described(graph_.node(readers[1])) + " reads it, too";
  if (product_of_[reader.id()] != kNone) return "another product is computed with it";
  tail_for(product).epilogue = &reader;
  product_of_[reader.id()] = product;
  return "";
}

// Row-wise nodes on the product's result, or on what its epilogue makes of it. Whether there are
// any.
bool ProductTails::find_rows(uint32_t product) {
  const auto it = tails_.find(product);
  const Node& last = it == tails_.end() ? graph_.node(product) : *it->second.epilogue;
  std::set<uint32_t> readers;
  for (size_t i = 0; i < last.types().size(); ++i) {
    const std::span<const uint32_t> of_output = readers_.of(last.output(i));
    readers.insert(of_output.begin(), of_output.end());
  }
  bool any = false;
  for (const uint32_t id : readers) {
    const Node& node = graph_.node(id);
    if (!node.has(kRowWise) || product_of_[id] != kNone) continue;
    if (!stands_beside(node, last, product)) {
      tell(last, node, "what else it reads may follow from these rows");
      continue;
    }
    tail_for(product).rows.push_back(&node);
    product_of_[id] = product;
    any = true;
  }
  return any;
}

// Whether all that the row-wise node reads beside what `last` gives it can be there before the
// product is; false, too, where that would take long to tell. Tails count as one node each: those
// of later products are known, and no node that is older than a product follows from it.
bool ProductTails::stands_beside(const Node& row, const Node& last, uint32_t product) const {
  std::unordered_set<uint32_t> seen;
  std::vector<const Node*> open;
  const auto visit = [&](const Value& v) {
    if (v.node_id() >= product && seen.insert(v.node_id()).second) open.push_back(&v.node());
  };
  for (size_t i = 0; i < row.inputs().size(); ++i) {
    if (i != 0 || row.input(0).node_id() != last.id()) visit(row.input(i));
  }
  while (!open.empty()) {
    if (seen.size() > kMostSeen) return false;
    const Node& node = *open.back();
    open.pop_back();
    const std::optional<uint32_t> with = product_with(node.id());
    if (node.id() == product || node.has(kEffect)) return false;
    for (const Node* one : with ? nodes_with(*with) : std::vector<const Node*>{&node}) {
      for (const Value& v : one->inputs()) visit(v);
    }
  }
  return true;
}

// What of the product and its tail others read.
Values ProductTails::outputs_of(uint32_t product) const {
  const auto is_outside = [&](uint32_t reader) { return product_of_[reader] != product; };
  Values outputs;
  for (const Node* node : nodes_with(product)) {
    for (size_t i = 0; i < node->types().size(); ++i) {
      const Value v = node->output(i);
      const std::span<const uint32_t> readers = readers_.of(v);
      if (readers_.fetched(v) || std::any_of(readers.begin(), readers.end(), is_outside)) {
        outputs.push_back(v);
      }
    }
  }
  return outputs;
}

void ProductTails::tell_rows_apart() const {
  for (const Node& node : graph_.nodes()) {
    if (!live_[node.id()] || !node.has(kRowWise) || product_of_[node.id()] != kNone) continue;
    const Node& maker = node.input(0).node();
    if (!is_elementwise(maker) || product_of_[maker.id()] != kNone) continue;
    tell(maker, node, "no product makes these rows");
  }
}

const ProductTail* ProductTails::of(uint32_t product) const {
  const auto it = tails_.find(product);
  return it == tails_.end() ? nullptr : &it->second;
}

std::vector<const Node*> ProductTails::nodes_with(uint32_t product) const {
  const ProductTail& tail = tails_.at(product);
  std::vector<const Node*> nodes = {&graph_.node(product)};
  if (tail.epilogue != nullptr) nodes.push_back(tail.epilogue);
  nodes.insert(nodes.end(), tail.rows.begin(), tail.rows.end());
  return nodes;
}

void ProductTails::drop_rows(uint32_t product) {
  ProductTail& tail = tails_.at(product);
  if (tail.epilogue == nullptr) return drop(product);
  for (const Node* row : tail.rows) product_of_[row->id()] = kNone;
  tail.rows.clear();
  tail.outputs = outputs_of(product);
}

void ProductTails::drop(uint32_t product) {
  for (const Node* node : nodes_with(product)) product_of_[node->id()] = kNone;
  tails_.erase(product);
}

void ProductTails::tell(const Node& from, const Node& to, const std::string& why) const {
  if (report_ != nullptr) {
    report_->add(described(from) + " -> " + described(to) + ": " + why, line_of(to));
  }
}

}  // namespace keel
