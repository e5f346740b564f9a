// A hand-written fused body whose outputs had different numbers of elements was computed by the
// first one's, beyond the end of the other; of a larger constant in a body only the first element
// was read.
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/graph.h"
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

TEST_SUITE_END();

}  // namespace keel
