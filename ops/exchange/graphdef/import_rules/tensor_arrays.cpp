// Arrays of tensors, as loops over time have them. An array is a tensor of its own, with the
// elements along the first axis, and is what the float called flow carries from node to node; the
// handle is a number that says nothing. So it is a variable of the loops that write to it.
//
// An array whose elements have no known shape yet is [size, 0]. The first node that writes to it
// says their shape, and so does the loop that this node is in (control.cpp).
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "keel/ops/elementwise.h"
#include "keel/ops/exchange/graphdef/op_rules.h"
#include "keel/ops/gather.h"
#include "keel/ops/shape.h"

namespace keel::graphdef {
namespace {

using onnx::NodeContext;
using Ints = std::vector<int64_t>;

constexpr int64_t kMostElements = 1 << 24;

Values array(NodeContext& c) {
  for (const char* name : {"clear_after_read", "tensor_array_name", "identical_element_shapes"})
    c.ignore(name);
  if (c.attribute("dynamic_size", int64_t{0}) != 0) c.refuse("its size grows as it is written");
  const int64_t size = c.integer(0, "the size");
  if (size < 0 || size > kMostElements)
    c.refuse("its size is " + std::to_string(size) + ", which is not from 0 to 2^24");
  Ints dims{size, 0};
  const onnx::AttributeProto* element = c.find_attribute("element_shape");
  if (element != nullptr && element->type == onnx::AttributeType::kInts &&
      std::all_of(element->ints.begin(), element->ints.end(), [](int64_t d) { return d > 0; })) {
    dims.resize(1);
    dims.insert(dims.end(), element->ints.begin(), element->ints.end());
  }
  const Value flow = zeros_of(c.graph(), {c.dtype_attribute("dtype"), Shape(dims)}, {});
  return {c.result(Tensor::scalar<int32_t>(0)), flow};
}

bool is_unwritten(const Shape& flow) { return flow.rank() == 2 && flow[1] == 0; }

Value flow_of(NodeContext& c, size_t input) {
  c.ignore(size_t{0});
  const Value flow = c.in(input);
  c.known_shape(flow, "its array");
  if (flow.shape({}).rank() == 0) c.refuse("its flow comes from no array");
  return flow;
}

Value written_flow(NodeContext& c, size_t input) {
  const Value flow = flow_of(c, input);
  if (is_unwritten(flow.shape({}))) c.refuse("it reads an array that nothing was written to");
  return flow;
}

// Writing of truth values casts the array there and back.
bool is_written_by(const Node& node) {
  return node.op_name() == "scatter_add" || node.op_name() == "cast";
}

using Places = std::unordered_set<double>;

// Returns the places that all nodes say that made the array, as far as they are known.
Places places_in(const Value& flow) {
  Places written;
  for (const Node* node = &flow.node(); is_written_by(*node); node = &node->inputs()[0].node()) {
    if (node->op_name() != "scatter_add") continue;
    const Node& before = node->inputs()[1].node();
    if (!before.is(OpRole::kConstant)) continue;
    const Tensor& known = before.as<ConstantAttributes>().value;
    for (int64_t i = 0; i < known.num_elements(); ++i) written.insert(known.at(i));
  }
  return written;
}

// Refuses a second write to a place that is known.
void add_places(NodeContext& c, Places& written, const Value& places) {
  if (!places.node().is(OpRole::kConstant)) return;
  const Tensor& own = places.node().as<ConstantAttributes>().value;
  for (int64_t i = 0; i < own.num_elements(); ++i)
    if (!written.insert(own.at(i)).second)
      c.refuse("it writes to place " + std::to_string(static_cast<int64_t>(own.at(i))) +
               " of its array, which is written already");
}

// Elements [count, ...] at places [count] of an array; each place is written once.
Values with_elements(NodeContext& c, Value flow, const Value& places, const Value& elements) {
  const Shape shape = c.known_shape(elements, "what it writes");
  Ints dims(shape.begin(), shape.end());
  if (dims.empty()) c.refuse("what it writes has no first axis");
  dims[0] = flow.shape({})[0];
  if (elements.dtype({}) != flow.dtype({})) c.refuse("it writes another dtype than its array's");
  if (is_unwritten(flow.shape({})))
    flow = zeros_of(c.graph(), {flow.dtype({}), Shape(dims)}, {});
  else if (flow.shape({}) != Shape(dims))
    c.refuse("it writes elements of another shape than those of its array " +
             to_string(flow.shape({})));
  // Each write goes on with what the one before it noted. Of several behind one array the first has
  // that, and the others note nothing: their sets would be as many copies.
  std::optional<Places> noted = c.take_note(flow);
  const bool goes_on = noted || !is_written_by(flow.node());
  Places written = noted ? std::move(*noted) : places_in(flow);
  add_places(c, written, places);
  const DType dtype = flow.dtype({});
  const Value made =
      dtype != boolean
          ? scatter_add(flow, places, elements, {})
          : cast(scatter_add(cast(flow, u8, {}), places, cast(elements, u8, {}), {}), dtype, {});
  if (goes_on) c.note(made, std::move(written));
  return {made};
}

Values write(NodeContext& c) {
  const std::optional<Tensor> known = c.known(1);
  const Value place = known ? c.result(known->reshaped(Shape{1})) : reshape(c.in(1), Shape{1}, {});
  return with_elements(c, flow_of(c, 3), place, expand_dims(c.in(2), {0}, {}));
}
Values scatter(NodeContext& c) {
  const std::optional<Tensor> known = c.known(1);
  return with_elements(c, flow_of(c, 3), known ? c.result(*known) : c.in(1), c.in(2));
}

// A value cut into elements along its first axis. Those of an array are of one shape here.
Values split(NodeContext& c) {
  const Value x = c.in(1), flow = flow_of(c, 3);
  const Ints lengths = c.integers(2, "the lengths");
  const Shape shape = c.known_shape(x, "what it writes");
  const int64_t size = flow.shape({})[0];
  if (shape.rank() == 0 || lengths.empty() || static_cast<int64_t>(lengths.size()) != size)
    c.refuse("its lengths do not fit its array");
  const int64_t length = lengths[0];
  if (std::count(lengths.begin(), lengths.end(), length) != size)
    c.refuse("its lengths are not all the same");
  if (length < 0 || shape[0] % size != 0 || shape[0] / size != length)
    c.refuse("its lengths do not sum to the first axis of what it writes");
  Ints dims{size, length};
  dims.insert(dims.end(), shape.begin() + 1, shape.end());
  const Value places = iota(c.graph(), i64, {size}, 0, {});
  return with_elements(c, flow, places, reshape(x, Shape(dims), {}));
}

Values read(NodeContext& c) { return {gather(written_flow(c, 2), c.in(1), 0, {})}; }
Values gather_elements(NodeContext& c) {
  c.ignore("element_shape");
  return {gather(written_flow(c, 2), c.in(1), 0, {})};
}

Values array_size(NodeContext& c) {
  const auto size = static_cast<int32_t>(flow_of(c, 1).shape({})[0]);
  return {c.result(Tensor::scalar<int32_t>(size))};
}

// The elements one behind the other along their first axis, and how long each is.
Values concatenated(NodeContext& c) {
  c.ignore("element_shape_except0");
  const Value flow = written_flow(c, 1);
  const Shape shape = flow.shape({});
  if (shape.rank() < 2) c.refuse("its elements are numbers");
  Ints dims(shape.begin() + 1, shape.end());
  dims[0] *= shape[0];
  return {reshape(flow, Shape(dims), {}),
          c.result(Tensor::full(i64, {shape[0]}, static_cast<double>(shape[1])))};
}

Values closed(NodeContext& c) {
  c.ignore(size_t{0});
  return {};
}

}  // namespace

void register_graphdef_tensor_arrays(OpRules& rules) {
  rules.add("TensorArrayV3", array);
  rules.add("TensorArrayWriteV3", write);
  rules.add("TensorArrayScatterV3", scatter);
  rules.add("TensorArraySplitV3", split);
  rules.add("TensorArrayReadV3", read);
  rules.add("TensorArrayGatherV3", gather_elements);
  rules.add("TensorArraySizeV3", array_size);
  rules.add("TensorArrayConcatV3", concatenated);
  rules.add("TensorArrayCloseV3", {.make = closed, .gives_nothing = true});
}

}  // namespace keel::graphdef
