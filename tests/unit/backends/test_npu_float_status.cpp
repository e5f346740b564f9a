// What an f16 overflow becomes and leaves behind: +-65504 and a sticky status where the preset
// saturates, an infinity and no status elsewhere.
#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include "keel/backends/npu/device/float_status.h"
#include "keel/backends/npu/options.h"
#include "keel/core/base/parallel_for.h"
#include "keel/ops/conv.h"
#include "keel/ops/gather.h"
#include "keel/ops/products/winograd.h"
#include "keel/ops/random.h"

#include "ops_for_tests.h"

namespace keel {
namespace {

using testing::contains;
using testing::elements;
using testing::error_of;

constexpr double kLargest = 65504;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using UnaryFunction = std::function<Value(Value)>;

// Sessions on an NPU of that preset; the status begins and ends cleared.
class ModelledNpu {
 public:
  explicit ModelledNpu(const std::string& preset) : options_(npu::options(preset)) {
    npu::clear_float_status(device("npu"));
  }
  ~ModelledNpu() { npu::clear_float_status(device("npu")); }
  ModelledNpu(const ModelledNpu&) = delete;
  ModelledNpu& operator=(const ModelledNpu&) = delete;

  const std::shared_ptr<const DeviceOptions>& options() const { return options_; }
  // What it makes of x, with the status cleared before.
  std::vector<double> run(const UnaryFunction& build, const Tensor& x) const {
    Graph g;
    const Value in = g.input("x", x.dtype(), x.shape());
    const Value out = build(in);
    npu::clear_float_status(device("npu"));
    Session session(g, device("npu"), {.device_options = options_});
    return elements(session.run({out}, {{in, x}})[0]);
  }

 private:
  std::shared_ptr<const DeviceOptions> options_;
};

uint32_t status() { return npu::float_status(device("npu")); }

Tensor halves(const Shape& shape, const std::function<double(int64_t)>& value) {
  Tensor t(f16, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, value(i));
  return t;
}
Tensor halves(const std::vector<double>& values) {
  return halves({static_cast<int64_t>(values.size())},
                [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("saturation and INF NaN mode: 60000 + 60000 on the 910 and on the 910B1") {
  const UnaryFunction twice = [](Value x) { return x + x; };
  const Tensor x = halves({60000, 1, -60000, 32752});
  {
    const ModelledNpu modelled("ascend910");
    CHECK(modelled.run(twice, x) == std::vector<double>{kLargest, 2, -kLargest, 65504});
    CHECK(status() == kFloatStatusF16Overflow);
    CHECK(contains(describe_float_status(status()), "65504"));
  }
  const ModelledNpu modelled("ascend910b1");
  CHECK(modelled.run(twice, x) == std::vector<double>{kInfinity, 2, -kInfinity, 65504});
  CHECK(status() == 0);
  CHECK(describe_float_status(0).empty());
}

TEST_CASE("float status: what stays below or is NaN raises nothing") {
  const ModelledNpu modelled("ascend910");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // 65519 rounds to 65504; 65520 would round beyond it.
  const auto cast_to_f16 = [](Value x) { return cast(x, f16); };
  const Tensor close = Tensor::of<float>({2}, {65519.0f, -65519.0f});
  CHECK(modelled.run(cast_to_f16, close) == std::vector<double>{kLargest, -kLargest});
  CHECK(status() == 0);
  CHECK(modelled.run(cast_to_f16, Tensor::of<float>({1}, {65520.0f}))[0] == kLargest);
  CHECK(status() == kFloatStatusF16Overflow);

  const auto out = modelled.run([](Value x) { return x * 2.0; }, halves({nan, 3}));
  CHECK(std::isnan(out[0]));
  CHECK(out[1] == 6);
  CHECK(status() == 0);
  CHECK(std::isnan(modelled.run([](Value x) { return sum(x); }, halves({nan, 3}))[0]));
  CHECK(status() == 0);
}

// Sums of 16 channels and 9 taps, which are taken in f32 and stop where they are rounded.
TEST_CASE("float status: convolutions by transformed tiles saturate and say so") {
  const ModelledNpu modelled("ascend910");
  const Shape images{8, 8, 8, 16}, weights{3, 3, 16, 16};
  const auto convolve = [&](Value x) {
    const Value w = x.graph().constant(Tensor::full(f16, weights, 40));
    const Value y = conv2d(x, w, {.padding = "same"});
    REQUIRE(winograd_form(product_matrices(y.node()), f16));
    return y;
  };
  const auto input_gradient = [&](Value x) {
    const Value w = x.graph().constant(Tensor::full(f16, weights, -40));
    return conv2d_input_gradient(x, w, {.padding = "same"}, {8, 8});
  };
  const auto weight_gradient = [&](Value x) {
    return conv2d_weight_gradient(x, x, {3, 3}, {.padding = "same"});
  };
  const auto behind = [&](Value x) { return relu(convolve(x)) * 0.5; };
  const Tensor big = Tensor::full(f16, images, 16), small = Tensor::full(f16, images, 2);
  struct Row {
    const char* name;
    UnaryFunction build;
    size_t at;              // a pixel within, or the middle tap
    double most, of_small;  // there, of the big numbers and of the small ones
  };
  constexpr size_t kPixel = (4 * 8 + 4) * 16, kTap = 4 * 16 * 16;
  for (const Row& row :
       {Row{"forward", convolve, kPixel, kLargest, 9 * 16 * 80},
        {"gradient of the images", input_gradient, kPixel, -kLargest, -9 * 16 * 80},
        {"gradient of the weights", weight_gradient, kTap, kLargest, 8 * 64 * 4},
        {"epilogue", behind, kPixel, kLargest / 2, 9 * 16 * 40}}) {
    CAPTURE(row.name);
    CHECK(std::fabs(modelled.run(row.build, small)[row.at] / row.of_small - 1) < 1e-3);
    CHECK(status() == 0);
    const auto out = modelled.run(row.build, big);
    CHECK(out[row.at] == row.most);
    for (const double v : out) REQUIRE(std::isfinite(v));
    CHECK(status() == kFloatStatusF16Overflow);
  }
}

TEST_CASE("float status: each kind of kernel saturates and says so") {
  const ModelledNpu modelled("ascend910");
  struct Row {
    const char* name;
    UnaryFunction build;
    Tensor x;
    double first;
  };
  const Tensor big = halves({2, 2}, [](int64_t) { return 60000.0; });
  const Tensor many = halves({3, 70000}, [](int64_t) { return 1.0; });
  const std::vector<Row> rows = {
      {"cast", [](Value x) { return cast(x, f16); }, Tensor::full(f32, {3}, 1e9), kLargest},
      {"integer cast", [](Value x) { return cast(x, f16); }, Tensor::full(i32, {3}, -100000),
       -kLargest},
      {"bf16 cast", [](Value x) { return cast(x, f16); }, Tensor::full(f32, {3}, -7e4), -kLargest},
      {"mul", [](Value x) { return x * x; }, big, kLargest},
      {"exp", [](Value x) { return exp(x); }, halves({12.0}), kLargest},
      {"on the way", [](Value x) { return (x + x) - x; }, big, kLargest - 60000},
      {"matmul", [](Value x) { return matmul(x, x); }, big, kLargest},
      {"sum", [](Value x) { return sum(x, {1}); }, many, kLargest},
      {"sum of columns", [](Value x) { return sum(x, {0}); },
       halves({2, 3}, [](int64_t) { return -40000.0; }), -kLargest},
      {"prod", [](Value x) { return prod(x); }, halves({300, 300}), kLargest},
      {"scatter_add",
       [](Value x) {
         return scatter_add(x, x.graph().constant(Tensor::of<int64_t>({1}, {0})),
                            slice(x, {0}, {1}));
       },
       big, kLargest},
      {"constants", [](Value x) { return x.graph().constant(halves({60000})) * 2.0 + x * 0.0; },
       halves({1.0}), kLargest},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto out = modelled.run(row.build, row.x);
    CHECK(out[0] == row.first);
    for (const double v : out) REQUIRE(std::isfinite(v));
    CHECK(status() == kFloatStatusF16Overflow);
  }
}

TEST_CASE("float status: sums and products are wide inside") {
  const ModelledNpu modelled("ascend910");
  // Partial sums far beyond f16, the result within it.
  const Tensor waves = halves({4000}, [](int64_t i) { return i < 2000 ? 60000.0 : -60000.0; });
  CHECK(modelled.run([](Value x) { return sum(x); }, waves)[0] == 0);
  CHECK(status() == 0);
  const UnaryFunction product = [](Value x) {
    return matmul(reshape(x, {1, 4000}), reshape(x * 0.0 + 1.0, {4000, 1}));
  };
  CHECK(modelled.run(product, waves)[0] == 0);
  CHECK(status() == 0);
  // f32 results never raise it.
  CHECK(modelled.run([](Value x) { return sum(cast(x, f32)); }, halves({60000, 60000}))[0] ==
        120000);
  CHECK(status() == 0);
}

TEST_CASE("float status: lanes of padding raise nothing") {
  const ModelledNpu modelled("ascend910");
  for (int64_t n = 1; n <= 70; ++n) {
    CAPTURE(n);
    // In a lane of zeros each of these is infinite or NaN.
    const Tensor ones = halves({n}, [](int64_t) { return 1.0; });
    for (const UnaryFunction& build : std::initializer_list<UnaryFunction>{
             [](Value x) { return reciprocal(x); }, [](Value x) { return log(x); },
             [](Value x) { return rsqrt(x); }, [](Value x) { return 1.0 / x; },
             [](Value x) { return cast(reciprocal(cast(x, f32)), f16); }}) {
      for (const double v : modelled.run(build, ones)) REQUIRE(std::isfinite(v));
      CHECK(status() == 0);
    }
  }
  // Shapes that fill no fractal block.
  const Tensor a = halves({3, 37}, [](int64_t i) { return static_cast<double>(i % 5); });
  modelled.run([](Value x) { return matmul(x, transpose(x)); }, a);
  CHECK(status() == 0);
}

TEST_CASE("float status: it stays until it is cleared") {
  const ModelledNpu modelled("ascend910");
  const Device npu = device("npu");
  Graph g;
  const Value x = g.input("x", f16, {2});
  Session session(g, npu, {.device_options = modelled.options()});
  const Value y = x + x;
  session.run({y}, {{x, halves({60000, 1})}});
  CHECK(status() == kFloatStatusF16Overflow);
  session.run({y}, {{x, halves({1, 1})}});
  CHECK(status() == kFloatStatusF16Overflow);
  npu::clear_float_status(npu);
  CHECK(status() == 0);
  session.run({y}, {{x, halves({1, 1})}});
  CHECK(status() == 0);

  CHECK(contains(error_of([&] { npu::float_status(device("ref")); }), "expected an NPU"));
  CHECK(contains(error_of([&] { npu::clear_float_status(device("cpu")); }), "cpu:0"));
}

TEST_CASE("float status: a launch reports what it raised itself") {
  const ModelledNpu modelled("ascend910");
  Backend& npu = device("npu").backend();
  Graph g;
  const Value x = g.input("x", f16, {2});
  g.set_outputs({x + x});
  const auto program = npu.compile(0, g, {.device_options = modelled.options()});
  const auto stream = npu.make_stream(0, StreamKind::kCompute);
  const auto in = npu.allocate(0, 4, "in");
  const auto out = npu.allocate(0, 4, "out");
  LaunchArgs args;
  args.inputs = {in.get()};
  args.outputs = {out.get()};
  for (const double value : {60000.0, 1.0}) {
    const Tensor values = halves({value, 1});
    stream->copy_to_device(*in, 0, values.raw(), values.num_bytes());
    program->launch(*stream, args);
    stream->synchronize();
    CHECK(args.report.float_status == (value > 1 ? kFloatStatusF16Overflow : 0));
    CHECK(contains(args.report.float_status_by, value > 1 ? "add (" : ""));
    CHECK(args.report.float_status_by.empty() == (value == 1));
    CHECK(status() == kFloatStatusF16Overflow);
  }
}

TEST_CASE("float status: bits and status are the same for any number of threads") {
  const ModelledNpu modelled("ascend910");
  constexpr int64_t kElements = 600000;
  // One element of the last block overflows.
  const Tensor x =
      halves({kElements}, [](int64_t i) { return i == kElements - 3 ? 60000.0 : 1.0; });
  std::vector<double> first;
  for (const int n : {1, 2, 5}) {
    const keel::ComputeThreads some(n);
    const auto out = modelled.run([](Value v) { return v + v; }, x);
    CHECK(out[kElements - 3] == kLargest);
    CHECK(status() == kFloatStatusF16Overflow);
    if (first.empty()) first = out;
    CHECK(out == first);
    CHECK(modelled.run([](Value v) { return sum(v); }, x)[0] == kLargest);
    CHECK(status() == kFloatStatusF16Overflow);
  }
}

TEST_SUITE_END();

}  // namespace keel
