// Selection: the part of a graph that is imported: the nodes that the wanted outputs need, from the
// inputs on, with the initial values of the variables among them. Internal to the import; one
// thread.
#ifndef KEEL_OPS_EXCHANGE_GRAPHDEF_SELECTION_H
#define KEEL_OPS_EXCHANGE_GRAPHDEF_SELECTION_H

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/error.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/exchange/graphdef/variable_order.h"
#include "keel/ops/exchange/onnx/read_model.h"

namespace keel::graphdef {

struct Selection {
  // The nodes in the file's order. Variables have their initial value as their input where the
  // graph says one. Values in `inputs` are those of no node.
  GraphDef graph;
  size_t needed_nodes = 0;            // of the file, those of inputs included
  std::map<std::string, int> places;  // of nodes in their file, from 1, by their names
  std::vector<onnx::ValueInfo> inputs;
  std::vector<std::string> outputs;    // values
  std::set<std::string> only_initial;  // nodes that only initial values need
  std::set<std::string> untrained;     // variables that the file says are not to be trained
  AssignedVariables assigned;
};

// Is thrown for a graph that does not say its outputs, so that the caller has to choose them.
class OutputsAreOpen : public Error {
 public:
  using Error::Error;
};

// Throws Error for names that the graph has not and for variables that are one in two dtypes, or
// leave open which device they are on, OutputsAreOpen, and what order_variables throws.
Selection select(const GraphDef& graph, const ImportOptions& options, const OpRules& rules);

// Says whether the values of a node come from outside of the graph, as a placeholder's do.
bool is_from_outside(const NodeDef& node);

// The dtype of ONNX with the same elements; that of a reference is its variable's.
onnx::DataType onnx_type(DataType type);

}  // namespace keel::graphdef

#endif  // KEEL_OPS_EXCHANGE_GRAPHDEF_SELECTION_H
