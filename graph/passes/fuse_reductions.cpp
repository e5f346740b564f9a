// Puts reductions together with the element-wise work beside them: what only a reduction reads is
// computed as it is reduced, what alone reads its result is computed on that while it is at hand.
// Bits do not change, since every op rounds as it would alone.
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "keel/graph/passes/cloner.h"
#include "keel/graph/passes/copy_cluster.h"
#include "keel/graph/passes/fuse_clusters.h"
#include "keel/graph/passes/passes.h"
#include "keel/graph/passes/readers.h"
#include "keel/graph/passes/shared_bodies.h"

namespace keel {
namespace {

// An element-wise node beside a reduction and the views in between, in the graph's order.
struct Neighbour {
  const Node* node = nullptr;
  std::vector<const Node*> views;
};

struct ReductionParts {
  Values inputs;  // of the graph: the prologue's, then what else the epilogue reads
  std::vector<std::shared_ptr<Graph>> bodies;
  Values outputs;  // of the graph, paired with the node's outputs
  CallSite site;
};

ReductionParts parts_of(const Graph& from, const Node& reduction, const Neighbour& prologue,
                        const Neighbour& epilogue) {
  ReductionParts parts;
  const auto copy = [](const Node& node, Graph& body, ValueMap& map) {
    map[node.output()] =
        body.add(node.op(), {map.at(node.input(0))}, node.attributes(), node.site()).output();
  };
  auto before = std::make_shared<Graph>(from.ops());
  ValueMap map;
  if (prologue.node != nullptr) {
    copy_cluster(*prologue.node, *before, map, parts.inputs);
    for (const Node* view : prologue.views) copy(*view, *before, map);
  } else {
    const Value& x = reduction.input(0);
    map[x] = before->input("v0", x.dtype(), x.shape(), x.node().site());
    parts.inputs.push_back(x);
  }
  copy(reduction, *before, map);
  before->set_outputs({map.at(reduction.output())});

  auto behind = std::make_shared<Graph>(from.ops());
  const Type& type = reduction.type();
  const Value result = behind->input("reduction", type.dtype, type.shape, reduction.site());
  const Node& last = epilogue.node != nullptr ? *epilogue.node : reduction;
  if (epilogue.node != nullptr) {
    ValueMap inner{{reduction.output(), result}};
    for (const Node* view : epilogue.views) copy(*view, *behind, inner);
    behind->set_outputs(copy_cluster(last, *behind, inner, parts.inputs));
  } else {
    behind->set_outputs({result});
  }
  for (size_t i = 0; i < last.types().size(); ++i) parts.outputs.push_back(last.output(i));
  parts.bodies = {std::move(before), std::move(behind)};
  parts.site = last.site();
  return parts;
}

class ReductionFuser {
 public:
  ReductionFuser(const Graph& from, Graph& to, const SupportsFunction& supports, FuseReport* report)
      : from_(from),
        to_(to),
        supports_(supports),
        report_(report),
        op_(from.ops().at("fused_reduction")),
        cloner_(from, to),
        answers_(from, op_, supports),
        live_(live_nodes(from)),
        readers_(from, live_) {}

  void run() {
    std::vector<uint32_t> reductions;
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()] && is_reduction(node) && node.input(0).shape().known()) {
        reductions.push_back(node.id());
      }
    }
    // The latest first: the one that a cluster with several finds at hand.
    for (auto id = reductions.rbegin(); id != reductions.rend(); ++id) find_epilogue(*id);
    for (const uint32_t id : reductions) find_prologue(id);
    for (const uint32_t id : reductions) decide(id);
    absorb();
    cloner_.clone_inputs();
    for (const Node& node : from_.nodes()) {
      if (live_[node.id()]) emit(node);
    }
    cloner_.finish();
  }

 private:
  // ---- what could be computed with a reduction

  // Why not all that a value is read for can be computed with what makes or reads it; empty: it
  // can.
  std::string shared(const Value& v) const {
    if (readers_.fetched(v)) return "it is a result of the step, too";
    const auto readers = readers_.of(v);
    return readers.size() > 1 ? described(from_.node(readers[1])) + " reads it, too" : "";
  }

  void find_epilogue(uint32_t id) {
    Neighbour found;
    const Node* last = &from_.node(id);
    const Node* reader = nullptr;
    for (;;) {
      const auto readers = readers_.of(last->output());
      if (readers.empty()) return;
      reader = &from_.node(readers[0]);
      if (const std::string why = shared(last->output()); !why.empty()) {
        return refuse(from_.node(id), *reader, why);
      }
      if (!reader->has(kView)) break;
      found.views.push_back(reader);
      last = reader;
    }
    const auto refuse = [&](const std::string& why) { this->refuse(from_.node(id), *reader, why); };
    if (!is_elementwise(*reader)) return refuse(reader->op_name() + " is not element-wise");
    if (reader->type().shape != last->type().shape) {
      return refuse("the shapes " + to_string(last->type().shape) + " and " +
                    to_string(reader->type().shape) + " differ");
    }
    if (reduction_of_.contains(reader->id())) {
      return refuse("another reduction is computed with it");
    }
    found.node = reader;
    reduction_of_[reader->id()] = id;
    epilogues_[id] = std::move(found);
  }

  void find_prologue(uint32_t id) {
    const Node& reduction = from_.node(id);
    Neighbour found;
    const Node* reader = &reduction;
    const Node* node = &reduction.input(0).node();
    std::string why;
    for (;; node = &node->input(0).node()) {
      if (why.empty()) why = shared(reader->input(0));
      if (!node->has(kView)) break;
      found.views.insert(found.views.begin(), node);
      reader = node;
    }
    if (!is_elementwise(*node)) return;
    if (node->has(kMovement) && node->bodies().empty()) why = "it only moves elements";
    if (why.empty() && node->types().size() != 1) why = "it has other results, too";
    if (why.empty() && reduction_of_.contains(node->id())) {
      why = "it is computed with another reduction";
    }
    if (!why.empty()) return refuse(*node, reduction, why);
    found.node = node;
    prologues_[id] = std::move(found);
  }

  // As much of it as the backend takes.
  void decide(uint32_t id) {
    const bool has_prologue = prologues_.contains(id);
    const bool has_epilogue = epilogues_.contains(id);
    if (!has_prologue && !has_epilogue) return;
    std::string reason;
    if (accepted(id, has_prologue, has_epilogue, reason)) return;
    std::string other;
    const bool both = has_prologue && has_epilogue;
    const bool keep_epilogue = both && accepted(id, false, true, other);
    const bool keep_prologue = both && !keep_epilogue && accepted(id, true, false, other);
    const std::string why = "the backend declines: " + reason;
    if (has_prologue && !keep_prologue) {
      refuse(*prologues_.at(id).node, from_.node(id), why);
      prologues_.erase(id);
    }
    if (has_epilogue && !keep_epilogue) {
      const Node& epilogue = *epilogues_.at(id).node;
      refuse(from_.node(id), epilogue, why);
      reduction_of_.erase(epilogue.id());
      epilogues_.erase(id);
    }
  }

  // Whether the backend takes that much; then that is what the reduction becomes.
  bool accepted(uint32_t id, bool with_prologue, bool with_epilogue, std::string& reason) {
    static const Neighbour none;
    ReductionParts parts = parts_of(from_, from_.node(id), with_prologue ? prologues_.at(id) : none,
                                    with_epilogue ? epilogues_.at(id) : none);
    for (auto& body : parts.bodies) body = bodies_.of(std::move(body));
    const Support& support = answers_.to(parts.inputs, parts.bodies, parts.site);
    reason = support.reason;
    if (support.supported) parts_[id] = std::move(parts);
    return support.supported;
  }

  void absorb() {
    for (const auto& [id, prologue] : prologues_) {
      absorbed_.insert(prologue.node->id());
      for (const Node* view : prologue.views) absorbed_.insert(view->id());
    }
    for (const auto& [id, epilogue] : epilogues_) {
      for (const Node* view : epilogue.views) absorbed_.insert(view->id());
    }
  }

  // ---- rewriting

  void emit(const Node& node) {
    if (node.op_name() == "input" || absorbed_.contains(node.id())) return;
    if (const auto it = reduction_of_.find(node.id()); it != reduction_of_.end()) {
      if (!cloner_.mapped(node.output())) emit_fused(it->second);
      return;
    }
    if (parts_.contains(node.id())) {
      if (may_come_now(node.id())) emit_fused(node.id());
      return;
    }
    if (node.bodies().empty() || node.has(kElementwise) || node.op_name() == "fused_product") {
      cloner_.clone(node);
      return;
    }
    std::vector<std::shared_ptr<Graph>> bodies;
    for (const auto& body : node.bodies()) {
      FuseReport inside;
      bodies.push_back(fuse_reductions(*body, supports_, report_ == nullptr ? nullptr : &inside));
      const std::string where =
          described(node) + " body " + std::to_string(bodies.size() - 1) + ": ";
      for (const std::string& line : inside.lines) report_->lines.push_back(where + line);
    }
    cloner_.clone(node, std::move(bodies));
  }

  // Whether the epilogue can be computed where the reduction is. That is where it is put, since
  // what is reduced is mostly larger than what comes of it and need not live on; but not where
  // others are still to read a state that it reads: its next value may be what is computed here.
  bool may_come_now(uint32_t id) const {
    const auto it = epilogues_.find(id);
    if (it == epilogues_.end()) return true;
    const Node& epilogue = *it->second.node;
    const Value result =
        it->second.views.empty() ? from_.node(id).output() : it->second.views.back()->output();
    for (const Value& v : epilogue.inputs()) {
      if (v == result || is_scalar_constant(v)) continue;
      if (!cloner_.mapped(v)) return false;
      if (v.node().op_name() != "state") continue;
      const auto readers = readers_.of(v);
      for (size_t i = readers.size(); i-- > 0 && readers[i] > id;) {
        if (readers[i] != epilogue.id()) return false;
      }
    }
    return true;
  }

  void emit_fused(uint32_t id) {
    const ReductionParts& parts = parts_.at(id);
    const Node& node = to_.add(op_, cloner_(parts.inputs), {}, parts.site, parts.bodies);
    for (size_t i = 0; i < parts.outputs.size(); ++i) cloner_.map(parts.outputs[i], node.output(i));
  }

  // ---- report

  void refuse(const Node& producer, const Node& consumer, const std::string& why) {
    if (report_ == nullptr) return;
    report_->add(described(producer) + " -> " + described(consumer) + ": " + why,
                 line_of(consumer));
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
  ValueReaders readers_;
  std::unordered_map<uint32_t, Neighbour> prologues_, epilogues_;  // by reduction
  std::unordered_map<uint32_t, ReductionParts> parts_;             // by reduction: what it becomes
  std::unordered_map<uint32_t, uint32_t> reduction_of_;            // by epilogue
  std::unordered_set<uint32_t> absorbed_;  // prologues, and the views beside reductions
};

}  // namespace

std::unique_ptr<Graph> fuse_reductions(const Graph& graph, const SupportsFunction& supports,
                                       FuseReport* report) {
  auto result = std::make_unique<Graph>(graph.ops());
  ReductionFuser(graph, *result, supports, report).run();
  return result;
}

}  // namespace keel
