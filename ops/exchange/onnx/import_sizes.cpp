#include "keel/ops/exchange/onnx/import_sizes.h"

#include <algorithm>
#include <string>

#include "keel/ops/elementwise.h"

namespace keel::onnx {
namespace {

constexpr int64_t kOther = static_cast<int64_t>(Origin::kOther);

// Whatever the elements of a mark became, each is an origin again, and none is forgotten.
Origins normalized(Tensor marks) {
  marks = marks.cast(i64, {}).clone();
  bool open = false;
  for (int64_t& mark : marks.data<int64_t>()) {
    if (mark != 0 && mark != static_cast<int64_t>(Origin::kPolynomial)) mark = kOther;
    open = open || mark != 0;
  }
  return open ? Origins(marks) : std::nullopt;
}

// Says whether an element-wise op adds, subtracts or multiplies.
bool keeps_polynomials(const Node& node) {
  for (const char* name : {"add", "sub", "mul", "neg"})
    if (node.op_name() == name) return true;
  // Whole numbers stay what they are in a wide dtype; floats are rounded to whole numbers, and
  // narrow dtypes do not hold large ones.
  return node.has(kConversion) && !is_float(node.input(0).dtype({})) &&
         size_of(node.type().dtype) >= size_of(i32);
}

// Says whether a node divides whole numbers by numbers of the file, and leaves no rest.
bool divides_evenly(const Node& node, const std::vector<Tensor>& marks,
                    const conformance::Evaluation& values) {
  if (node.op_name() != "div" || is_float(node.type().dtype)) return false;
  const auto divisors = marks[1].data<int64_t>();
  if (std::ranges::any_of(divisors, [](int64_t mark) { return mark != 0; })) return false;
  Graph graph;
  const Value rest =
      mod(graph.constant(values(node.input(0)), {}), graph.constant(values(node.input(1)), {}), {});
  const Tensor rests = conformance::Evaluation(graph, {})(rest).cast(i64, {});
  return std::ranges::all_of(rests.data<int64_t>(), [](int64_t number) { return number == 0; });
}

// Each element follows from those of the operands that broadcast to it.
Tensor elementwise_marks(const std::vector<Tensor>& operands, bool polynomial) {
  Graph graph;
  Value most;
  for (const Tensor& operand : operands) {
    const Value marks = graph.constant(operand, {});
    most = most.valid() ? maximum(most, marks, {}) : marks;
  }
  if (!polynomial) most = mul(most, kOther, {});
  return conformance::Evaluation(graph, {})(most);
}

}  // namespace

std::vector<bool> SizeLog::read(const std::vector<int64_t>& numbers) {
  const size_t place = trials_.back().size();
  std::vector<bool> open(numbers.size(), false);
  for (size_t trial = 0; trial + 1 < trials_.size(); ++trial) {
    const auto& reads = trials_[trial];
    const bool fits = place < reads.size() && reads[place].size() == numbers.size();
    for (size_t i = 0; i < numbers.size(); ++i)
      if (!fits || reads[place][i] != numbers[i]) open[i] = true;
  }
  trials_.back().push_back(numbers);
  return open;
}

Origins origins_of_sizes(const std::vector<bool>& open, const Shape& shape) {
  Tensor marks(i64, shape);
  for (size_t i = 0; i < open.size(); ++i)
    marks.set(static_cast<int64_t>(i),
              static_cast<double>(open[i] ? Origin::kPolynomial : Origin::kFile));
  return normalized(std::move(marks));
}

OriginTable::OriginTable(const Graph& graph, const ConstantOrigins& constants,
                         const conformance::Evaluation& values) {
  for (const Node& node : graph.nodes()) {
    const auto given = constants.find(node.id());
    if (given != constants.end())
      origins_.push_back({given->second});
    else
      origins_.push_back(origins_of(node, values));
  }
}

Tensor OriginTable::marks_of(const Value& input) const {
  const Origins& origins = (*this)(input);
  return origins ? *origins : Tensor::full(i64, input.shape({}), 0);
}

std::vector<Origins> OriginTable::origins_of(const Node& node,
                                             const conformance::Evaluation& values) const {
  std::vector<Tensor> marks;
  bool first_alone = true, open = false;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    marks.push_back(marks_of(node.input(i)));
    const bool is_open = (*this)(node.input(i)).has_value();
    open = open || is_open;
    first_alone = first_alone && (i == 0 || !is_open);
  }
  std::vector<Origins> results(node.types().size());
  if (!open) return results;
  // A bool is of comparisons, and too narrow for a mark.
  const bool moves = node.has(kMovement | kView) && node.type().dtype != boolean &&
                     (first_alone || node.op_name() == "concat");
  if (node.has(kElementwise) && !node.has(kBroadcast)) {
    const bool polynomial = keeps_polynomials(node) || divides_evenly(node, marks, values);
    results[0] = normalized(elementwise_marks(marks, polynomial));
    return results;
  }
  if (moves) {
    // The marks move as the numbers do, by the same places.
    for (size_t i = 0; i < marks.size(); ++i) {
      const Value& input = node.input(i);
      const bool moved = i == 0 || node.op_name() == "concat";
      marks[i] = moved ? marks[i].cast(input.dtype({}), {}) : values(input);
    }
    const std::vector<Tensor> places = conformance::evaluate_node(node, marks);
    for (size_t i = 0; i < places.size(); ++i) results[i] = normalized(places[i]);
    return results;
  }
  const bool adds = node.op_name() == "sum" || node.op_name() == "prod";
  const int64_t origin = adds ? *std::ranges::max_element(marks[0].data<int64_t>()) : kOther;
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = normalized(Tensor::full(i64, node.type(i).shape, static_cast<double>(origin)));
  return results;
}

}  // namespace keel::onnx
