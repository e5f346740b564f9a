// A hand-written fused body whose outputs had different numbers of elements was computed by the
// first one's, beyond the end of the other; of a larger constant in a body only the first element
// was read. A body of one number of elements and two shapes read what is broadcast to one of them
// as if it were broadcast to the other, beyond its end.
#include <functional>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "keel/backends/registry.h"
#include "keel/graph/ir/graph.h"
#include "keel/graph/runtime/session.h"
#include "keel/ops/ops.h"

#include "support/error_of.h"

namespace keel {
namespace {

using keel_test::contains;
using keel_test::error_of;

// A node around the body, with inputs of its types in their order.
std::string error_around(const std::shared_ptr<Graph>& body) {
  Graph g;
  Values inputs;
  for (const Value& v : body->inputs())
    inputs.push_back(g.input("x" + std::to_string(inputs.size()), v.dtype(), v.shape()));
  return error_of([&] { g.add("fused", inputs, {}, CallSite::here(), {body}); });
}

std::shared_ptr<Graph> body_of(const std::function<Values(Graph&)>& build) {
  auto body = std::make_shared<Graph>();
  body->set_outputs(build(*body));
  return body;
}

}  // namespace

TEST_SUITE_BEGIN("graph");

TEST_CASE("a fused body has one iteration and small constants") {
  CHECK(error_around(body_of([](Graph& b) {
          const Value x = b.input("x", f32, {1000});
          return Values{-x, x * 2.0f};
        })).empty());
  CHECK(contains(error_around(body_of([](Graph& b) {
                   return Values{-b.input("x", f32, {1000}), -b.input("y", f32, {4})};
                 })),
                 "outputs of 1000 elements"));
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value x = b.input("x", f32, {10, 4});
                   return Values{x * exp(b.input("y", f32, {4}))};
                 })),
                 "element-wise ops of 40 elements, got 'exp'"));
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value x = b.input("x", f32, {4});
                   return Values{x * b.constant(Tensor::of<float>({4}, {1, 2, 3, 4}))};
                 })),
                 "constants of one element"));
  // The same holds for the ops before a sum and for the ops after it.
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value x = b.input("x", f32, {10, 4});
                   return Values{sum(x + exp(b.input("y", f32, {4})), {0})};
                 })),
                 "element-wise ops of 40 elements"));
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value total = sum(b.input("x", f32, {10, 4}), {0});
                   return Values{total + b.input("y", f32, {3, 4})};
                 })),
                 "outputs of 4 elements"));
}

TEST_CASE("a fused body broadcasts to the shape that it goes over alone") {
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value y = abs(b.input("y", f32, {1, 256}));
                   return Values{y, b.input("x", f32, {64, 4}) + b.input("b", f32, {4})};
                 })),
                 "expected ops that broadcast f32[4] to the shape [1, 256]"));
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value x = b.input("x", f32, {64, 4}) + b.input("b", f32, {4});
                   return Values{sum(abs(reshape(x, {1, 256})), {1})};
                 })),
                 "expected ops that broadcast f32[4] to the shape [1, 256]"));
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value x = broadcast_to(b.input("b", f32, {4}), {64, 4});
                   return Values{sum(abs(reshape(x, {1, 256})), {1})};
                 })),
                 "expected ops that broadcast f32[4] to the shape [1, 256]"));
  CHECK(
      contains(error_around(body_of([](Graph& b) {
                 const Value rows = sum(b.input("x", f32, {64, 4, 2}), {2});
                 return Values{rows * 2.0f, reshape(rows, {1, 256}) + b.input("b", f32, {256, 1})};
               })),
               "outputs of 256 elements"));
  CHECK(contains(error_around(body_of([](Graph& b) {
                   const Value rows = sum(b.input("x", f32, {64, 4, 2}), {2});
                   return Values{rows * 2.0f, reshape(rows, {4, 64}) + b.input("b", f32, {64})};
                 })),
                 "expected ops that broadcast f32[64] to the shape [64, 4]"));
  // Other shapes are read in order where nothing is broadcast, and where a view is what comes last.
  CHECK(error_around(body_of([](Graph& b) {
          const Value x = b.input("x", f32, {64, 4}) + b.input("z", f32, {64, 4}) * 2.0f;
          return Values{sum(abs(reshape(x, {1, 256})), {1})};
        })).empty());
  CHECK(error_around(body_of([](Graph& b) {
          const Value x = b.input("x", f32, {64, 4}) + b.input("b", f32, {4});
          return Values{sum(reshape(x, {1, 256}), {1})};
        })).empty());
  CHECK(error_around(body_of([](Graph& b) {
          const Value rows = reshape(sum(b.input("x", f32, {64, 4}), {1}), {8, 8});
          return Values{rows + b.input("b", f32, {8})};
        })).empty());
}

TEST_CASE("what follows a product in a fused body has its shape") {
  const auto with_product = [](const std::function<Values(Graph&, Value)>& results) {
    return error_around(body_of([&](Graph& b) {
      return results(b, matmul(b.input("a", f32, {640, 8}), b.input("w", f32, {8, 4})));
    }));
  };
  const std::string rows = "row-wise ops on rows of the product's shape, [640, 4]";
  CHECK(contains(with_product([](Graph& b, Value y) {
                   return Values{y, softmax(abs(b.input("y", f32, {1, 2560})))};
                 }),
                 rows));
  CHECK(contains(with_product([](Graph& b, Value y) {
                   return Values{y, softmax(b.input("y", f32, {320, 8}))};
                 }),
                 rows));
  CHECK(contains(with_product([](Graph& b, Value y) {
                   return Values{y, abs(b.input("y", f32, {1, 2560}))};
                 }),
                 "results of the product's shape, [640, 4]"));
  CHECK(with_product([](Graph& b, Value y) {
          const Value z = abs(y + b.input("b", f32, {4}));
          return Values{softmax(z), z};
        }).empty());
}

TEST_CASE("inputs that leave a fused body have as many elements as its results") {
  CHECK(contains(error_around(body_of([](Graph& b) {
                   return Values{-b.input("x", f32, {1000}), b.input("y", f32, {4})};
                 })),
                 "outputs of 1000 elements"));
  CHECK(error_around(body_of([](Graph& b) {
          const Value x = b.input("x", f32, {1000});
          return Values{-x, x};
        })).empty());
}

// They were walked once for each way through them, and by a call for each.
TEST_CASE("gathers behind one another in a fused body are looked at once") {
  const auto gathered = [](int64_t count, bool twice) {
    return error_around(body_of([&](Graph& b) {
      Value t = b.input("table", f32, {8, 8});
      const Value rows = b.input("rows", i64, {8});
      for (int64_t i = 0; i < count; ++i) {
        const Value taken = gather(t, rows, 0);
        t = twice ? taken + gather(t, rows, 0) : taken;
      }
      return Values{matmul(t, b.input("w", f32, {8, 8}))};
    }));
  };
  CHECK(gathered(60, true).empty());
  CHECK(gathered(50000, false).empty());
}

TEST_CASE("a product whose operand is broadcast within its body is declined by that reason") {
  const auto body = body_of([](Graph& b) {
    const Value rows = broadcast_to(b.input("x", u8, {4}), {300, 4});
    return Values{matmul(cast(rows, f32), b.input("w", f32, {4, 2}))};
  });
  Graph g;
  const Values inputs{g.input("x", u8, {4}), g.input("w", f32, {4, 2})};
  const Value y = g.add("fused", inputs, {}, CallSite::here(), {body}).output();
  for (const char* where : {"cpu", "npu"}) {
    CHECK(contains(error_of([&] {
                     Session(g, device(where))
                         .run({y}, {{inputs[0], Tensor::full(u8, {4}, 1)},
                                    {inputs[1], Tensor::full(f32, {4, 2}, 1)}});
                   }),
                   "an operand is broadcast before the product"));
  }
}

TEST_SUITE_END();

}  // namespace keel
