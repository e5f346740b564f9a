// The rules that say what each OP type of the real tool's tables asks of the device.
#include "keel/backends/npu/measured/measured_types.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "keel/core/base/checked.h"
#include "keel/core/base/error.h"
#include "keel/graph/passes/passes.h"
#include "keel/ops/loss.h"

namespace keel::npu {
namespace {

using Instructions = std::vector<std::string>;

constexpr int64_t kFewImages = 16;

struct TypeRule {
  std::vector<std::string_view> types;
  MeasuredOp (*op)(const MeasuredRow&, const TypeRule&);
  MeasuredClass kind = MeasuredClass::kElementWise;
  Instructions instructions = {};
  bool every_core = false;      // it starts all cores, whatever it moves
  Instructions narrow = {};     // on results in f16
  bool deals_channels = false;  // where there are few images
};

const MeasuredTensor& input(const MeasuredRow& row, size_t i) {
  if (i < row.inputs.size()) return row.inputs[i];
  throw Error("fewer operands than the op has");
}

// Where a table has no results, they are like the widest operand.
std::vector<MeasuredTensor> results(const MeasuredRow& row) {
  std::vector<MeasuredTensor> list = row.outputs;
  if (list.empty() && !row.inputs.empty()) {
    list.push_back(*std::max_element(
        row.inputs.begin(), row.inputs.end(),
        [](const auto& a, const auto& b) { return a.elements() < b.elements(); }));
  }
  // Some tables leave the shapes of results out and say their dtypes alone.
  for (MeasuredTensor& tensor : list) {
    if (!tensor.dtype && !row.inputs.empty()) tensor.dtype = row.inputs[0].dtype;
  }
  return list;
}

MeasuredOp elementwise(const MeasuredRow& row, const TypeRule& rule) {
  input(row, 0);
  return elementwise_op(rule.kind, rule.instructions, row.inputs, results(row));
}

// Adam's results are the parameters and both moments, where a table does not name them.
MeasuredOp adam(const MeasuredRow& row, const TypeRule& rule) {
  if (!row.outputs.empty()) return elementwise(row, rule);
  input(row, 2);
  return elementwise_op(rule.kind, rule.instructions, row.inputs,
                        {row.inputs[0], row.inputs[1], row.inputs[2]});
}

// Images [n, c, h, w, 16] beside operands of other shapes, as a bit for each element or a value for
// each channel: the kernel deals whole images to cores, or whole channels where there are too few
// images for them.
MeasuredOp images(const MeasuredRow& row, const TypeRule& rule) {
  const MeasuredTensor& x = input(row, 0);
  MeasuredOp op = elementwise(row, rule);
  if (x.dims.size() != 5) return op;
  const bool by_channels = rule.deals_channels && x.dims[0] <= kFewImages;
  op.set_parts(std::max<int64_t>(1, by_channels ? x.dims[1] : x.dims[0]), Deal::kEven);
  return op;
}

// Functions of halves that are computed in f32: each operand is cast on its way, and the result.
MeasuredOp function(const MeasuredRow& row, const TypeRule& rule) {
  TypeRule wide = rule;
  int64_t narrow = 0;
  for (const auto& list : {row.inputs, results(row)}) {
    for (const MeasuredTensor& tensor : list) {
      if (tensor.elements() > 1 && size_in_bytes(type_of(tensor).dtype) == 2) ++narrow;
    }
  }
  wide.instructions.insert(wide.instructions.end(), static_cast<size_t>(narrow), "cast");
  MeasuredOp op = elementwise(row, wide);
  op.set_computed_in_f32();
  return op;
}

// AddN: an addition for each operand behind the first.
MeasuredOp additions(const MeasuredRow& row, const TypeRule& rule) {
  input(row, 0);
  return elementwise_op(rule.kind, Instructions(row.inputs.size() - 1, "add"), row.inputs,
                        results(row));
}

// Instructions for each element of rows along the last axis, each computed by itself.
MeasuredOp rows_of_last(const MeasuredRow& row, const TypeRule& rule) {
  VectorRecipe recipe;
  recipe.instructions = rule.instructions;
  for (const MeasuredTensor& tensor : row.inputs) recipe.inputs.push_back(type_of(tensor));
  for (const MeasuredTensor& tensor : results(row)) recipe.outputs.push_back(type_of(tensor));
  const std::vector<int64_t> dims = plain_dims(input(row, 0));
  recipe.elements = row.inputs[0].elements();
  recipe.row = dims.empty() ? 1 : dims.back();
  return {rule.kind, std::move(recipe)};
}

// The last two dimensions of a product's results.
std::pair<int64_t, int64_t> result_of(const MeasuredRow& row) {
  if (row.outputs.empty()) return {-1, -1};
  MeasuredTensor result = row.outputs[0];
  // Where a table leaves out the formats of results, blocks of fractals tell themselves.
  const std::vector<int64_t>& blocked = result.dims;
  const bool in_blocks = blocked.size() >= 4 && blocked.back() == 16 &&
                         blocked[blocked.size() - 2] == 16 && row.inputs[0].format == "FRACTAL_NZ";
  if (result.format.empty() && in_blocks) result.format = "FRACTAL_NZ";
  const std::vector<int64_t> dims = plain_dims(result);
  if (dims.size() < 2) return {-1, -1};
  return {dims[dims.size() - 2], dims.back()};
}

ProductOptions orientation(const MeasuredRow& row) {
  const std::vector<int64_t> a = plain_dims(input(row, 0)), b = plain_dims(input(row, 1));
  if (a.size() < 2 || b.size() < 2) throw Error("a product of vectors");
  const auto [m, n] = result_of(row);
  for (const bool tb : {false, true}) {
    for (const bool ta : {false, true}) {
      const auto at = [](const std::vector<int64_t>& dims, bool last) {
        return dims[dims.size() - (last ? 1 : 2)];
      };
      if (at(a, !ta) != at(b, tb)) continue;
      if (m >= 0 && (at(a, ta) != m || at(b, !tb) != n)) continue;
      return {ta, tb, false};
    }
  }
  throw Error("operands that make no product");
}

bool is_wide(const MeasuredRow& row) {
  return !row.outputs.empty() && row.outputs[0].dtype == f32 && input(row, 0).dtype != f32;
}

// A product with what is fused to it: operands behind the first two that are as large as the
// result come in beside it, smaller ones stay on the core. Where the OP type names a function of
// such operands, its instructions are all that is done with them; else they are added. The vector
// unit computes in f32, so that 16-bit operands and results are cast on their way; a bias alone is
// no reason to.
MeasuredOp product(const MeasuredRow& row, const TypeRule& rule) {
  ProductOptions options = orientation(row);
  options.wide = is_wide(row);
  MeasuredOp op = product_op(row.inputs[0], row.inputs[1], options);
  ProductEpilogue epilogue{rule.instructions};
  const int64_t elements = row.outputs.empty() ? 0 : row.outputs[0].elements();
  const auto cast_where_narrow = [&](DType dtype) {
    if (size_in_bytes(dtype) == 2) epilogue.instructions.emplace_back("cast");
  };
  for (size_t i = 2; i < row.inputs.size(); ++i) {
    const DType dtype = type_of(row.inputs[i]).dtype;
    const bool beside = row.inputs[i].elements() == elements;
    if (!beside || rule.instructions.empty()) epilogue.instructions.emplace_back("add");
    if (!beside) continue;
    cast_where_narrow(dtype);
    epilogue.bytes_in += size_in_bytes(dtype);
  }
  if (epilogue.instructions.empty() && row.outputs.size() <= 1) return op;
  const bool computes = !rule.instructions.empty() || epilogue.bytes_in > 0;
  epilogue.bytes_out = row.outputs.empty() ? -1 : 0;
  for (const MeasuredTensor& result : row.outputs) {
    const DType dtype = type_of(result).dtype;
    if (computes) cast_where_narrow(dtype);
    epilogue.bytes_out += size_in_bytes(dtype);
  }
  op.set_epilogue(epilogue);
  return op;
}

// [batch, ...] by weights in fractals [k, n, 16, block]; the bias is the cube's.
MeasuredOp connection(const MeasuredRow& row, const TypeRule&) {
  const MeasuredTensor &x = input(row, 0), &w = input(row, 1);
  if (w.dims.size() != 4 || x.dims.size() != 5) throw Error("operands in no known blocks");
  const int64_t k = checked_mul(w.dims[0], w.dims[3]), n = checked_mul(w.dims[1], w.dims[2]);
  if (k == 0) throw Error("a product over nothing");
  MeasuredTensor a = x, b = w;
  a.dims = {x.elements() / k, k};
  // Each item of the batch of an operand in fractals is a product by itself.
  if (x.format == "FRACTAL_NZ") a.dims = {x.dims[0], checked_mul(x.dims[2], x.dims[3]), k};
  a.format = b.format = "ND";
  b.dims = {k, n};
  MeasuredOp op = product_op(a, b, {});
  op.set_fractal(true, true);
  if (x.format == "FRACTAL_NZ") op.set_batch(x.dims[0]);
  return op;
}

MeasuredOp column_sums(const MeasuredRow& row, const TypeRule&) {
  MeasuredTensor x = input(row, 0);
  x.dims = plain_dims(x);
  const Type type = type_of(x);
  std::vector<int64_t> axes;
  for (size_t i = 0; i + 1 < type.shape.rank(); ++i) axes.push_back(static_cast<int64_t>(i));
  return sum_op(type, axes);
}

// The axes of the operand that the result has not, where that is one alone.
MeasuredOp sums(const MeasuredRow& row, const TypeRule& rule) {
  const Type x = type_of(input(row, 0));
  const bool squares = !rule.instructions.empty();
  if (row.outputs.empty()) throw Error("a reduction whose result is not known");
  const MeasuredTensor& y = row.outputs[0];
  if (y.elements() <= 1) return sum_op(x, {}, squares);
  for (size_t axis = 0; axis < x.shape.rank(); ++axis) {
    std::vector<int64_t> left(x.shape.begin(), x.shape.end());
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(axis));
    if (left == y.dims) return sum_op(x, {static_cast<int64_t>(axis)}, squares);
  }
  throw Error("a reduction whose axes are not known");
}

// A change of layout, as from plain rows to blocks of 16 columns: [n, h, w] as [n, w / 16, h, 16].
// The table does not say in which runs, so that all of it streams.
MeasuredOp blocks(const MeasuredRow& row, const TypeRule& rule) {
  const MeasuredTensor& from = input(row, 0);
  if (row.outputs.empty()) throw Error("a conversion whose result is not known");
  const MeasuredTensor& to = row.outputs[0];
  VectorRecipe recipe;
  recipe.instructions = rule.instructions;
  recipe.inputs = {type_of(from)};
  recipe.outputs = {type_of(to)};
  recipe.elements = std::max(from.elements(), to.elements());
  recipe.every_core = rule.every_core;
  return {rule.kind, std::move(recipe)};
}

// Moves what the result holds, or what the operands hold where that is less.
MeasuredOp moved(const MeasuredRow& row, const TypeRule& rule) {
  if (row.outputs.empty()) throw Error("a copy whose result is not known");
  std::vector<MeasuredTensor> from;
  if (row.outputs.size() == 1 && row.outputs[0].elements() < input(row, 0).elements())
    from = {row.outputs[0]};
  else
    from = row.inputs;
  for (MeasuredTensor& tensor : from) {
    if (!tensor.dtype) tensor.dtype = input(row, 0).dtype;
  }
  return elementwise_op(rule.kind, rule.instructions, from, results(row));
}

MeasuredOp assigned(const MeasuredRow& row, const TypeRule& rule) {
  return elementwise_op(rule.kind, {}, {input(row, row.inputs.size() - 1)}, {input(row, 0)});
}

MeasuredOp softmax_of(const MeasuredRow& row, const TypeRule&) {
  MeasuredTensor x = input(row, 0);
  x.dims = plain_dims(x);
  const Type type = type_of(x);
  Graph graph;
  graph.set_outputs({softmax(graph.input("x", type.dtype, type.shape))});
  return {MeasuredClass::kSoftmax, std::shared_ptr<const Graph>(fuse(graph, [](const Node&) {
            return Support{true, ""};
          }))};
}

// Kernels with something fused to them deal whole images; others cut these, too. A result in f16
// that goes through instructions is cast for them; without any, the copy from the cube's buffer
// casts it.
template <MeasuredOp (*kOp)(const MeasuredRow&), Deal kDeal>
MeasuredOp convolved(const MeasuredRow& row, const TypeRule& rule) {
  MeasuredOp op = kOp(row);
  ProductEpilogue epilogue{rule.instructions, rule.narrow};
  if (epilogue.instructions.empty() && epilogue.narrow.empty()) return op;
  op.set_parts(input(row, 0).dims[0], kDeal);
  if (row.outputs[0].dtype == f16) epilogue.instructions.emplace_back("cast");
  op.set_epilogue(std::move(epilogue));
  return op;
}

constexpr MeasuredClass kCast = MeasuredClass::kCast, kReduce = MeasuredClass::kReduce,
                        kSoftmax = MeasuredClass::kSoftmax, kNorm = MeasuredClass::kNorm,
                        kTranspose = MeasuredClass::kTranspose, kCopy = MeasuredClass::kCopy,
                        kProduct = MeasuredClass::kProduct,
                        kConvolution = MeasuredClass::kConvolution,
                        kElementWise = MeasuredClass::kElementWise;

std::span<const TypeRule> rules() {
  static const Instructions gradient_of_gelu = {"gelu", "square", "exp", "mul",
                                                "mul",  "add",    "mul"};
  static const TypeRule list[] = {
      {{"Add", "AssignAdd"}, elementwise, kElementWise, {"add"}},
      {{"Sub"}, elementwise, kElementWise, {"sub"}},
      {{"Mul", "Muls"}, elementwise, kElementWise, {"mul"}},
      {{"RealDiv", "Div"}, elementwise, kElementWise, {"div"}},
      {{"Maximum", "maximum"}, elementwise, kElementWise, {"maximum"}},
      {{"Minimum"}, elementwise, kElementWise, {"minimum"}},
      {{"Neg"}, elementwise, kElementWise, {"neg"}},
      {{"Abs"}, elementwise, kElementWise, {"abs"}},
      {{"Square"}, elementwise, kElementWise, {"square"}},
      {{"Sqrt"}, elementwise, kElementWise, {"sqrt"}},
      {{"Rsqrt"}, elementwise, kElementWise, {"rsqrt"}},
      {{"Reciprocal"}, elementwise, kElementWise, {"reciprocal"}},
      {{"Exp", "exp"}, elementwise, kElementWise, {"exp"}},
      {{"Log"}, elementwise, kElementWise, {"log"}},
      {{"Pow"}, elementwise, kElementWise, {"pow"}},
      {{"Tanh"}, elementwise, kElementWise, {"tanh"}},
      {{"Sigmoid", "sigmoid"}, elementwise, kElementWise, {"sigmoid"}},
      {{"Gelu", "GeLU", "GeluV2", "gelu"}, elementwise, kElementWise, {"gelu"}},
      {{"Relu", "ReLU", "ReluV2"}, elementwise, kElementWise, {"relu"}},
      {{"Greater"}, elementwise, kElementWise, {"greater"}},
      {{"GreaterEqual"}, elementwise, kElementWise, {"greater_equal"}},
      {{"Less"}, elementwise, kElementWise, {"less"}},
      {{"LessEqual"}, elementwise, kElementWise, {"less_equal"}},
      {{"Equal"}, elementwise, kElementWise, {"equal"}},
      {{"NotEqual"}, elementwise, kElementWise, {"not_equal"}},
      {{"LogicalAnd"}, elementwise, kElementWise, {"logical_and"}},
      {{"LogicalOr"}, elementwise, kElementWise, {"logical_or"}},
      {{"LogicalNot"}, elementwise, kElementWise, {"logical_not"}},
      {{"Select", "SelectV2"}, elementwise, kElementWise, {"select"}},
      {{"AddN"}, additions},
      {{"FusedMulAddN", "FusedMulAdd", "Axpy"}, elementwise, kElementWise, {"mul", "add"}},
      {{"FusionOp_Mul_Neg"}, elementwise, kElementWise, {"mul", "neg"}},
      {{"FusionOp_RealDiv_Neg"}, elementwise, kElementWise, {"div", "neg"}},
      {{"ReluGrad"}, elementwise, kElementWise, {"minimum", "mul"}},
      // A mask of bits chooses a register at a time.
      {{"ReluGradV2"}, elementwise, kElementWise, {"cast", "select"}},
      {{"TanhGrad"}, function, kElementWise, {"square", "sub", "mul"}},
      {{"GeLUGrad", "GeluGrad"}, function, kElementWise, gradient_of_gelu},
      {{"mish"}, elementwise, kElementWise, {"exp", "log1p", "tanh", "mul"}},
      {{"swi_glu", "SwiGlu"}, elementwise, kElementWise, {"sigmoid", "mul", "mul"}},
      {{"DropoutDoMask"}, elementwise, kElementWise, {"mul", "select"}},
      {{"MinimumGrad", "MaximumGrad"}, elementwise, kElementWise, {"less", "select", "select"}},
      {{"ApplyRMSProp", "ApplyRMSPropD"},
       elementwise,
       kElementWise,
       {"square", "sub", "mul", "add", "add", "sqrt", "mul", "mul", "div", "add", "sub"}},
      {{"Adam", "ApplyAdam", "ApplyAdamD", "apply_adam_w", "ApplyAdamW"},
       adam,
       kElementWise,
       {"sub", "mul", "add", "square", "sub", "mul", "add", "sqrt", "add", "mul", "div", "sub"}},
      {{"LambApplyOptimizerAssign"},
       elementwise,
       kElementWise,
       {"mul", "mul", "add", "square", "mul", "mul", "add", "div", "div", "sqrt", "add", "div",
        "mul", "add"}},
      {{"LambApplyWeightAssign"}, elementwise, kElementWise, {"mul", "sub"}},
      {{"SigmoidCrossEntropyWithLogits"},
       elementwise,
       kElementWise,
       {"relu", "mul", "abs", "exp", "log1p", "sub", "add"}},
      {{"SigmoidCrossEntropyWithLogitsGrad"}, elementwise, kElementWise, {"sigmoid", "sub", "mul"}},
      // Sums over the images of what comes back, and of it times the normalised operand.
      {{"BNTrainingUpdateGrad"},
       images,
       kNorm,
       {"cast", "cast", "sub", "mul", "mul", "add", "add"}},
      {{"BNTrainingReduceGrad"}, images, kNorm, {"cast", "cast", "mul", "mul", "add", "cast"}},
      // The cast to halves applies relu (AddReluCast of Ascend C); a bit is kept for each element
      // that it let through.
      {{"FusionOp_BNTrainingUpdate_ReLUV2"},
       images,
       kNorm,
       {"cast", "mul", "add", "cast", "greater"},
       false,
       {},
       true},
      {{"Cast"}, elementwise, kCast, {"cast"}},
      {{"ReduceSum", "ReduceSumD"}, sums, kReduce},
      {{"SquareSumV1", "FusionOp_ReduceSum_Square"}, sums, kReduce, {"square"}},
      {{"SquareSumV2"}, elementwise, kReduce, {"square", "add"}},
      {{"BiasAddGrad"}, column_sums, kReduce},
      {{"Softmax", "SoftmaxV2", "softmax"}, softmax_of, kSoftmax},
      {{"LogSoftmax", "LogSoftmaxV2"}, rows_of_last, kSoftmax, {"sum", "sub", "exp", "sum", "sub"}},
      {{"LogSoftmaxGrad"}, rows_of_last, kSoftmax, {"sum", "exp", "mul", "sub"}},
      {{"SoftmaxGrad", "SoftmaxGradExt"},
       rows_of_last,
       kSoftmax,
       {"cast", "cast", "mul", "sum", "sub", "mul", "mul", "cast"}},
      // Instances are the planes of images with channels last.
      {{"LayerNorm", "LayerNormV3", "InstanceNorm"},
       rows_of_last,
       kNorm,
       {"sum", "sub", "square", "sum", "mul", "mul", "add"}},
      {{"rms_norm", "RmsNorm"},
       rows_of_last,
       kNorm,
       {"cast", "square", "sum", "mul", "mul", "cast"}},
      {{"MatMul", "MatMulV2", "MatMulV3", "BatchMatMul", "BatchMatMulV2", "Gemm"},
       product,
       kProduct},
      {{"FusionOp_MatMul_AddN", "FusionOp_MatMul_Mul", "FusionOp_MatMul_Add"}, product, kProduct},
      {{"FusionOp_MatMul_GeLU"}, product, kProduct, {"gelu"}},
      {{"FusionOp_MatMul_ReLU"}, product, kProduct, {"relu"}},
      {{"FusionOp_MatMul_Tanh"}, product, kProduct, {"tanh"}},
      {{"FusionOp_MatMul_GeLUGrad"}, product, kProduct, gradient_of_gelu},
      {{"FusionOp_BatchMatMul_FusedMulAdd"}, product, kProduct},
      {{"FullyConnection"}, connection, kProduct},
      {{"Conv2D"}, convolved<convolution, Deal::kEqual>},
      // Sums of the results of each channel, and of their squares.
      {{"FusionOp_Conv2D_BNTrainingReduce"},
       convolved<convolution, Deal::kEqual>,
       kConvolution,
       {"add", "square", "add"}},
      {{"Conv2DBackpropInput"}, convolved<images_gradient, Deal::kEven>},
      {{"FusionOp_Conv2DBackpropInput_ReluGradV2"},
       convolved<images_gradient, Deal::kEven>,
       kConvolution,
       {},
       false,
       {"select"}},
      {{"TransData"}, blocks, kTranspose, {"copy", "copy"}, true},
      {{"Transpose", "TransposeD", "ConfusionTransposeD", "transpose"},
       blocks,
       kTranspose,
       {"copy", "copy"}},
      {{"Assign"}, assigned, kCopy},
      {{"TensorMove", "Slice", "SliceD", "StridedSlice", "StridedSliceD", "Concat", "ConcatD",
        "ConcatV2D", "Split", "SplitD", "SplitVD", "Tile", "TileD", "BroadcastTo", "Identity"},
       moved,
       kCopy},
  };
  return list;
}

}  // namespace

std::vector<std::string> mapped_types() {
  std::vector<std::string> types;
  for (const TypeRule& rule : rules()) types.emplace_back(rule.types.front());
  return types;
}

MeasuredOp op_of_type(const MeasuredRow& row) {
  for (const TypeRule& rule : rules()) {
    if (std::find(rule.types.begin(), rule.types.end(), row.type) != rule.types.end())
      return rule.op(row, rule);
  }
  throw Error(kNoRuleForType);
}

}  // namespace keel::npu
