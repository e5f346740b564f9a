// Bodies as functions: put into another graph, and differentiated. Internal to the library.
#ifndef KEEL_GRAPH_AUTODIFF_BODY_GRADIENT_H
#define KEEL_GRAPH_AUTODIFF_BODY_GRADIENT_H

#include <memory>
#include <unordered_map>
#include <vector>

#include "keel/graph/autodiff/agreed_attributes.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/ir/operand.h"
#include "keel/graph/ir/rewriter.h"

namespace keel {

// Says for each input of the body whether the `results` (values of the body) are computed from it.
std::vector<bool> inputs_read(const Graph& body, const Values& results);

// Adds to `to` what computes `results`, with `arguments` (values of `to` or of graphs around it)
// for the inputs, and returns them. Arguments that are not read may be invalid.
Values inline_body(const Graph& body, const Values& results, const Values& arguments, Graph& to);

// The gradients of a body's inputs `xs` (by index) by seeds for its outputs `ys` (by index). What
// is made for one of the inputs alone has its attributes of `of_inputs`, and all the label `around`
// of what differentiates the control op. The body must outlive it.
class BodyGradient {
 public:
  BodyGradient(const Graph& body, const std::vector<size_t>& ys, const std::vector<size_t>& xs,
               const std::vector<AgreedAttributes>& of_inputs, const NodeLabelPtr& around,
               CallSite site);

  // Returns a graph whose inputs are those of the body, the seeds and the values of the body in
  // `kept`, and whose outputs are the gradients. It computes anew what else it needs of the body.
  // REQUIRES that `kept` is some of made_by_products().
  std::unique_ptr<Graph> graph(const Values& kept = {}) const;

  // Returns the values of the body that save the most where they are kept: those that the gradients
  // need products for. A product's value itself, or what element-wise ops of its shape make of it
  // (a bias and other products added) before anything else needs it, or what is made of that alone
  // and is together no larger (activated parts). None of
  // blocks that are marked to be computed again, and none of bodies that hold loops or conds:
  // checkpointed forwards know their loops by the numbers of nodes, which graph(kept) would change.
  Values made_by_products() const;

 private:
  using Users = std::unordered_map<Value, std::vector<uint32_t>, ValueHash>;  // nodes
  Values made_alone_of(const Value& value, const Users& users) const;

  const Graph& body_;
  Graph whole_;  // what the results need of the body, then the gradients
  Rewriter inlined_;
  uint32_t first_gradient_ = 0;
};

// Returns the new node's only output; attributes left out have their defaults.
Value emit_op(const char* op, const std::vector<Operand>& operands, const AttributeList& attributes,
              CallSite site);
// Makes a value of this type with one number everywhere.
Value filled(Graph& graph, const Type& type, double number, CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_AUTODIFF_BODY_GRADIENT_H
