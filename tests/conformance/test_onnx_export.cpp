// Every op with samples, exported and run by ONNX Runtime, against its reference and within its
// bound.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "keel/core/base/error.h"
#include "keel/core/base/random.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/control/control_flow.h"
#include "keel/ops/conformance/cases.h"
#include "keel/ops/conformance/tolerance.h"
#include "keel/ops/exchange/onnx/export.h"
#include "keel/ops/exchange/onnx/read_model.h"
#include "keel/ops/ops.h"

#include "conformance/scale.h"
#include "support/onnx_runtime.h"

TEST_SUITE_BEGIN("conformance");

namespace keel::conformance {
namespace {

using Inputs = std::vector<std::pair<std::string, Tensor>>;

// Neither JavaScript nor most kernels of the runtime know 16-bit floats: they come and go as f32.
DType fed_dtype(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }

struct Exported {
  Graph graph;
  Inputs inputs;
  Values outputs;

  explicit Exported(const Case& c) {
    Values values;
    for (size_t i = 0; i < c.sample.inputs.size(); ++i) {
      const Tensor& tensor = c.sample.inputs[i];
      const std::string name = "x" + std::to_string(i);
      const DType fed = fed_dtype(tensor.dtype());
      inputs.emplace_back(name, tensor.cast(fed));
      values.push_back(cast(graph.input(name, fed, tensor.shape()), tensor.dtype()));
    }
    for (const Value& output : c.sample.build(graph, values))
      outputs.push_back(cast(output, fed_dtype(output.dtype())));
  }
};

// One case that the runtime is asked for: the graph and its evaluation by the references.
struct Asked {
  std::string name;
  Case drawn;
};

std::vector<std::string> output_names(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back("y" + std::to_string(i));
  return names;
}

bool lacks_kernel(const keel_test::OnnxResult& result) {
  return result.error.find("Could not find an implementation") != std::string::npos;
}

// Which zero maximum and minimum give is the runtime's choice.
Tensor with_signs_of_zeros(Tensor got, const Tensor& expected) {
  if (!is_float(got.dtype())) return got;
  for (int64_t i = 0; i < got.num_elements(); ++i)
    if (got.at(i) == 0 && expected.at(i) == 0) got.set(i, expected.at(i));
  return got;
}

std::string compare_result(const Asked& asked, const keel_test::OnnxResult& result) {
  if (!result.error.empty()) return result.error;
  const auto graph = specialise_case(asked.drawn, asked.drawn.outputs);
  const Evaluation expected(*graph, asked.drawn.tensors);
  std::vector<Tensor> got;
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const Tensor& output = result.outputs[i];
    if (output.empty()) return "an output of no dtype that Keel has";
    if (output.shape() != graph->outputs()[i].shape()) {
      return "shape " + to_string(output.shape()) + " in place of " +
             to_string(graph->outputs()[i].shape());
    }
    got.push_back(with_signs_of_zeros(output.cast(graph->outputs()[i].dtype()),
                                      expected(graph->outputs()[i])));
  }
  return compare_outputs(got, *graph, expected);
}

constexpr int kCasesOfEachDtype = 6;

// The ops that no rule writes: ONNX has no bits, and random numbers are made of integers that are
// shifted and mixed; copies to the host are inserted when a graph is compiled; tables are beyond
// its own domain.
const std::set<std::string> kWithoutForm = {"float_status", "fold_key", "table_lookup", "transfer"};

bool has_form(const OpDef& op) {
  return !op.has(kRandom | kControl) && !kWithoutForm.contains(op.name);
}

void check_ops() {
  keel_test::OnnxRuntime runtime;
  std::vector<Asked> asked;
  for (const OpDef* op : builtin_ops().all()) {
    if (op->sample == nullptr || !has_form(*op)) continue;
    for (const DType dtype : sampled_dtypes(*op)) {
      for (int i = 0; i < kCasesOfEachDtype; ++i) {
        const uint64_t key = fold_key(static_cast<uint64_t>(dtype), op->name);
        const uint64_t seed = fold_key(key, static_cast<uint64_t>(i));
        Case c = make_case(*op, seed, dtype, i * 17 % 101);
        if (c.graph == nullptr) continue;
        const std::string name = op->name + " " + name_of(dtype) + ", make_case(op, " +
                                 std::to_string(seed) + ", keel::" + name_of(dtype) + ", " +
                                 std::to_string(i * 17 % 101) + ")";
        const Exported exported(c);
        const auto outputs = output_names(exported.outputs.size());
        try {
          onnx::save(exported.graph, {}, exported.outputs, runtime.next_model(),
                     {.names = outputs});
        } catch (const Error& error) {
          FAIL_CHECK(name, ": ", error.what());
          continue;
        }
        runtime.add(exported.inputs, outputs);
        asked.push_back({name, std::move(c)});
      }
    }
  }
  const auto results = runtime.run();
  REQUIRE(results.size() == asked.size());
  size_t lacking = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    // The runtime lacks a few kernels of f64; the file is right nonetheless.
    if (asked[i].drawn.dtype == f64 && lacks_kernel(results[i])) {
      ++lacking;
      continue;
    }
    const std::string problem = compare_result(asked[i], results[i]);
    CHECK_MESSAGE(problem.empty(), asked[i].name, ": ", problem);
  }
  MESSAGE(asked.size() << " cases, " << lacking
                       << " of f64 left out, for which the runtime has no kernel");
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One graph, run for one set of inputs; the outputs' values as doubles.
std::vector<std::vector<double>> run_once(const Graph& graph, const Values& fetches,
                                          const Inputs& inputs) {
  keel_test::OnnxRuntime runtime;
  const auto names = output_names(fetches.size());
  onnx::save(graph, {}, fetches, runtime.next_model(), {.names = names});
  runtime.add(inputs, names);
  const auto results = runtime.run();
  REQUIRE_MESSAGE(results.at(0).error.empty(), results[0].error);
  std::vector<std::vector<double>> values;
  for (const Tensor& output : results[0].outputs) {
    values.emplace_back();
    for (int64_t i = 0; i < output.num_elements(); ++i) values.back().push_back(output.at(i));
  }
  return values;
}

bool skipped() {
  const std::string missing = keel_test::OnnxRuntime::missing();
  if (!missing.empty()) MESSAGE("keel test skipped: no ONNX Runtime: " << missing);
  return !missing.empty();
}

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("exported ops give the references' results in ONNX Runtime") {
  if (skipped()) return;
  check_ops();
}

// Values by ops/README.md.
TEST_CASE("exported ops keep the rules for corners in ONNX Runtime") {
  if (skipped()) return;
  Graph g;
  const Value a = g.input("a", i32, {5});
  const Value b = g.input("b", i32, {5});
  const Value x = g.input("x", f32, {6});
  const Value row = g.input("row", f32, {4});
  const auto sorted = sort(row);
  const auto got =
      run_once(g,
               {div(a, b), mod(a, b), pow(a, b), cast(x, i32), cast(x, u8), cast(x, i64), max(row),
                min(row), argmax(row, 0), sorted.indices, sort(row, -1, true).indices,
                maximum(row, 0), gelu(x), log1p(x), expm1(x), sign(row)},
               {{"a", Tensor::of<int32_t>({5}, {-7, 7, INT32_MIN, 5, 3})},
                {"b", Tensor::of<int32_t>({5}, {2, -2, -1, 0, 40})},
                {"x", Tensor::of<float>({6}, {-2.7f, 300.5f, kNan, kInfinity, -kInfinity, 3e9f})},
                {"row", Tensor::of<float>({4}, {1, kNan, kInfinity, -0.0f})}});
  CHECK(got[0] == Numbers{-3, -3, -2147483648.0, 0, 0});
  CHECK(got[1] == Numbers{1, -1, 0, 0, 3});
  // The last one is 3^40, of which 32 bits are left.
  CHECK(got[2] == Numbers{49, 0, 0, 1, double(int32_t(uint32_t(12157665459056928801u)))});
  CHECK(got[3] == Numbers{-2, 300, 0, 2147483647, -2147483648.0, 2147483647});
  CHECK(got[4] == Numbers{0, 255, 0, 255, 0, 255});
  CHECK(got[5] == Numbers{-2, 300, 0, 0x1p63, -0x1p63, 3e9});
  CHECK(std::isnan(got[6].at(0)));
  CHECK(std::isnan(got[7].at(0)));
  CHECK(got[8] == Numbers{1});
  CHECK(got[9] == Numbers{3, 0, 2, 1});
  CHECK(got[10] == Numbers{1, 2, 0, 3});
  CHECK(got[11].at(0) == 1);
  CHECK(std::isnan(got[11].at(1)));
  CHECK(got[11].at(2) == double(kInfinity));
  CHECK(got[12].at(4) == 0);
  CHECK(got[12].at(3) == double(kInfinity));
  CHECK(got[13].at(3) == double(kInfinity));
  CHECK(got[14].at(3) == double(kInfinity));
  CHECK(got[14].at(4) == -1);
  CHECK(std::isnan(got[15].at(1)));
}

TEST_CASE("exported control flow runs in ONNX Runtime") {
  if (skipped()) return;
  Graph g;
  const Value x = g.input("x", f32, {-1, 2});
  const Value step = g.input("step", f32, {});
  const Value flag = g.input("flag", boolean, {});
  // Rows double and move by a captured number until they add up to 100; three turns of another one.
  const Values grown = while_loop(
      {x}, [](const Values& v) { return less(sum(v[0]), 100); },
      [&](const Values& v) { return Values{v[0] * 2 + step}; });
  const Values counted = while_loop(
      {step, x},
      [](const Values& v) { return v[0].graph().constant(Tensor::full(boolean, {}, 1)); },
      [&](const Values& v) {
        return Values{v[0] + 1, cond(
                                    flag, {v[1]}, [](const Values& c) { return Values{neg(c[0])}; },
                                    [&](const Values& c) { return Values{c[0] + step}; })[0]};
      },
      {.trip_count = 3});
  const Tensor rows = Tensor::of<float>({2, 2}, {1, 2, 3, 4});
  for (const bool holds : {true, false}) {
    const auto got = run_once(g, {grown[0], counted[0], counted[1]},
                              {{"x", rows},
                               {"step", Tensor::scalar(0.5f)},
                               {"flag", Tensor::full(boolean, {}, holds ? 1 : 0)}});
    Numbers values{1, 2, 3, 4};
    while (values[0] + values[1] + values[2] + values[3] < 100) {
      for (double& value : values) value = value * 2 + 0.5;
    }
    CHECK(got[0] == values);
    CHECK(got[1] == Numbers{3.5});
    CHECK(got[2] == (holds ? Numbers{-1, -2, -3, -4} : Numbers{2.5, 3.5, 4.5, 5.5}));
  }
}

TEST_CASE("the batch of an exported model is the run's in ONNX Runtime") {
  if (skipped()) return;
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Value w = g.input("w", f32, {3});
  // Dimensions and numbers that follow the batch: halves of it, twice it, the count of a mean.
  const Value flat = reshape(concat({x, x}, 0), {-1});
  const Value loss = mean(square(x * w));
  const Value shifted = pad(slice(x, {1}, {kToEnd}), {1, 0}, {0, 0}, 9);
  const Values gradient = gradients(loss, {w});
  const Value ones = broadcast_to(w, {3}) + sum(x * 0 + 1, {0});
  for (const int64_t batch : {1, 2, 5}) {
    Tensor rows(f32, {batch, 3});
    for (int64_t i = 0; i < rows.num_elements(); ++i) rows.set(i, static_cast<double>(i));
    const auto got = run_once(g, {flat, shifted, gradient[0], ones},
                              {{"x", rows}, {"w", Tensor::of<float>({3}, {1, 2, 3})}});
    CHECK(got[0].size() == static_cast<size_t>(6 * batch));
    CHECK(got[1].at(0) == 9);
    CHECK(got[1].size() == static_cast<size_t>(3 * batch));
    for (int64_t k = 0; k < 3; ++k) {
      double slope = 0;
      for (int64_t i = 0; i < batch; ++i) slope += rows.at(3 * i + k) * rows.at(3 * i + k);
      slope *= 2.0 * static_cast<double>(k + 1) / static_cast<double>(3 * batch);
      CHECK(got[2].at(static_cast<size_t>(k)) == doctest::Approx(slope));
      CHECK(got[3].at(static_cast<size_t>(k)) == static_cast<double>(k + 1 + batch));
    }
  }
}

TEST_CASE("exported outputs keep their names and weights alone are initializers") {
  Graph graph;
  const Value x = graph.input("x", f32, {2});
  const Value w = graph.state("w", {.type = {f32, {2}}});
  const Value y = x * w + 0.25f;
  const keel_test::TempFolder folder;
  const std::string path = folder.file("model.onnx");
  onnx::save(graph, {{"w", Tensor::of<float>({2}, {1, 2})}}, {y, y, w}, path,
             {.names = {"first", "second", "weights"}});
  const onnx::GraphProto written = onnx::read_model(path).graph;
  std::vector<std::string> outputs, given, initializers;
  for (const auto& output : written.outputs) outputs.push_back(output.name);
  for (const auto& node : written.nodes)
    given.insert(given.end(), node.outputs.begin(), node.outputs.end());
  for (const auto& tensor : written.initializers) initializers.push_back(tensor.name);
  CHECK(outputs == std::vector<std::string>{"first", "second", "weights"});
  for (const std::string& output : outputs)
    CHECK(std::count(given.begin(), given.end(), output) == 1);
  CHECK(initializers == std::vector<std::string>{"w"});
}

TEST_CASE("ops without an ONNX form are refused by name") {
  Graph graph;
  const Value a = named(uniform(graph, {2}), "a");
  const Value b = sort(normal(graph, {3})).values;
  const keel_test::TempFolder folder;
  std::string text;
  try {
    onnx::save(graph, {}, {a, b}, folder.file("model.onnx"));
  } catch (const Error& error) {
    text = error.what();
  }
  CAPTURE(text);
  CHECK(text.find("cannot be written as ONNX") != std::string::npos);
  CHECK(text.find("a (uniform f32[2]): has no ONNX form") != std::string::npos);
  CHECK(text.find("(normal f32[3]): has no ONNX form") != std::string::npos);
  CHECK(text.find("test_onnx_export.cpp:") != std::string::npos);
  CHECK(folder.empty());
}

}  // namespace keel::conformance

TEST_SUITE_END();
