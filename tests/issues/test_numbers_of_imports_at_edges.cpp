// What ONNX and TensorFlow say of numbers at the ends of their dtypes was not what imports made of
// them: a resize counted its elements in f64 where ONNX counts in f32, a coupled LSTM let the wrong
// gate lead, indices of a MaxPool named padding, remainders and ranges overflowed, padding was
// rounded to f64, a count that is not a number was made an integer, an exported slice that has no
// elements got one, products of bytes were rounded before their sum, and bounds beyond f16, which
// bind nothing, were refused.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"
#include "keel/ops/exchange/graphdef/file/read_graph_def.h"
#include "keel/ops/exchange/graphdef/import.h"
#include "keel/ops/exchange/onnx/export.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/error_of.h"
#include "support/graph_def_op.h"
#include "support/graph_def_text.h"
#include "support/onnx_op.h"
#include "support/temp_folder.h"

namespace keel {
namespace {

using namespace keel_test;

constexpr int32_t kSmallest = std::numeric_limits<int32_t>::min();
constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();

Tensor i32s(const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>({static_cast<int64_t>(values.size())}, values);
}
Tensor float_row(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}
onnx::ImportedModel imported_of_op_set(const OnnxGraph& graph, int64_t opset = 17) {
  return onnx::import_model(onnx::parse_model(onnx_model(graph, opset), "m.onnx"), {});
}

}  // namespace

TEST_SUITE_BEGIN("issues");

// In f32 10 * 0.7, 10 * 0.9 and 5 * 1.4 are 7, 9 and 7; in f64 the same factors give less.
TEST_CASE("a resize has as many elements as its scale says in f32") {
  const auto length = [](const char* op, int64_t in, float scale) {
    const bool resize = std::string(op) == "Resize";
    std::vector<OnnxOperand> operands{{"x", onnx_counting({1, 1, in})}};
    if (resize) operands.push_back({});
    operands.push_back({"s", float_row({1, 1, scale}), true});
    return OnnxOp{.op = op, .operands = operands, .opset = resize ? 13 : 9}.run().shape()[2];
  };
  for (const char* op : {"Resize", "Upsample"}) {
    CAPTURE(op);
    CHECK(length(op, 10, 0.7f) == 7);
    CHECK(length(op, 10, 0.9f) == 9);
    CHECK(length(op, 5, 1.4f) == 7);
    CHECK(length(op, 10, 0.55f) == 5);
    CHECK(length(op, 10, 2.0f) == 20);
  }
}

// One cell of 2 whose input gate is 3/4 and whose candidate is 1/2: 1/4 of the cell stays, and 3/4
// of the candidate comes: 1/2 + 3/8. Its forget gate by itself would be 1/2.
TEST_CASE("in a coupled LSTM the forget gate is what the input gate leaves") {
  const float log3 = std::log(3.0f);
  const std::vector<float> none(4, 0.0f);
  const OnnxGraph graph{
      .nodes = {onnx_node("LSTM", {"x", "w", "r", "b", "", "h", "c"}, {"", "", "y"},
                          {onnx_int("hidden_size", 1), onnx_int("input_forget", 1)})},
      .initializers = {onnx_floats("w", {1, 4, 1}, none), onnx_floats("r", {1, 4, 1}, none),
                       onnx_floats("b", {1, 8}, {log3, 0, 0, log3 / 2, 0, 0, 0, 0}),
                       onnx_floats("h", {1, 1, 1}, {0}), onnx_floats("c", {1, 1, 1}, {2})},
      .inputs = {onnx_value("x", 1, {1, 1, 1})},
      .outputs = {bytes_field(1, "y")}};
  const onnx::ImportedModel model = imported_of_op_set(graph);
  Session session(*model.graph, device("ref"));
  const Tensor y = session.run(model.output("y"), {{model.input("x"), Tensor(f32, {1, 1, 1})}});
  CHECK(y.at(0) == doctest::Approx(0.875));
}

// Windows of 2 x 2 around 3 x 3 elements that are all the lowest of their dtype.
TEST_CASE("the places of largest elements are never those of padding") {
  const std::vector<int64_t> rows{0, 0, 1, 2, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8};
  const double infinity = std::numeric_limits<double>::infinity();
  struct Lowest {
    int type;
    DType dtype;
    double value;
  };
  for (const Lowest& lowest :
       {Lowest{1, f32, -infinity}, Lowest{2, u8, 0}, Lowest{6, i32, static_cast<double>(kSmallest)},
        Lowest{7, i64, -0x1p63}}) {
    CAPTURE(lowest.type);
    const OnnxGraph graph{
        .nodes = {onnx_node("MaxPool", {"x"}, {"y", "i"},
                            {onnx_ints("kernel_shape", {2, 2}), onnx_ints("pads", {1, 1, 1, 1})})},
        .inputs = {onnx_value("x", lowest.type, {1, 1, 3, 3})},
        .outputs = {bytes_field(1, "y"), bytes_field(1, "i")}};
    const onnx::ImportedModel model = imported_of_op_set(graph);
    Session session(*model.graph, device("ref"));
    Tensor x = Tensor::full(lowest.dtype, {1, 1, 3, 3}, lowest.value);
    const Tensor places = session.run(model.output("i"), {{model.input("x"), x}});
    CHECK(bit_equal(places, onnx_int64({1, 1, 4, 4}, rows)));
    // One element is larger: its windows name it.
    x.set(4, 7);
    const Tensor named = session.run(model.output("i"), {{model.input("x"), x}});
    for (const int64_t window : {5, 6, 9, 10}) CHECK(named.at(window) == 4);
    CHECK(named.at(2) == 1);
  }
}

TEST_CASE("quotients and remainders of the least integer are those of mathematics") {
  const std::vector<int32_t> a{kSmallest, kLargest, kSmallest, kSmallest, -7, 7, 6};
  const std::vector<int32_t> b{7, kSmallest, 3, kSmallest, 2, -2, -3};
  // a - b * trunc(a / b): -2^31 = -7 * 306783378 - 2, and -2^31 = -3 * 715827882 - 2.
  const Tensor truncated = i32s({-2, kLargest, -2, 0, -1, 1, 0});
  const OnnxOp mod{.op = "Mod",
                   .operands = {{"a", i32s(a)}, {"b", i32s(b)}},
                   .attributes = {onnx_int("fmod", 1)}};
  CHECK(bit_equal(mod.run(), truncated));
  CHECK(bit_equal(mod.run("cpu"), truncated));
  CHECK(bit_equal(run_graph_def_op("TruncateMod", {i32s(a), i32s(b)}), truncated));
  CHECK(bit_equal(run_graph_def_op("FloorDiv", {i32s(a), i32s(b)}),
                  i32s({-306783379, -1, -715827883, 1, -4, -4, -2})));
}

TEST_CASE("ranges reach from one end of their dtype to the other") {
  const Tensor whole = i32s({kSmallest, -(1 << 30), 0, 1 << 30}), half = i32s({0, 1 << 30});
  const Tensor down = i32s({kLargest, kLargest - (1 << 30), -1, -1 - (1 << 30)});
  const auto scalar = [](int32_t value) { return Tensor::scalar<int32_t>(value); };
  const auto range = [&](int32_t start, int32_t limit, int32_t step) {
    return OnnxOp{.op = "Range",
                  .operands = {{"a", scalar(start), true},
                               {"b", scalar(limit), true},
                               {"c", scalar(step), true}}}
        .run();
  };
  const auto tensorflow_range = [&](int32_t start, int32_t limit, int32_t step) {
    return run_graph_def_op("Range", {scalar(start), scalar(limit), scalar(step)});
  };
  CHECK(bit_equal(range(kSmallest, kLargest, 1 << 30), whole));
  CHECK(bit_equal(range(0, kLargest, 1 << 30), half));
  CHECK(bit_equal(range(kLargest, kSmallest, -(1 << 30)), down));
  CHECK(range(3, 3, 1).num_elements() == 0);
  CHECK(bit_equal(tensorflow_range(kSmallest, kLargest, 1 << 30), whole));
  CHECK(bit_equal(tensorflow_range(0, kLargest, 1 << 30), half));
  CHECK(bit_equal(tensorflow_range(kLargest, kSmallest, -(1 << 30)), down));
  const std::string many = error_of([&] { range(kSmallest, kLargest, 1); });
  CHECK_MESSAGE(contains(many, "more than 2^24 numbers"), many);
}

TEST_CASE("what is no number of elements or no place is refused") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto range = [](float start, float limit) {
    OnnxOp{.op = "Range",
           .operands = {{"a", Tensor::scalar(start), true},
                        {"b", Tensor::scalar(limit), true},
                        {"c", Tensor::scalar(1.0f), true}}}
        .run();
  };
  const std::string count = error_of([&] { range(0, nan); });
  CHECK_MESSAGE(contains(count, "say no count of numbers"), count);
  const std::string endless = error_of([&] { range(0, std::numeric_limits<float>::infinity()); });
  CHECK_MESSAGE(contains(endless, "more than 2^24 numbers"), endless);
  for (const char* mode : {"nearest", "linear"}) {
    const OnnxOp crop{
        .op = "Resize",
        .operands = {{"x", onnx_counting({1, 1, 4})},
                     {"roi", float_row({0, 0, 0, 1, 1, nan}), true},
                     {"s", float_row({1, 1, 2}), true}},
        .attributes = {onnx_text("mode", mode),
                       onnx_text("coordinate_transformation_mode", "tf_crop_and_resize")}};
    const std::string nowhere = error_of([&] { crop.run(); });
    CHECK_MESSAGE(contains(nowhere, "lies nowhere in its input"), nowhere);
  }
}

TEST_CASE("padding by an integer beyond the precision of f64 is refused and not rounded") {
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto padded = [](int64_t value) {
    return OnnxOp{.op = "Pad",
                  .operands = {{"x", onnx_int64({2}, {1, 2})},
                               {"p", onnx_int64({2}, {0, 1}), true},
                               {"v", onnx_int64({}, {value}), true}}}
        .run();
  };
  CHECK(bit_equal(padded(kExact), onnx_int64({3}, {1, 2, kExact})));
  const std::string rounded = error_of([&] { padded(kExact + 1); });
  CHECK_MESSAGE(contains(rounded, "is no number that f64 holds exactly"), rounded);
  const auto padded_v2 = [](int64_t value) {
    const std::string number =
        "tensor { dtype: DT_INT64 tensor_shape { } int64_val: " + std::to_string(value) + " }";
    const std::string text =
        const_text("x", onnx_int64({2}, {1, 2})) +
        const_text("p", Tensor::of<int32_t>({1, 2}, {0, 1})) +
        node_text("v", "Const", {}, {{"dtype", "type: DT_INT64"}, {"value", number}}) +
        node_text("y", "PadV2", {"x", "p", "v"});
    graphdef::ImportOptions options;
    options.outputs = {"y"};
    graphdef::import_graph(graphdef::parse_graph_def(text, "g.pbtxt", graphdef::FileKind::kGraph),
                           options);
  };
  CHECK(error_of([&] { padded_v2(kExact); }) == "");
  const std::string v2 = error_of([&] { padded_v2(kExact + 1); });
  CHECK_MESSAGE(contains(v2, "is no number that f64 holds exactly"), v2);
}

TEST_CASE("a reduction of scattered elements that ONNX does not know is refused") {
  for (const char* op : {"ScatterElements", "ScatterND"}) {
    const bool rows = std::string(op) == "ScatterND";
    const OnnxOp scatter{.op = op,
                         .operands = {{"x", onnx_counting({3})},
                                      {"i", onnx_int64(rows ? Shape{1, 1} : Shape{1}, {1})},
                                      {"u", float_row({9})}},
                         .attributes = {onnx_text("reduction", "last")},
                         .opset = 18};
    const std::string text = error_of([&] { scatter.run(); });
    CHECK_MESSAGE(contains(text, "its reduction is 'last'"), text);
  }
}

// Expected: ONNX Runtime 1.30. The sums are 16275, -16275 and twice 175, and 0.1 * 0.2 / 7 of them
// in f32 a little more than 46.5, -46.5 and 0.5: 47, -47 and 1.
TEST_CASE("a product of bytes is rounded once") {
  struct Product {
    std::vector<uint8_t> row, column;
    double expected;
  };
  const Product products[] = {{{242, 204, 100, 159}, {189, 185, 26, 147}, 175},
                              {{237, 242, 36, 27}, {32, 58, 73, 159}, 81},
                              {{95, 226, 147, 193}, {166, 51, 175, 234}, 129},
                              {{238, 71, 84, 151}, {150, 158, 135, 107}, 129}};
  const auto number = [](float value) { return Tensor::scalar<float>(value); };
  const auto byte = [](uint8_t value) { return Tensor::scalar<uint8_t>(value); };
  for (const Product& p : products) {
    const OnnxOp op{.op = "QLinearMatMul",
                    .operands = {{"a", Tensor::of<uint8_t>({1, 4}, p.row)},
                                 {"as", number(0.1f), true},
                                 {"az", byte(128), true},
                                 {"b", Tensor::of<uint8_t>({4, 1}, p.column)},
                                 {"bs", number(0.2f), true},
                                 {"bz", byte(120), true},
                                 {"ys", number(7), true},
                                 {"yz", byte(128), true}}};
    for (const char* backend : {"ref", "cpu", "npu"}) CHECK(op.run(backend).at(0) == p.expected);
  }
}

TEST_CASE("a bound that f16 does not hold binds nothing") {
  const Tensor x = Tensor::of<float>({4}, {-65504, -1, 2, 65504}).cast(f16);
  const auto of = [&](const char* op, const std::vector<std::string>& attributes, int64_t opset) {
    return elements_of(
        OnnxOp{.op = op, .operands = {{"x", x}}, .attributes = attributes, .opset = opset}.run());
  };
  using Elements = std::vector<double>;
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Elements all{-65504, -1, 2, 65504};
  for (const int64_t opset : {6, 10}) {
    CHECK(of("Clip", {onnx_float("min", 0), onnx_float("max", kLargest)}, opset) ==
          Elements{0, 0, 2, 65504});
    CHECK(of("Clip", {onnx_float("min", -kLargest), onnx_float("max", 1)}, opset) ==
          Elements{-65504, -1, 1, 1});
    CHECK(of("Clip", {}, opset) == all);
  }
  CHECK(of("ThresholdedRelu", {onnx_float("alpha", 1e10f)}, 10) == Elements{0, 0, 0, 0});
  CHECK(of("ThresholdedRelu", {onnx_float("alpha", -1e10f)}, 10) == all);
}

// A bound was cut off to a whole number, so that -2 stayed below a threshold of -2.5.
TEST_CASE("a bound with a fraction is refused for integers") {
  const auto of = [](const char* op, const std::vector<std::string>& attributes) {
    return OnnxOp{.op = op,
                  .operands = {{"x", Tensor::of<int32_t>({4}, {-3, -2, 2, 9})}},
                  .attributes = attributes,
                  .opset = 10};
  };
  CHECK(elements_of(of("Clip", {onnx_float("max", 2)}).run()) == std::vector<double>{-3, -2, 2, 2});
  for (const OnnxOp& op : {of("ThresholdedRelu", {onnx_float("alpha", -2.5f)}),
                           of("Clip", {onnx_float("min", -2.5f)})}) {
    const std::string text = error_of([&] { op.import(); });
    CHECK_MESSAGE(contains(text, "a number that fits i32, got -2.5"), text);
  }
}

// ONNX's text has scales of rows; ONNX Runtime 1.30 takes one number alone. By hand: the sums are
// 4, 8 and 12 times the scales 1, 2 and 3, and those of columns twice 3.
TEST_CASE("a scale of each row of a matrix goes with its product with a vector") {
  const auto floats = [](const Shape& shape, const std::vector<float>& values) {
    return Tensor::of<float>(shape, values);
  };
  const Tensor one = Tensor::scalar<float>(1), zero = Tensor::scalar<uint8_t>(0);
  const auto product = [&](const Tensor& a, const Tensor& a_scale, const Tensor& b,
                           const Tensor& b_scale, const Tensor& y_scale, const Tensor& y_zero) {
    return OnnxOp{.op = "QLinearMatMul",
                  .operands = {{"a", a},
                               {"as", a_scale, true},
                               {"az", zero, true},
                               {"b", b},
                               {"bs", b_scale, true},
                               {"bz", zero, true},
                               {"ys", y_scale, true},
                               {"yz", y_zero, true}}}
        .run();
  };
  const Tensor rows = Tensor::of<uint8_t>({3, 2}, {2, 2, 4, 4, 6, 6});
  const Tensor ones = Tensor::of<uint8_t>({2}, {1, 1});
  const auto bytes = [](const Shape& shape, const std::vector<uint8_t>& values) {
    return Tensor::of<uint8_t>(shape, values);
  };
  CHECK(bit_equal(product(rows, floats({3}, {1, 2, 3}), ones, one, one, zero),
                  bytes({3}, {4, 16, 36})));
  CHECK(bit_equal(product(rows, floats({3, 1}, {1, 2, 3}), ones, one, floats({3}, {1, 2, 4}),
                          bytes({3}, {1, 2, 3})),
                  bytes({3}, {5, 10, 12})));
  const Tensor columns = Tensor::full(u8, {2, 2, 3}, 3);
  CHECK(bit_equal(product(ones, one, columns, Tensor::full(f32, {2, 1, 3}, 2), one, zero),
                  Tensor::full(u8, {2, 3}, 12)));
}

TEST_CASE("a zero point of one number may have a length that the file leaves open") {
  const auto product = [](const Tensor& zero, const std::vector<int64_t>& declared) {
    return elements_of(OnnxOp{.op = "ConvInteger",
                              .operands = {{"x", Tensor::of<uint8_t>({1, 1, 3}, {5, 6, 7})},
                                           {"w", Tensor::of<uint8_t>({1, 1, 1}, {2}), true},
                                           {"z", zero, false, declared}}}
                           .run());
  };
  CHECK(product(Tensor::of<uint8_t>({1}, {4}), {-1}) == std::vector<double>{2, 4, 6});
  const std::string text = error_of([&] { product(Tensor::of<uint8_t>({2}, {4, 4}), {2}); });
  CHECK_MESSAGE(contains(text, "its zero point is [2], where it takes []"), text);
}

// NumPy takes no elements of x[-8::-1] where x has fewer than 8; ONNX takes the first one.
TEST_CASE("an exported slice that goes backwards from before its axis stays empty") {
  const TempFolder files;
  const std::string path = files.file("m.onnx");
  const auto length = [&](const Shape& shape, int64_t begin, int64_t run_size) {
    Graph g;
    const Value x = g.input("x", f32, shape);
    onnx::save(g, {}, {slice(x, {begin}, {kToStart}, {-1})}, path, {.names = {"y"}});
    const onnx::ImportedModel model = onnx::load(path);
    Session session(*model.graph, device("ref"));
    return session.run(model.output("y"), {{model.input("x"), onnx_counting({run_size})}})
        .shape()[0];
  };
  CHECK(length({5}, -8, 5) == 0);
  CHECK(length({5}, -6, 5) == 0);
  CHECK(length({5}, -5, 5) == 1);
  CHECK(length({5}, -2, 5) == 4);
  CHECK(length({-1}, -1, 3) == 3);
  const std::string open = error_of([&] { length({-1}, -8, 5); });
  CHECK_MESSAGE(contains(open, "depends on the size of the batch"), open);
}

TEST_SUITE_END();

}  // namespace keel
