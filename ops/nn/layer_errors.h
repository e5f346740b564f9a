// Layer errors: how layers refuse what they are given, initializers included: errors that name the
// layer with its path.
// Internal to ops/nn.
#ifndef KEEL_OPS_NN_LAYER_ERRORS_H
#define KEEL_OPS_NN_LAYER_ERRORS_H

#include <string>
#include <utility>
#include <vector>

#include "keel/graph/ir/operand.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/module.h"

namespace keel {

// "dense encoder.0.query".
std::string layer_title(const char* layer, const Scope& scope);

[[noreturn]] void refuse_argument(const std::string& layer, const std::string& argument,
                                  const std::string& expected, const std::string& got,
                                  CallSite site);

// Throws Error unless the size is at least 1.
void require_size(const char* layer, const Scope& scope, const char* argument, int64_t size);
// Throws Error unless it is a float.
void require_float(const char* layer, const Scope& scope, DType dtype);

// Throws Error unless a norm of values of that dtype can add it to their variance.
void require_epsilon(const char* layer, const Scope& scope, double epsilon, DType dtype);

// Throws Error unless it is in [0, 1), in the name of a dropout.
void require_rate(const Scope& scope, double rate);

// A parameter that a layer makes by a function of the user's.
struct NewParameter {
  std::string name;
  const InitializerFunction& function;
  Type type;
};
// Makes the weight, and the bias if there is one. Throws Error, before it has made either of them,
// where a function is none or gives an initializer of another shape or dtype, or of no
// distribution.
std::pair<Value, Value> make_weight_and_bias(const char* layer, const Scope& scope,
                                             const NewParameter& weight, const NewParameter& bias,
                                             bool use_bias);

// Throws Error unless the groups divide both numbers of channels.
void require_groups(const char* layer, const Scope& scope, int64_t groups, int64_t in, int64_t out);
// The list as height and width, for which one number may stand. Throws Error for another number of
// them and for sizes < 1.
std::vector<int64_t> height_and_width(const char* layer, const Scope& scope, const char* argument,
                                      std::vector<int64_t> list);

// Returns the graph that all others around a body are in; a graph that is no body is its own.
Graph& root_of(Graph& graph);

// x as a Value of the graph that the layer's states are in, or of a body in it. Throws Error naming
// the layer.
Value require_own(const std::string& layer, const Graph& graph, const Operand& x,
                  const char* argument, CallSite site);
// The same, of that dtype and rank, whose axis (from the front, or from the end where negative)
// has that size or is not known.
Value require_input(const std::string& layer, const Graph& graph, const Operand& x, DType dtype,
                    size_t rank, int64_t axis, int64_t size, CallSite site);

}  // namespace keel

#endif  // KEEL_OPS_NN_LAYER_ERRORS_H
