// Products fused with what is computed beside them, on the devices that do so: the bits of a
// session that does not fuse, whatever the shapes, threads and places of the results.
#include <doctest/doctest.h>

#include "keel/core/base/parallel_for.h"
#include "keel/graph/autodiff/gradient.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/elementwise.h"
#include "keel/ops/loss.h"
#include "keel/ops/matmul.h"
#include "keel/ops/nn/initializers.h"
#include "keel/ops/nn/optimizers.h"
#include "keel/ops/reduce.h"

#include "fused_step_for_tests.h"
#include "ops_for_tests.h"
#include "support/fusing.h"
#include "support/fusion.h"

namespace keel {
namespace {

using testing::all_equal;
using testing::contains;
using testing::error_of;
using testing::noise;
using testing::run_case;
using testing::StepCase;

Tensor bytes(const Shape& shape, uint32_t seed) {
  Tensor t(u8, shape);
  for (uint8_t& x : t.data<uint8_t>())
    x = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  return t;
}

using Activation = Value (*)(Operand, CallSite);

struct NetSizes {
  int64_t batch, inputs, hidden, classes;
  Activation activation = &relu;
};

// The losses of three steps of a net of two layers on bytes, and its states behind them.
std::vector<Tensor> train(const NetSizes& net, const Optimizer& optimizer, const std::string& where,
                          bool fuse, std::string* tasks = nullptr) {
  Graph g;
  const Value image = g.input("image", u8, {-1, net.inputs});
  const Value label = g.input("label", u8, {-1});
  const Value x = cast(image, f32) / 255.0f;
  const Value w1 = g.state("w1", glorot_uniform({net.inputs, net.hidden}));
  const Value b1 = g.state("b1", zeros({net.hidden}));
  const Value w2 = g.state("w2", glorot_uniform({net.hidden, net.classes}));
  const Value b2 = g.state("b2", zeros({net.classes}));
  const Value hidden = net.activation(matmul(x, w1) + b1, CallSite::here());
  const Value loss = mean(softmax_cross_entropy(matmul(hidden, w2) + b2, label));
  const Update update = optimizer.minimize(loss);
  Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
  std::vector<Tensor> results;
  for (uint32_t step = 0; step < 3; ++step) {
    Tensor labels = bytes({net.batch}, step + 77);
    for (uint8_t& y : labels.data<uint8_t>()) y = static_cast<uint8_t>(y % net.classes);
    const Feeds feeds{{image, bytes({net.batch, net.inputs}, step)}, {label, labels}};
    results.push_back(session.run(update, {loss}, feeds)[0]);
    if (tasks != nullptr) *tasks = session.describe(update, {loss}, feeds);
  }
  for (const Value& state : {w1, b1, w2, b2}) results.push_back(session.read(state));
  return results;
}

}  // namespace

TEST_SUITE_BEGIN("unit");

TEST_CASE("fused products: nets of any shape train to the bits of separate tasks") {
  const NetSizes nets[] = {
      {50, 30, 77, 10},  {7, 784, 33, 3},         {128, 100, 256, 10}, {3, 5, 600, 2},
      {33, 300, 77, 17}, {64, 64, 64, 64, &tanh}, {1, 9, 4, 2},        {130, 20, 300, 5, &sigmoid}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    for (const NetSizes& net : nets) {
      CAPTURE(net.hidden);
      CHECK(all_equal(train(net, sgd(0.1), where, true), train(net, sgd(0.1), where, false)));
      const auto with_adam = train(net, adam(0.01), where, true);
      CHECK(all_equal(with_adam, train(net, adam(0.01), where, false)));
      const ComputeThreads three(3);
      CHECK(all_equal(with_adam, train(net, adam(0.01), where, true)));
    }
  }
}

TEST_CASE("fused products: what surrounds them leaves no task of its own") {
  std::string tasks;
  train({50, 30, 77, 10}, sgd(0.1), "npu:0", true, &tasks);
  CAPTURE(tasks);
  CHECK(contains(tasks, "cast + div + matmul + add + relu"));
  CHECK(contains(tasks, "cast + div + gradient/matmul + sgd/w1/mul + sub"));
  CHECK(contains(tasks, "gradient/matmul + sgd/w2/mul + sub"));
  CHECK_FALSE(contains(tasks, "  cast + div  "));
  // All of adam's update follows the product that makes its gradient, or the sum.
  train({50, 30, 77, 10}, adam(0.01), "npu:0", true, &tasks);
  const char* update =
      "mul + mul + add + square + mul + mul + add + sqrt + mul + add + mul + div + sub";
  for (const char* gradient : {"div + gradient/matmul + adam/w1/", "gradient/matmul + adam/w2/",
                               "gradient/sum + adam/b1/"}) {
    CHECK(contains(tasks, gradient + std::string(update)));
  }
  train({50, 30, 77, 10}, sgd(0.1), "cpu:0", true, &tasks);
  CHECK(contains(tasks, "matmul + add + relu"));
}

TEST_CASE("fused products: an operand that is updated in the same pass is read whole first") {
  // w is an operand, is read by the epilogue, and the result is its next value.
  const StepCase c{[](Graph& g) {
                     const Value x = g.input("x", f32, {96, 96});
                     const Value w = g.state("w", normal({96, 96}, 0, 1));
                     const Value next = w - matmul(x, w) * 0.25f;
                     return std::pair(Update{{{w, next}}}, Values{});
                   },
                   {noise({96, 96}, 5)}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    std::string tasks;
    const auto together = run_case(c, where, true, &tasks);
    CHECK(contains(tasks, "matmul + mul + sub"));
    CHECK(all_equal(together, run_case(c, where, false)));
  }
}

TEST_CASE("fused products: products are added to the state that they become") {
  struct Sum {
    Shape a, b, sum;
    bool product_first = false;
  };
  // Among them batches, a k of several panels, and few columns.
  const Sum sums[] = {
      {{100, 70}, {70, 96}, {100, 96}},        {{100, 70}, {70, 96}, {100, 96}, true},
      {{3, 33, 40}, {3, 40, 50}, {3, 33, 50}}, {{30, 5000}, {5000, 64}, {30, 64}},
      {{200, 90}, {90, 7}, {200, 7}},          {{40, 30}, {30, 40}, {40, 40}}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    for (const Sum& s : sums) {
      CAPTURE(to_string(s.a));
      const StepCase c{[&](Graph& g) {
                         const Value x = g.input("x", f32, s.a), y = g.input("y", f32, s.b);
                         const Value product = matmul(x, y);
                         const Value w = g.state("w", normal(s.sum, 0, 1));
                         const Value next = s.product_first ? product + w : w + product;
                         return std::pair(Update{{{w, next}}}, Values{});
                       },
                       {noise(s.a, 1), noise(s.b, 2)}};
      std::string tasks;
      const auto together = run_case(c, where, true, &tasks);
      CHECK(contains(tasks, "matmul + add"));
      CHECK(all_equal(together, run_case(c, where, false)));
    }
  }
}

TEST_CASE("fused products: batches and broadcast operands and residuals") {
  const auto build = [](Shape a, Shape b, Shape r, bool transpose) {
    return [=](Graph& g) {
      const Value x = g.input("x", f32, a);
      const Value y = g.input("y", f32, b);
      const Value z = g.input("z", f32, r);
      const Value product = matmul(x, y, {.transpose_b = transpose});
      return std::pair(Update{}, Values{exp(product * 0.1f) + z});
    };
  };
  struct Shapes {
    Shape a, b, r;
    bool transpose;
  };
  const Shapes shapes[] = {
      {{3, 20, 30}, {3, 30, 40}, {3, 20, 40}, false},  {{3, 20, 30}, {40, 30}, {20, 1}, true},
      {{2, 1, 200, 30}, {4, 30, 9}, {4, 1, 9}, false}, {{300, 40}, {40, 500}, {500}, false},
      {{40, 300}, {300, 500}, {40, 1}, false},         {{17, 3}, {3, 1}, {}, false},
      {{1, 700}, {700, 900}, {1, 900}, false}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    CAPTURE(where);
    for (const Shapes& s : shapes) {
      CAPTURE(to_string(s.b));
      const StepCase c{build(s.a, s.b, s.r, s.transpose),
                       {noise(s.a, 1), noise(s.b, 2), noise(s.r, 3)}};
      std::string tasks;
      const auto together = run_case(c, where, true, &tasks);
      CHECK(contains(tasks, "matmul + "));
      CHECK(all_equal(together, run_case(c, where, false)));
    }
  }
}

namespace {

// A step on rows of a table of bytes, which the product gathers as it loads them.
struct GatheredNet {
  Graph g;
  Value table, rows, loss;
  Update update;
  GatheredNet(int64_t images, int64_t pixels, int64_t units) {
    table = g.input("table", u8, {images, pixels});
    rows = g.input("rows", i32, {-1});
    const Value w = g.state("w", glorot_uniform({pixels, units}));
    const Value x = cast(gather(table, rows), f32) / 255.0f;
    loss = mean(square(matmul(x, w)));
    update = sgd(0.5).minimize(loss);
  }
};

Tensor row_numbers(std::initializer_list<int32_t> values) {
  return Tensor::of<int32_t>({static_cast<int64_t>(values.size())}, values);
}

}  // namespace

TEST_CASE("fused products: rows of bytes are gathered as they are loaded") {
  const Tensor rows = row_numbers({7, 0, 7, 39, 12, 3, 3, 21, 38, 1, 0, 5, 30});
  const std::pair<const char*, const char*> variants[] = {
      {"npu:0", "fp32"}, {"npu:0", "mixed_bf16"}, {"cpu:0", "fp32"}};
  for (const int64_t units : {3, 10, 40}) {
    for (const auto& variant : variants) {
      CAPTURE(units);
      CAPTURE(variant.first);
      CAPTURE(variant.second);
      std::vector<Tensor> results[2];
      for (const bool fuse : {false, true}) {
        GatheredNet net(40, 50, units);
        Session session(net.g, device(variant.first),
                        {.disabled_passes = keel_test::fusion(fuse), .precision = variant.second});
        const Feeds feeds{{net.table, bytes({40, 50}, 9)}, {net.rows, rows}};
        const std::string tasks = session.describe(net.update, {net.loss}, feeds);
        CHECK(contains(tasks, "gather + cast + div") == fuse);
        for (int step = 0; step < 3; ++step) {
          results[fuse].push_back(session.run(net.update, {net.loss}, feeds)[0]);
        }
        results[fuse].push_back(session.read(net.g.states()[0]));
      }
      CHECK(all_equal(results[0], results[1]));
    }
  }
}

namespace {

struct ByteLayer {
  int64_t batch, pixels, units;
  bool gathered;  // from a table of more rows
};

// The losses of three steps of a dense layer on bytes on `cpu`, and its weight behind them.
std::vector<Tensor> train(const ByteLayer& layer, bool fuse, std::string* tasks = nullptr,
                          const char* precision = "fp32") {
  const int64_t stored = layer.gathered ? 900 : layer.batch;
  Graph g;
  const Value table = g.input("table", u8, {stored, layer.pixels});
  const Value label = g.input("label", u8, {-1});
  Tensor labels(u8, {layer.batch});
  for (int64_t i = 0; i < layer.batch; ++i) labels.set(i, static_cast<double>(i % layer.units));
  Feeds feeds{{table, bytes({stored, layer.pixels}, 9)}, {label, labels}};
  Value x = table;
  if (layer.gathered) {
    const Value rows = g.input("rows", i32, {-1});
    Tensor numbers(i32, {layer.batch});
    for (int64_t i = 0; i < layer.batch; ++i) numbers.set(i, static_cast<double>(i * 7 % stored));
    feeds.emplace_back(rows, numbers);
    x = gather(table, rows);
  }
  const Value w = g.state("w", glorot_uniform({layer.pixels, layer.units}));
  const Value loss = mean(softmax_cross_entropy(matmul(cast(x, f32) / 255.0f, w), label));
  const Update update = sgd(0.5).minimize(loss);
  Session session(g, device("cpu:0"),
                  {.disabled_passes = keel_test::fusion(fuse), .precision = precision});
  if (tasks != nullptr) *tasks = session.describe(update, {loss}, feeds);
  std::vector<Tensor> results;
  for (int step = 0; step < 3; ++step) results.push_back(session.run(update, {loss}, feeds)[0]);
  results.push_back(session.read(w));
  return results;
}

}  // namespace

TEST_CASE("fused products: tiles on cpu load bytes to the bits of a cast and a division") {
  for (const bool gathered : {false, true}) {
    for (const ByteLayer& layer :
         {ByteLayer{100, 784, 10, gathered}, {203, 784, 33, gathered}, {30, 61, 2, gathered}}) {
      CAPTURE(gathered);
      CAPTURE(layer.batch);
      std::string tasks;
      const auto apart = train(layer, false);
      CHECK(all_equal(apart, train(layer, true, &tasks)));
      CAPTURE(tasks);
      CHECK(contains(tasks, gathered ? "gather + cast + div + matmul" : "cast + div + matmul"));
      CHECK(contains(tasks, "cast + div + gradient/matmul"));
      for (const int threads : {1, 3}) {
        const ComputeThreads some(threads);
        CHECK(all_equal(apart, train(layer, true)));
      }
    }
  }
}

TEST_CASE("fused products: bytes that cpu multiplies as halves are rounded first") {
  for (const char* precision : {"mixed_bf16", "mixed_fp16"}) {
    for (const bool gathered : {false, true}) {
      CAPTURE(precision);
      CAPTURE(gathered);
      const ByteLayer layer{100, 784, 10, gathered};
      std::string tasks;
      const auto together = train(layer, true, &tasks, precision);
      CAPTURE(tasks);
      CHECK_FALSE(contains(tasks, "div + matmul"));
      CHECK(all_equal(together, train(layer, false, nullptr, precision)));
    }
  }
}

// Windows of few channels are widened, of bytes as of what is made of them.
TEST_CASE("fused products: images of bytes have the bits of separate tasks in mixed bf16") {
  for (const int64_t channels : {1, 3, 16, 17}) {
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(channels);
      CAPTURE(where);
      Graph g;
      const Value x = g.input("x", u8, {4, 9, 11, channels});
      const Value w = g.input("w", f32, {5, 5, channels, 20});
      const Value y = relu(conv2d(cast(x, f32) / 255.0f, w, {.padding = "same"}));
      Tensor weights(f32, w.shape());
      for (int64_t i = 0; i < weights.num_elements(); ++i)
        weights.set(i, 0.013 * static_cast<double>(i * 7 % 97) - 0.6);
      const Feeds feeds{{x, bytes(x.shape(), 5)}, {w, weights}};
      std::vector<Tensor> results;
      for (const bool fuse : {false, true}) {
        Session session(g, device(where),
                        {.disabled_passes = keel_test::fusion(fuse), .precision = "mixed_bf16"});
        results.push_back(session.run(y, feeds));
      }
      CHECK(bit_equal(results[0], results[1]));
    }
  }
}

TEST_CASE(
    "fused products: bytes that are multiplied with a batch or looked up have the same bits") {
  for (const bool batch : {false, true}) {
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(batch);
      CAPTURE(where);
      Graph g;
      const Value x = g.input("x", u8, {1, 30, 61});
      const Value w = g.input("w", f32, {batch ? 4 : 1, 61, 20});
      const Value floats = cast(x, f32);
      const Value y = matmul(batch ? floats / 255.0f : sqrt(floats), w);
      Tensor weights(f32, w.shape());
      for (int64_t i = 0; i < weights.num_elements(); ++i)
        weights.set(i, 0.25 * static_cast<double>(i % 9) - 1.0);
      const Feeds feeds{{x, bytes({1, 30, 61}, 9)}, {w, weights}};
      std::vector<Tensor> results;
      for (const bool fuse : {false, true}) {
        Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
        const std::string tasks = session.describe({}, {y}, feeds);
        CAPTURE(tasks);
        CHECK(contains(tasks, batch ? "div + matmul" : "sqrt + matmul") == fuse);
        results.push_back(session.run(y, feeds));
      }
      CHECK(bit_equal(results[0], results[1]));
    }
  }
}

TEST_CASE("fused products: bytes with many columns and in long rows have the bits of a cast") {
  for (const ByteLayer& layer : {ByteLayer{100, 784, 512, false}, {40, 9000, 20, false}}) {
    std::string tasks;
    const auto together = train(layer, true, &tasks);
    CAPTURE(tasks);
    CHECK(contains(tasks, "cast + div + gradient/matmul"));
    CHECK(all_equal(together, train(layer, false)));
  }
}

namespace {

void check_wrong_row_number(const char* where) {
  const ComputeThreads two(2);
  GatheredNet net(300, 784, 10);
  Session session(net.g, device(where));
  std::vector<int32_t> numbers(200, 4);
  numbers.back() = 300;
  const Tensor wrong = Tensor::of<int32_t>({200}, std::span<const int32_t>(numbers));
  std::vector<Tensor> before;
  for (const Value& state : net.g.states()) before.push_back(session.read(state));
  const std::string message = error_of([&] {
    session.run(net.update, {net.loss}, {{net.table, bytes({300, 784}, 1)}, {net.rows, wrong}});
  });
  CAPTURE(message);
  CHECK(contains(message, "gather"));
  CHECK(contains(message, "300 at position 199"));
  for (size_t i = 0; i < before.size(); ++i) session.write(net.g.states()[i], before[i]);
  numbers.back() = 299;
  const Tensor right = Tensor::of<int32_t>({200}, std::span<const int32_t>(numbers));
  session.run(net.update, {net.loss}, {{net.table, bytes({300, 784}, 1)}, {net.rows, right}});
  CHECK_FALSE(bit_equal(session.read(net.g.states()[0]), before[0]));
}

}  // namespace

TEST_CASE("fused products: a row number out of range is an error that changes nothing") {
  check_wrong_row_number("npu:0");
  check_wrong_row_number("cpu:0");
}

TEST_CASE("fused products: products of halves round before what follows them") {
  struct Sides {
    int64_t m, n, k;
  };
  // The second is cut into several tiles on both devices.
  for (const Sides& sides : {Sides{70, 130, 50}, Sides{300, 260, 410}, Sides{3, 5, 2}}) {
    const int64_t m = sides.m, n = sides.n, k = sides.k;
    for (const DType low : {f16, bf16}) {
      for (const bool wide : {false, true}) {
        const auto make = [=](Graph& g) {
          const Value x = cast(g.input("x", f32, {m, k}), low);
          const Value y = cast(g.input("y", f32, {k, n}), low);
          const Value b = cast(g.input("b", f32, {n}), wide ? f32 : low);
          const Value product = matmul(x, y, {.wide = wide});
          return std::pair(Update{}, Values{cast(relu(product + b), f32)});
        };
        const StepCase c{make, {noise({m, k}, 1), noise({k, n}, 2), noise({n}, 3)}};
        for (const char* where : {"npu:0", "cpu:0"}) {
          CAPTURE(where);
          CAPTURE(m);
          std::string tasks;
          const auto together = run_case(c, where, true, &tasks);
          CAPTURE(tasks);
          CHECK(contains(tasks, "matmul + add + relu"));
          // The cube loads no f32 as f16: an overflow would raise the float status.
          if (low == bf16) CHECK(contains(tasks, "cast + cast + matmul"));
          CHECK(all_equal(together, run_case(c, where, false)));
          const ComputeThreads three(3);
          CHECK(all_equal(together, run_case(c, where, true)));
        }
      }
    }
  }
}

namespace {

Tensor classes(int64_t rows, int64_t count, DType dtype) {
  Tensor t(dtype, {rows});
  for (int64_t i = 0; i < rows; ++i) t.set(i, static_cast<double>(i * 7 % count));
  return t;
}

}  // namespace

TEST_CASE("fused products: losses of rows and gradients are those of separate tasks") {
  struct Rows {
    int64_t rows, depth, columns;
    DType labels;
    double smoothing;
    bool bias, one_factor, both;
  };
  const Rows cases[] = {
      {100, 784, 10, u8, 0, true, true, true},  {37, 20, 10, i64, 0.1, true, false, true},
      {64, 30, 16, i32, 0, false, true, true},  {130, 9, 17, u8, 0.2, false, false, true},
      {200, 300, 77, u8, 0, true, true, false}, {1500, 8, 1024, i32, 0, true, true, true},
      {1, 5, 3, u8, 0, true, true, true},       {5, 0, 4, u8, 0, true, true, true}};
  for (const Rows& r : cases) {
    CAPTURE(r.rows);
    CAPTURE(r.columns);
    const StepCase c{
        [&](Graph& g) {
          const Value x = g.input("x", f32, {r.rows, r.depth});
          const Value w = g.input("w", f32, {r.depth, r.columns});
          const Value b = g.input("b", f32, {r.columns});
          const Value u = g.input("u", f32, {r.rows});
          const Value y = g.input("y", r.labels, {r.rows});
          const Value product = matmul(x, w);
          const Value logits = r.bias ? product + b : product;
          const CrossEntropyOptions options{.label_smoothing = r.smoothing};
          Values fetches{softmax_cross_entropy_grad(logits, y, u, options)};
          if (r.both) fetches.push_back(softmax_cross_entropy(logits, y, options));
          return std::pair(Update{}, fetches);
        },
        {noise({r.rows, r.depth}, 1), noise({r.depth, r.columns}, 2), noise({r.columns}, 3),
         r.one_factor ? Tensor::full(f32, {r.rows}, 0.37) : noise({r.rows}, 4),
         classes(r.rows, r.columns, r.labels)}};
    for (const char* where : {"npu:0", "cpu:0"}) {
      CAPTURE(where);
      std::string tasks;
      const auto together = run_case(c, where, true, &tasks);
      CAPTURE(tasks);
      CHECK(contains(tasks, "matmul + "));
      CHECK_FALSE(contains(tasks, "  softmax_cross_entropy  "));
      CHECK(all_equal(together, run_case(c, where, false)));
      for (const int threads : {2, 5}) {
        const ComputeThreads several(threads);
        CHECK(all_equal(together, run_case(c, where, true)));
      }
    }
  }
}

TEST_CASE("fused products: softmax of batches of products") {
  const StepCase c{
      [](Graph& g) {
        const Value x = g.input("x", f32, {3, 40, 16});
        const Value y = g.input("y", f32, {3, 30, 16});
        const Value scores = matmul(x, y, {.transpose_b = true}) * 0.25f;
        return std::pair(Update{}, Values{softmax(scores), log_softmax(scores), scores});
      },
      {noise({3, 40, 16}, 1), noise({3, 30, 16}, 2)}};
  for (const char* where : {"npu:0", "cpu:0"}) {
    std::string tasks;
    const auto together = run_case(c, where, true, &tasks);
    CHECK(contains(tasks, "matmul + mul + softmax + log_softmax"));
    CHECK(all_equal(together, run_case(c, where, false)));
  }
}

TEST_CASE("fused products: rows that a product does not leave whole are a task of their own") {
  struct Shapes {
    int64_t rows, depth, columns;
    const char* why;
  };
  // Wider than a piece; cut by columns.
  const Shapes shapes[] = {{1200, 4, 1100, "1100 columns, more than 10"},
                           {16, 600, 512, "dealt to threads by its 512 columns"}};
  const ComputeThreads two(2);
  for (const Shapes& s : shapes) {
    Graph g;
    const Value x = g.input("x", f32, {s.rows, s.depth});
    const Value w = g.input("w", f32, {s.depth, s.columns});
    g.set_outputs({softmax(matmul(x, w))});
    FuseReport report;
    const auto result = fuse(
        g, [](const Node& node) { return device("npu:0").backend().supports(node); }, &report);
    CHECK(result->outputs()[0].node().op_name() == "softmax");
    CHECK(keel_test::reports(report, s.why));
  }
}

TEST_CASE("fused products: a class id out of range is told with its row") {
  for (const char* where : {"npu:0", "cpu:0"}) {
    for (const bool fuse : {true, false}) {
      const ComputeThreads two(2);
      Graph g;
      const Value x = g.input("x", f32, {100, 784});
      const Value w = g.state("w", glorot_uniform({784, 10}));
      const Value y = g.input("y", u8, {100});
      const Value loss = mean(softmax_cross_entropy(matmul(x, w), y));
      const Update update = sgd(0.5).minimize(loss);
      Session session(g, device(where), {.disabled_passes = keel_test::fusion(fuse)});
      Tensor labels = classes(100, 10, u8);
      labels.set(97, 10);
      std::vector<Tensor> before;
      for (const Value& state : g.states()) before.push_back(session.read(state));
      const Tensor images = noise({100, 784}, 1);
      const std::string message = error_of([&] {
        session.run(update, {loss}, {{x, images}, {y, labels}});
      });
      CAPTURE(message);
      CHECK(contains(message, "softmax_cross_entropy"));
      CHECK(contains(message, "class ids from 0 to 9"));
      CHECK(contains(message, "10 in row 97"));
      CHECK(contains(message, "test_fused_products.cpp"));
      for (size_t i = 0; i < before.size(); ++i) session.write(g.states()[i], before[i]);
      labels.set(97, 9);
      session.run(update, {loss}, {{x, images}, {y, labels}});
      CHECK_FALSE(bit_equal(session.read(w), before[0]));
    }
  }
}

TEST_SUITE_END();

}  // namespace keel
