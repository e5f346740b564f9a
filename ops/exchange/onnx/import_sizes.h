// Numbers that an import knows only because a trial put sizes in for dimensions that the file
// leaves open (import_trials.h). Where such a number decides what is built, another size might have
// decided otherwise; so the importer keeps with each number what it is computed from, and rules use
// only those that follow from the file alone. Internal to the import; one thread.
#ifndef KEEL_OPS_EXCHANGE_ONNX_IMPORT_SIZES_H
#define KEEL_OPS_EXCHANGE_ONNX_IMPORT_SIZES_H

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "keel/graph/ir/graph.h"
#include "keel/ops/conformance/evaluate.h"

namespace keel::onnx {

// Says what a number is computed from.
enum class Origin : int64_t {
  kFile = 0,        // from nothing that is open
  kPolynomial = 1,  // from open dimensions by sums, products and divisions without a rest
  kOther = 2,       // from open dimensions in any other way, such as a remainder or a comparison
};

// The origins of a tensor's elements as i64 of its shape; nothing where all of them are kFile.
using Origins = std::optional<Tensor>;

// Origins of the constants of a graph, by node.
using ConstantOrigins = std::map<uint32_t, Tensor>;

// The dimensions that each trial's import read, in the order in which it read them. A dimension is
// open where trials read different ones.
class SizeLog {
 public:
  // Says that the import of the next trial begins.
  void begin() { trials_.emplace_back(); }
  // Notes what this trial reads next, and says of each number whether an earlier trial read another
  // one in its place. The first trial has none to compare with: what it builds is not to be trusted
  // by itself.
  std::vector<bool> read(const std::vector<int64_t>& numbers);

 private:
  std::vector<std::vector<std::vector<int64_t>>> trials_;
};

// Returns the origins of these numbers, of which some are open as they stand. One for each.
Origins origins_of_sizes(const std::vector<bool>& open, const Shape& shape);

// The origins of every value of a graph that was evaluated.
class OriginTable {
 public:
  OriginTable(const Graph& graph, const ConstantOrigins& constants,
              const conformance::Evaluation& values);
  const Origins& operator()(const Value& value) const {
    return origins_.at(value.node_id()).at(value.output());
  }

 private:
  std::vector<Origins> origins_of(const Node& node, const conformance::Evaluation& values) const;
  // Returns the origins of an input as a tensor.
  Tensor marks_of(const Value& input) const;

  std::vector<std::vector<Origins>> origins_;  // by node, by output
};

}  // namespace keel::onnx

#endif  // KEEL_OPS_EXCHANGE_ONNX_IMPORT_SIZES_H
