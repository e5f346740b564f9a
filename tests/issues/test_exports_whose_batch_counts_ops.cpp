// A cumprod along a batch that the run decides was exported with the ten rounds that 1,009 to 1,019
// items have, and gave wrong products for more than 1,024. A slice that takes at most 100 items was
// taken for one that always has 100, and what divides by them divided by 100 in smaller batches.
// One of at most 2,000 was taken for the whole batch. Windows that go along the batch were padded
// as 1,009 items want it, and a norm along it had a scale of 1,009 ones. A value that is repeated
// to no elements lost the open size of its batch, and a model that takes one size alone was refused
// by a size that nobody had asked for. An output of an empty name was written, as no ONNX file may
// have one.
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"
#include "keel/ops/exchange/onnx/export.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/error_of.h"
#include "support/temp_folder.h"

namespace keel {

TEST_SUITE_BEGIN("issues");

TEST_CASE("a graph whose ops are counted by the batch is exported for one size alone") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Value products = cumprod(x, 0);
  const Value slope = gradients(sum(prod(x, {0})), {x})[0];
  for (const Value& v : {products, slope}) {
    CHECK_THROWS_WITH_AS(onnx::save(g, {}, {v}, folder.file("m.onnx")),
                         doctest::Contains("export it for one size"), Error);
    onnx::save(g, {}, {v}, folder.file("m.onnx"), {.batch = 5});
  }
}

TEST_CASE("a slice that ends where a small batch does is exported for one size alone") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {-1, 4});
  const auto save = [&](const Value& v, int64_t batch) {
    onnx::save(g, {}, {v}, folder.file("m.onnx"), {.batch = batch});
  };
  for (const Value& v : {var(slice(x, {0}, {100}), {0}), var(slice(x, {-100}, {kToEnd}), {0}),
                         var(slice(x, {0}, {2}), {0}), sum(slice(x, {100}, {kToStart}, {-1})),
                         sum(slice(x, {2}, {5}))}) {
    CHECK_THROWS_WITH_AS(save(v, 0),
                         doctest::Contains("is another number where the batch is small"), Error);
    save(v, 5);
  }
  // These take the same elements of any batch that has them, or all but so many.
  for (const Value& v :
       {var(slice(x, {0}, {1}), {0}), var(slice(x, {-1}, {kToEnd}), {0}),
        var(slice(x, {3}, {kToEnd}), {0}), var(slice(x, {5}, {-5}), {0}),
        var(slice(x, {0, 1}, {kToEnd, 3}), {0}), var(slice(x, {kToEnd}, {kToStart}, {-1}), {0})})
    save(v, 0);
}

TEST_CASE("a slice that takes all of a batch up to some size is exported for one size alone") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {-1, 4});
  const Value twice = concat({x, x});
  const auto save = [&](const Value& v, int64_t batch) {
    onnx::save(g, {}, {v}, folder.file("m.onnx"), {.batch = batch});
  };
  for (const Value& v :
       {var(slice(x, {0}, {2000}), {0}), var(slice(x, {-2000}, {kToEnd}), {0}),
        mean(ones_like(slice(x, {2000}, {kToEnd}))), var(slice(x, {0}, {1000000}), {0}),
        var(slice(twice, {-3000}, {kToEnd}), {0})}) {
    CHECK_THROWS_WITH_AS(save(v, 0),
                         doctest::Contains("is another number where the batch is large"), Error);
    save(v, 5);
  }
  // Files of ONNX have this number for the end of an axis.
  for (const Value& v : {x, twice}) save(var(slice(v, {0}, {2147483647}), {0}), 0);
}

// With "same", 3 taps at a stride of 2 want a pad on both sides of an odd size, and of an even one
// behind it alone; 4 taps at a stride of 3 want 3 pads, 2 or 1.
TEST_CASE("windows along a batch whose padding it decides are exported for one size alone") {
  const keel_test::TempFolder folder;
  const auto convolved = [](const Value& image, int64_t taps, int64_t stride) {
    const Value weights = image.graph().constant(Tensor::full(f32, {taps, 1, 4, 2}, 1));
    return conv2d(image, weights, {.stride = {stride, 1}, .padding = "same"});
  };
  const auto largest = [](const Value& image, int64_t taps, int64_t stride) {
    return max_pool2d(image, {.window = {taps, 1}, .stride = {stride, 1}, .padding = "same"});
  };
  const auto average = [](const Value& image, int64_t taps, int64_t stride) {
    return avg_pool2d(image, {.window = {taps, 1}, .stride = {stride, 1}, .padding = "same"});
  };
  const auto check = [&](const auto& windows, DType dtype) {
    const auto saved = [&](const Shape& input, int64_t taps, int64_t stride, int64_t batch) {
      Graph g;
      const Value image = reshape(g.input("x", dtype, input), {1, -1, 8, 4});
      onnx::save(g, {}, {sum(windows(image, taps, stride), {1, 2})}, folder.file("m.onnx"),
                 {.batch = batch});
    };
    for (const int64_t stride : {2, 3}) {
      CHECK_THROWS_WITH_AS(saved({-1, 8, 4}, stride + 1, stride, 0),
                           doctest::Contains("on the size of the batch"), Error);
      saved({-1, 8, 4}, stride + 1, stride, 5);
    }
    // Each batch wants these pads.
    saved({-1, 8, 4}, 3, 1, 0);
    saved({-1, 2, 8, 4}, 3, 2, 0);
  };
  check(convolved, f32);
  check(largest, f32);
  check(average, f32);
  // This one is written as what it decomposes into.
  check(largest, f64);
}

TEST_CASE("the padding of windows that is the same for all batches that are probed is refused") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value image = reshape(g.input("x", f32, {-1, 8, 4}), {1, -1, 8, 4});
  // Only sizes of a rest of 1 want a pad, which none of the probed ones is.
  const Value v = max_pool2d(image, {.window = {2, 1}, .stride = {11, 1}, .padding = "same"});
  CHECK_THROWS_WITH_AS(onnx::save(g, {}, {sum(v, {1, 2})}, folder.file("m.onnx")),
                       doctest::Contains("its padding \"same\" depends on the size of the batch"),
                       Error);
}

// Rows of 8 and of 1,009 items alike have a mean of 0 and a variance of 1 then.
TEST_CASE("a norm along the batch has a scale of its length") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {-1, 4});
  onnx::save(g, {}, {layer_norm(transpose(x))}, folder.file("m.onnx"), {.names = {"y"}});
  onnx::ModelProto file = onnx::read_model(folder.file("m.onnx"));
  file.graph.inputs.at(0).shape->at(0) = {.size = 8, .name = ""};
  const onnx::ImportedModel model = onnx::import_model(file);
  Session session(*model.graph, device("ref"));
  Tensor fed(f32, {8, 4});
  for (int64_t i = 0; i < 32; ++i) fed.set(i, i / 4 % 2 == 0 ? -1 : 1);
  const Tensor y = session.run(model.output("y"), {{model.input("x"), fed}});
  REQUIRE(y.shape() == Shape{4, 8});
  for (int64_t i = 0; i < 32; ++i)
    CHECK(y.at(i) == doctest::Approx(i % 2 == 0 ? -1 : 1).epsilon(1e-4));
}

TEST_CASE("outputs have names that are not empty") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {2});
  CHECK_THROWS_WITH_AS(
      onnx::save(g, {}, {x + x, x - x}, folder.file("m.onnx"), {.names = {"y", ""}}),
      doctest::Contains("onnx::save: names: expected a name for each output"), Error);
  CHECK(!std::filesystem::exists(folder.file("m.onnx")));
}

// NaN is the largest; batches of fewer than k items are an error. An import knows no sorting of
// open sizes, so that it reads the file as one of a batch of that size.
TEST_CASE("the largest items of a batch are exported for any batch that has them") {
  const keel_test::TempFolder folder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {f32, f16, i64, i32, u8}) {
    CAPTURE(dtype);
    Graph g;
    const Sorted largest = top_k(g.input("x", dtype, {-1}), 3, 0);
    onnx::save(g, {}, {largest.values, largest.indices}, folder.file("m.onnx"),
               {.names = {"y", "i"}});
    onnx::ModelProto file = onnx::read_model(folder.file("m.onnx"));
    const auto check = [&](const std::vector<double>& items, const std::vector<int64_t>& expected) {
      const auto size = static_cast<int64_t>(items.size());
      Tensor fed(dtype, {size});
      for (int64_t i = 0; i < size; ++i) fed.set(i, items[static_cast<size_t>(i)]);
      file.graph.inputs.at(0).shape = {{.size = size, .name = ""}};
      const onnx::ImportedModel model = onnx::import_model(file);
      Session session(*model.graph, device("ref"));
      const std::vector<Tensor> got =
          session.run({model.output("y"), model.output("i")}, {{model.input("x"), fed}});
      Tensor due(dtype, {3});
      for (int64_t i = 0; i < 3; ++i) due.set(i, fed.at(expected[static_cast<size_t>(i)]));
      CHECK(bit_equal(got[0], due));
      CHECK(bit_equal(got[1], Tensor::of<int64_t>({3}, expected)));
    };
    check({1, 3, 2}, {1, 2, 0});
    check({1, 3, 2, 3, 0, 1, 2}, {1, 3, 2});
    if (is_float(dtype))
      check({1, infinity, infinity, 2, infinity, nan, 3, infinity, nan}, {5, 8, 1});
    CHECK_THROWS_AS(check({1, 3}, {1, 0, 0}), Error);
  }
}

TEST_CASE("what is repeated to no elements keeps the size of its batch") {
  const keel_test::TempFolder folder;
  for (const Shape& to : {Shape{-1, 0}, Shape{0, -1, 1}, Shape{-1, 4}}) {
    CAPTURE(to_string(to));
    Graph g;
    onnx::save(g, {}, {broadcast_to(g.input("x", f32, {-1, 1}), to)}, folder.file("m.onnx"),
               {.names = {"y"}});
    onnx::ModelProto file = onnx::read_model(folder.file("m.onnx"));
    file.graph.inputs.at(0).shape->at(0) = {.size = 3, .name = ""};
    const onnx::ImportedModel model = onnx::import_model(file);
    Session session(*model.graph, device("ref"));
    const Tensor y = session.run(model.output("y"), {{model.input("x"), Tensor(f32, {3, 1})}});
    CHECK(to_string(y.shape()) == to_string(to.with_dim(to.rank() == 2 ? 0 : 1, 3)));
  }
}

TEST_CASE("a model that takes one size of the batch is refused in words of its user") {
  const keel_test::TempFolder folder;
  Graph g;
  const Value x = g.input("x", f32, {-1, 3});
  const Value product = matmul(transpose(x), g.constant(Tensor(f32, {5, 4})));
  for (const Value& v : {product, reshape(x, {15})}) {
    const std::string error =
        keel_test::error_of([&] { onnx::save(g, {}, {v}, folder.file("m.onnx")); });
    CHECK_MESSAGE(
        keel_test::contains(error, "onnx::save: batch: the model does not take every size of it"),
        error);
    CHECK_MESSAGE(keel_test::contains(error, "SaveOptions::batch"), error);
    // It says what the model refused, too.
    const std::string why = "For 1009: " + v.node().op_name() + ": ";
    CHECK_MESSAGE(keel_test::contains(error, why), error);
    onnx::save(g, {}, {v}, folder.file("m.onnx"), {.batch = 5});
  }
}

TEST_SUITE_END();

}  // namespace keel
