// The vector library's kernels in backends: cpu and npu compute with the same ones, so outside of
// products their bits are equal on each of the host's instruction sets, fused or not.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "keel/backends/common/vector/byte_operand.h"
#include "keel/backends/common/vector/element_kernels.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/fusion.h"
#include "vector_for_tests.h"

TEST_SUITE_BEGIN("unit");

namespace {

using namespace keel;
using testing::all_equal;

Tensor random_tensor(DType dtype, const Shape& shape) {
  vector_test::Numbers numbers(static_cast<uint64_t>(shape.num_elements()));
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, 4 * static_cast<double>(numbers.uniform()));
  }
  return t;
}

// Element-wise functions, reductions over both axes and softmax of [rows, columns], with what fuses
// to them.
Values build(Graph& g, const Value& x, const Value& labels) {
  const Value y = tanh(x * 0.5f) + exp(x - 3.0f);
  const Value losses = softmax_cross_entropy(x, labels, {.label_smoothing = 0.1});
  g.set_outputs({y, sum(square(x), {1}), sum(y, {0}), max(x, {0}), softmax(x), log_softmax(x),
                 losses, softmax_cross_entropy_grad(x, labels, losses * 0.25f)});
  return g.outputs();
}

std::vector<Tensor> compute(const std::string& backend, DType dtype, int64_t columns, bool fuse) {
  constexpr int64_t kRows = 37;
  Graph g;
  const Value x = g.input("x", dtype, {kRows, columns});
  const Value labels = g.input("labels", i32, {kRows});
  const Values outputs = build(g, x, labels);
  Tensor classes(i32, {kRows});
  for (int64_t i = 0; i < kRows; ++i) classes.set(i, static_cast<double>(i % columns));
  Session session(g, device(backend), {.disabled_passes = keel_test::fusion(fuse)});
  return session.run(outputs, {{x, random_tensor(dtype, {kRows, columns})}, {labels, classes}});
}

}  // namespace

TEST_CASE("vector: bytes are loaded as what their table says") {
  using Form = vector::ByteMap::Form;
  const auto map_of = [](float (*value)(float)) {
    float table[256];
    for (int x = 0; x < 256; ++x) table[x] = value(static_cast<float>(x));
    return vector::make_byte_map(table, f32);
  };
  const std::pair<Form, vector::ByteMap> maps[] = {
      {Form::kScale, map_of([](float x) { return x * 0.3f; })},
      {Form::kAffine, map_of([](float x) { return x * 0.0078125f - 1.0f; })},
      {Form::kDivide, map_of([](float x) { return x / 255.0f; })},
      {Form::kDivide, map_of([](float x) { return x / 3.0f; })},
      {Form::kTable, map_of([](float x) { return std::sqrt(x); })}};
  std::vector<uint8_t> bytes(517);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);  // each value
  vector_test::on_every_isa([&] {
    const vector::ByteLoad load = vector::find_byte_load();
    for (const auto& map : maps) {
      REQUIRE(map.second.form == map.first);
      for (const size_t n :
           {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{33}, size_t{517}}) {
        std::vector<float> results(n + 2, -7.0f);
        load(map.second, bytes.data(), n, results.data() + 1);
        for (size_t i = 0; i < n; ++i) CHECK(results[i + 1] == map.second.table[bytes[i]]);
        CHECK(results.front() == -7.0f);
        CHECK(results.back() == -7.0f);
      }
    }
  });
}

TEST_CASE("vector kernels: what takes more passes is cut into more blocks") {
  // 131072 elements of one pass keep a thread busy long enough to be a block.
  const auto blocks_of = [](auto op) {
    Graph g;
    const Value x = g.input("x", f32, {65536});
    return vector::plan_elements(op(x).node()).block_dim;
  };
  CHECK(blocks_of([](const Value& x) { return x + x; }) == 1);
  CHECK(blocks_of([](const Value& x) { return x / x; }) == 2);
  CHECK(blocks_of([](const Value& x) { return exp(x); }) == 6);
  CHECK(blocks_of([](const Value& x) { return pow(x, x); }) == 15);

  const auto blocks_of_body = [](const Type& type, auto build) {
    Graph g;
    auto body = std::make_shared<Graph>(g.ops());
    body->set_outputs(build(body->input("v", type.dtype, type.shape)));
    const Value x = g.input("x", type.dtype, type.shape);
    return vector::plan_elements(g.add("fused", {x}, {}, CallSite::here(), {body})).block_dim;
  };
  // A batch of images: a cast and a division, which take five passes.
  CHECK(blocks_of_body({u8, {100, 784}},
                       [](const Value& v) { return Values{cast(v, f32) / 255.0f}; }) == 2);
  // Two outputs of one value: the second one is copied.
  CHECK(blocks_of_body({f32, {131072}}, [](const Value& v) {
          const Value y = v + 1.0f;
          return Values{y, y};
        }) == 2);
}

TEST_CASE("vector kernels: cpu and npu compute the same bits outside of products") {
  vector_test::on_every_isa([] {
    for (const int64_t columns : {10, 300}) {
      const auto on_cpu = compute("cpu", f32, columns, true);
      CHECK(all_equal(on_cpu, compute("npu", f32, columns, true)));
      CHECK(all_equal(on_cpu, compute("cpu", f32, columns, false)));
    }
  });
}

TEST_CASE("vector kernels: a row that all rows share is read once for many tiles") {
  // Several tiles of 16 columns, which divide a tile, and of 24, which do not. Registers are free
  // again before the rows are first read.
  for (const int64_t columns : {16, 24}) {
    const auto run = [&](const std::string& backend, bool fuse) {
      Graph g;
      const Value x = g.input("x", f32, {3000, columns});
      const Value scale = g.input("scale", f32, {columns});
      const Value offset = g.input("offset", f32, {columns});
      const Value y = square(exp(x * 0.25f) - 1.0f);
      const Value z = (y * scale + offset) * scale - offset - scale;
      Session session(g, device(backend), {.disabled_passes = keel_test::fusion(fuse)});
      return session.run({z, sum(z, {0})}, {{x, random_tensor(f32, {3000, columns})},
                                            {scale, random_tensor(f32, {columns})},
                                            {offset, random_tensor(f32, {columns})}});
    };
    CAPTURE(columns);
    const auto expected = run("cpu", false);
    for (const char* backend : {"cpu", "npu"}) CHECK(all_equal(run(backend, true), expected));
  }
}

TEST_CASE("vector kernels: f64 on cpu agrees with ref on every host ISA and npu has none") {
  for (const int64_t columns : {10, 300}) {
    const auto expected = compute("ref", f64, columns, true);
    vector_test::on_every_isa([&] {
      const auto got = compute("cpu", f64, columns, true);
      CHECK(all_equal(got, compute("cpu", f64, columns, false)));
      REQUIRE(got.size() == expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        double worst = 0;
        for (int64_t j = 0; j < got[i].num_elements(); ++j) {
          const double right = expected[i].at(j);
          worst = std::max(worst, std::fabs(got[i].at(j) - right) / (1 + std::fabs(right)));
        }
        CAPTURE(i);
        CHECK(worst <= 1e-14);
      }
    });
  }
  CHECK(testing::contains(testing::error_of([] { compute("npu", f64, 10, true); }), "f64"));
}

TEST_CASE("vector kernels: cpu and npu name the instruction set that they compute with") {
  vector_test::on_every_isa([] {
    for (const char* backend : {"cpu", "npu"}) {
      const auto properties = device(backend).backend().devices().at(0).properties;
      const std::pair<std::string, std::string> isa{"isa", vector::name_of(vector::host_isa())};
      const bool named = std::find(properties.begin(), properties.end(), isa) != properties.end();
      CHECK_MESSAGE(named, backend);
    }
  });
}

TEST_SUITE_END();
