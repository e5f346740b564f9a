// ONNX's ScatterND and GatherND were refused where any dimension of their input was open, also one
// inside of the rows that the indices name: an lstm that Keel exported for any batch was no model
// that Keel reads.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "keel/keel.h"
#include "keel/ops/exchange/onnx/import.h"

#include "support/error_of.h"
#include "support/onnx_bytes.h"

namespace keel_test {
namespace {

constexpr int kFloat = 1;

struct RowOp {
  std::string reduction;  // empty: GatherND
  std::vector<int64_t> x, indices, updates, y;
  std::vector<int64_t> named;  // the values of `indices`

  keel::onnx::ImportedModel import() const {
    OnnxGraph graph{.nodes = {},
                    .initializers = {onnx_integers("i", indices, named)},
                    .inputs = {onnx_value("x", kFloat, x)},
                    .outputs = {onnx_value("y", kFloat, y)}};
    if (reduction.empty()) {
      graph.nodes = {onnx_node("GatherND", {"x", "i"}, {"y"})};
    } else {
      graph.inputs.push_back(onnx_value("u", kFloat, updates));
      graph.nodes = {onnx_node(
          "ScatterND", {"x", "i", "u"}, {"y"},
          {bytes_field(1, "reduction") + bytes_field(4, reduction) + number_field(20, 3)})};
    }
    return keel::onnx::import_model(keel::onnx::parse_model(onnx_model(graph, 18), "m.onnx"), {});
  }
};

keel::Tensor scattered_numbers(const keel::Shape& shape, int factor) {
  keel::Tensor tensor(keel::f32, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i)
    tensor.set(i, static_cast<double>(i * factor % 11 - 4));
  return tensor;
}

double combined(const std::string& reduction, double own, double update) {
  if (reduction == "add") return own + update;
  if (reduction == "mul") return own * update;
  if (reduction == "max") return std::max(own, update);
  return reduction == "min" ? std::min(own, update) : update;
}

// Returns x with the updates put into it one after the other, by the definition of the op: places
// are those of rows of `row` elements.
keel::Tensor scattered(const std::string& reduction, const keel::Tensor& x,
                       const std::vector<int64_t>& places, const keel::Tensor& updates,
                       int64_t row) {
  keel::Tensor result = x.clone();
  for (size_t i = 0; i < places.size(); ++i) {
    for (int64_t k = 0; k < row; ++k) {
      const int64_t to = places[i] * row + k;
      const double update = updates.at(static_cast<int64_t>(i) * row + k);
      result.set(to, combined(reduction, result.at(to), update));
    }
  }
  return result;
}

const std::vector<std::string> kReductions = {"none", "add", "mul", "max", "min"};

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("ScatterND of rows whose size is open puts them where the indices say") {
  for (const std::string& reduction : kReductions) {
    CAPTURE(reduction);
    // Twice the same row but for none, which leaves open what is there then; -1 is the last one.
    const bool once = reduction == "none";
    const std::vector<int64_t> named =
        once ? std::vector<int64_t>{1, -1} : std::vector<int64_t>{1, -1, 1};
    const std::vector<int64_t> places =
        once ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1, 2, 1};
    const auto count = static_cast<int64_t>(named.size());
    const RowOp op{.reduction = reduction,
                   .x = {3, -1, 2},
                   .indices = {count, 1},
                   .updates = {count, -1, 2},
                   .y = {3, -1, 2},
                   .named = named};
    const keel::onnx::ImportedModel model = op.import();
    CHECK(model.output("y").shape() == keel::Shape{3, -1, 2});
    for (const std::string backend : {"ref", "cpu", "npu"}) {
      CAPTURE(backend);
      keel::Session session(*model.graph, keel::device(backend));
      for (const int64_t n : {1, 4}) {
        const keel::Tensor x = scattered_numbers({3, n, 2}, 3),
                           u = scattered_numbers({count, n, 2}, 7);
        const keel::Tensor y =
            session.run(model.output("y"), {{model.input("x"), x}, {model.input("u"), u}});
        CHECK(bit_equal(y, scattered(reduction, x, places, u, n * 2)));
      }
    }
  }
}

TEST_CASE("ScatterND and GatherND of two indices leave one size of a row open") {
  // Rows [1, 0] and [0, 2] of [2, 3, ?, 2], rows 3 and 2 of six.
  for (const std::string& reduction : kReductions) {
    CAPTURE(reduction);
    const RowOp op{.reduction = reduction,
                   .x = {2, 3, -1, 2},
                   .indices = {1, 2, 2},
                   .updates = {1, 2, -1, 2},
                   .y = {2, 3, -1, 2},
                   .named = {1, 0, 0, -1}};
    const keel::onnx::ImportedModel model = op.import();
    keel::Session session(*model.graph, keel::device("ref"));
    const keel::Tensor x = scattered_numbers({2, 3, 5, 2}, 3),
                       u = scattered_numbers({1, 2, 5, 2}, 7);
    const keel::Tensor y =
        session.run(model.output("y"), {{model.input("x"), x}, {model.input("u"), u}});
    CHECK(bit_equal(y, scattered(reduction, x, {3, 2}, u, 10)));
  }
  const RowOp gathered{.reduction = "",
                       .x = {2, 3, -1, 2},
                       .indices = {2, 2},
                       .updates = {},
                       .y = {2, -1, 2},
                       .named = {1, 0, 0, -1}};
  const keel::onnx::ImportedModel model = gathered.import();
  keel::Session session(*model.graph, keel::device("ref"));
  const keel::Tensor x = scattered_numbers({2, 3, 5, 2}, 3);
  const keel::Tensor y = session.run(model.output("y"), {{model.input("x"), x}});
  REQUIRE(y.shape() == keel::Shape{2, 5, 2});
  for (int64_t i = 0; i < 10; ++i) {
    CHECK(y.at(i) == x.at(30 + i));
    CHECK(y.at(10 + i) == x.at(20 + i));
  }
}

TEST_CASE("ScatterND refuses what only a run knows and rows that do not fit") {
  RowOp op{.reduction = "max",
           .x = {-1, 2},
           .indices = {1, 1},
           .updates = {1, 2},
           .y = {-1, 2},
           .named = {0}};
  CHECK(contains(error_of([&] { op.import(); }),
                 "the sizes that its indices name are not known before the run: [?, 2]"));
  // Two open sizes are told apart where no axes are made one.
  op.x = op.y = {2, 2, -1, -1};
  op.indices = {1, 2};
  op.updates = {1, -1, -1};
  op.named = {0, 1};
  CHECK(contains(error_of([&] { op.import(); }),
                 "too many of its dimensions are not known before the run: [4, ?, ?]"));
  // An update of one element is not spread out over a row.
  op.x = op.y = {2, -1};
  op.indices = {1, 1};
  op.updates = {1, -1};
  op.named = {0};
  const keel::onnx::ImportedModel model = op.import();
  keel::Session session(*model.graph, keel::device("ref"));
  const std::string error = error_of([&] {
    session.run(model.output("y"), {{model.input("x"), scattered_numbers({2, 3}, 1)},
                                    {model.input("u"), scattered_numbers({1, 1}, 1)}});
  });
  CHECK_MESSAGE(contains(error, "ScatterND: updates: expected size 3"), error);
}

TEST_SUITE_END();

}  // namespace keel_test
