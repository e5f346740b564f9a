#include "keel/graph/autodiff/agreed_attributes.h"
#include "keel/graph/autodiff/body_gradient.h"
#include "keel/graph/autodiff/control_gradient.h"
#include "keel/graph/autodiff/flow.h"
#include "keel/graph/control/control_flow.h"

namespace keel {

Values gradient_of_cond(const BuildContext& c) {
  std::vector<size_t> ys;
  std::vector<bool> used;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    used.push_back(c.output_gradients[i].valid());
    if (used.back()) ys.push_back(i);
  }
  std::vector<size_t> xs;  // by input of the bodies
  std::vector<bool> reached(c.inputs.size(), false);
  // A branch that does not use an input gives it zeros where the other branch has its gradient.
  std::vector<AgreedAttributes> of_inputs(c.inputs.size() - 1);
  for (const auto& body : c.bodies) {
    const ValueSet sources = sources_of(*body, select_floats(body->outputs(), used));
    meet_users(*body, sources, of_inputs);
    for (size_t i = 1; i < c.inputs.size(); ++i) {
      if (c.wanted[i] && sources.contains(body->inputs()[i - 1])) reached[i] = true;
    }
  }
  for (size_t i = 1; i < reached.size(); ++i) {
    if (reached[i]) xs.push_back(i - 1);
  }
  Values flows(c.inputs.size());
  if (xs.empty()) return flows;

  std::vector<Operand> seeds;
  for (const size_t y : ys) seeds.emplace_back(c.output_gradients[y], c.site);
  const auto gradient_of = [&](const Graph& body) -> BodyFunction {
    return [&](const Values& own_seeds) {
      const std::unique_ptr<Graph> back =
          BodyGradient(body, ys, xs, of_inputs, c.graph.label(), c.site).graph();
      Values arguments(c.inputs.begin() + 1, c.inputs.end());
      arguments.insert(arguments.end(), own_seeds.begin(), own_seeds.end());
      return inline_body(*back, back->outputs(), arguments, own_seeds[0].graph());
    };
  };
  const Values gradients = cond(Operand(c.inputs[0], c.site), seeds, gradient_of(*c.bodies[0]),
                                gradient_of(*c.bodies[1]), c.site);
  for (size_t i = 0; i < xs.size(); ++i) flows[xs[i] + 1] = gradients[i];
  return flows;
}

}  // namespace keel
