// Keel's models as ONNX files (IR version 8, opset 17), for the runtimes and tools of others. What
// each op becomes is said by its rule, in export_rules/. A graph is exported as it computes a step
// that nobody trains: export the values that a model has for evaluation, with dropout gone and
// norms that use their running statistics. Gradients among the fetches are exported like other
// values.
#ifndef KEEL_OPS_EXCHANGE_ONNX_EXPORT_H
#define KEEL_OPS_EXCHANGE_ONNX_EXPORT_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "keel/core/base/export.h"
#include "keel/core/tensor/tensor.h"
#include "keel/graph/ir/graph.h"

namespace keel::onnx {

struct SaveOptions {
  // Names of the outputs, one for each fetch; without them the names that the values have.
  std::vector<std::string> names = {};
  // The size of the first dimension of inputs that leave it open. 0: the run decides, and the file
  // calls it "batch".
  int64_t batch = 0;
  // The shapes of inputs that leave others open.
  std::map<std::string, Shape> shapes = {};
  // Tells what else is to be said in the file's metadata.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

// Writes what computes `fetches` to the ONNX file `path`, and weights beyond 2 GiB to `path` with
// ".data" behind it. `states` holds values by name; the states that are reached become initializers
// of that name, the inputs that are reached inputs. Throws Error, and writes nothing, for
//  - ops or dtypes without an ONNX form: one Error with all of them, each with the user's line,
//  - a state without a value, an input with an open dimension other than its first,
//  - what takes one size of the batch alone, or depends on it in a way that ONNX cannot say: give
//    SaveOptions::batch.
KEEL_API void save(const Graph& graph, const std::map<std::string, Tensor>& states,
                   const Values& fetches, const std::string& path, const SaveOptions& options = {});

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_EXPORT_H
