// called_as: how a function that is made of one op refuses operands in its own name. It asks the
// op's inference, so that what the op takes is said once, before it adds anything to the graph. A
// pure function; any thread.
#ifndef KEEL_GRAPH_IR_CALLED_AS_H
#define KEEL_GRAPH_IR_CALLED_AS_H

#include <string>
#include <string_view>
#include <vector>

#include "keel/core/base/call_site.h"
#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/attributes.h"

namespace keel {

// Names what a user called, and its arguments, in the order of the op's operands.
struct CalledAs {
  std::string function;
  std::vector<std::string> arguments;
};

// Throws the Error of the built-in op `op` for operands of these types and these attributes, in the
// name of the function and its arguments and with the line `site`.
KEEL_API void require_operands_of(std::string_view op, const CalledAs& called,
                                  const std::vector<Type>& types, const Attributes& attributes,
                                  CallSite site);

}  // namespace keel

#endif  // KEEL_GRAPH_IR_CALLED_AS_H
