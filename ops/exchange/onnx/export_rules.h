// ExportRule: how one op is written in ONNX. The rules lie in export_rules/<family>.cpp, each of
// which defines register_export_<family>(ExportRules&); the build finds them by their names. An op
// without a rule is exported by its decomposition. Rules are pure: they may be called from any
// thread, each call with an ExportContext of its own.
#ifndef KEEL_OPS_EXCHANGE_ONNX_EXPORT_RULES_H
#define KEEL_OPS_EXCHANGE_ONNX_EXPORT_RULES_H

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/exchange/onnx/export_dimensions.h"
#include "keel/ops/exchange/onnx/write_model.h"

namespace keel::onnx {

class GraphExporter;
using ExportNames = std::vector<std::string>;

// In which dtypes a rule computes.
enum class ExportDtypes {
  kAsStored,  // in those of the node
  // f16 and bf16 in f32, rounded once, as ops/README.md has it; u8 in i32, which wraps on the way
  // back. Few runtimes have kernels for these dtypes, and those that do may round in between.
  kWide,
};

// One node of a specialised graph on its way into ONNX. Values are names in the ONNX graph.
class ExportContext {
 public:
  ExportContext(GraphExporter& exporter, std::vector<const Node*> twins, const ExportNames& inputs,
                ExportDtypes dtypes);

  const Node& node() const { return *twins_.front(); }
  // The node as it is for each size of the batch that is probed.
  const std::vector<const Node*>& twins() const { return twins_; }
  // Throws Error where the attributes depend on the size of the batch.
  template <class S>
  const S& as() const {
    require_same_attributes();
    return node().as<S>();
  }

  size_t inputs() const { return node().data_inputs().size(); }
  // Returns input i, converted where the rule computes wider, and its dtype then.
  std::string in(size_t i);
  DType dtype(size_t i) const { return computed(node().input(i).dtype()); }
  // The dtype in which the rule gives output i; the caller converts it to the node's.
  DType result_dtype(size_t i = 0) const { return computed(node().type(i).dtype); }
  size_t rank(size_t i) const { return node().input(i).shape().rank(); }
  // Throw Error where a dimension follows the batch in a way that ONNX cannot say.
  ExportDimensions dims(size_t i) const;
  ExportDimensions result_dims(size_t i = 0) const;
  // The same for an attribute that is a list of integers.
  ExportDimensions attribute_dims(const std::string& name) const;
  // Returns input i's elements where it is a constant that is the same for every batch, or null.
  const Tensor* constant_input(size_t i) const;

  // Adds a node of ONNX and returns its output, or its outputs.
  std::string op(const std::string& type, const ExportNames& inputs,
                 WrittenAttributes attributes = {});
  ExportNames ops(const std::string& type, const ExportNames& inputs, size_t outputs,
                  WrittenAttributes attributes = {});
  std::string cast(const std::string& value, DType from, DType to);
  // Constants: a scalar, a list of integers, a tensor.
  std::string number(DType dtype, double value);
  std::string integers(const std::vector<int64_t>& values);
  std::string constant(const Tensor& value);
  // The dimensions as a list of integers, computed from the batch where they follow it.
  std::string dimensions(const ExportDimensions& dims);
  // `value` with these dimensions, which hold as many elements.
  std::string reshaped(const std::string& value, const ExportDimensions& dims);
  std::string transposed(const std::string& value, const std::vector<int64_t>& perm);

  // Starts the graph of a body of Loop or If; what is added to this context meanwhile goes there.
  // Names of values around it may be used in it.
  void open_body();
  // Writes the nodes of body `index` of this node, whose inputs have these names, and returns the
  // names of its outputs.
  ExportNames write_body(size_t index, const ExportNames& inputs);
  // Ends the graph. Its outputs are made unique and its own; `inputs` and the types of `outputs`
  // are values of the written graph.
  std::shared_ptr<const WrittenGraph> close_body(const std::string& name,
                                                 std::vector<WrittenValue> inputs,
                                                 const ExportNames& outputs,
                                                 const std::vector<WrittenValue>& types);
  // Describes output `i` of the node, or of its body, for the two calls above.
  WrittenValue described_result(size_t i) const;
  WrittenValue described_output(size_t body, size_t i) const;
  // Returns a name that nothing else has: `name`, or that and a number.
  std::string unique(const std::string& name);
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  DType computed(DType dtype) const;
  ExportDimensions dims_of(const std::function<const Shape&(const Node&)>& shape,
                           const std::string& what) const;
  void require_same_attributes() const;

  GraphExporter& exporter_;
  std::vector<const Node*> twins_;  // the node, for each size of the batch that is probed
  ExportNames inputs_;
  ExportDtypes dtypes_;
};

struct ExportRule {
  std::string op;
  // Returns one value for each output of the node.
  std::function<ExportNames(ExportContext&)> write;
  ExportDtypes dtypes = ExportDtypes::kAsStored;
  // Says why a node cannot be written, where the rule does not hold for all of the op's; empty: it
  // can. Such a node is decomposed, where the op has a decomposition.
  std::function<std::string(const Node&)> refuses = nullptr;
};

class ExportRules {
 public:
  // Throws Error for a second rule for one op.
  void add(ExportRule rule);
  const ExportRule* find(std::string_view op) const;

 private:
  std::map<std::string, ExportRule, std::less<>> rules_;
};

// The rules of all files in export_rules/.
const ExportRules& export_rules();
// Generated from the files in export_rules/.
void register_export_rules(ExportRules& rules);

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_EXPORT_RULES_H
