#include "keel/graph/ir/called_as.h"

#include "keel/graph/ir/op_def.h"
#include "keel/graph/ir/op_table.h"

namespace keel {

void require_operands_of(std::string_view op, const CalledAs& called,
                         const std::vector<Type>& types, const Attributes& attributes,
                         CallSite site) {
  OpDef as_called = builtin_ops().at(op);
  as_called.name = called.function;
  as_called.input_names = called.arguments;
  try {
    as_called.infer(InferContext(as_called, types, attributes, {}, site));
  } catch (const Error& error) {
    throw error.with_site(site);
  }
}

}  // namespace keel
