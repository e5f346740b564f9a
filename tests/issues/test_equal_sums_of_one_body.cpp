// cse merged equal reductions in the body of a fused node, so that a graph of such nodes that was
// printed and parsed again was refused: each reduction of a body has a result.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/text.h"
#include "keel/keel.h"

namespace {
using namespace keel;
}  // namespace

TEST_CASE("a fused body may hold the same sum twice") {
  auto body = std::make_shared<Graph>();
  const Value inner[] = {body->input("x", f32, {2, 3}), body->input("y", f32, {2, 3})};
  body->set_outputs({sum(inner[0], {0}), sum(inner[0] * inner[1], {0}), sum(inner[0], {0})});
  Graph made;
  const Value x = made.input("x", f32, {2, 3}), y = made.input("y", f32, {2, 3});
  const Node& fused = made.add("fused", {x, y}, {}, CallSite::here(), {body});
  made.set_outputs({fused.output(0), fused.output(1), fused.output(2)});
  const std::unique_ptr<Graph> parsed = parse_graph(print_graph(made));
  for (const char* where : {"cpu:0", "npu:0"}) {
    CAPTURE(where);
    Session session(*parsed, device(where));
    const Feeds feeds{{parsed->inputs()[0], Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                      {parsed->inputs()[1], Tensor::of<float>({2, 3}, {1, 1, 1, 2, 2, 2})}};
    const auto results = session.run(parsed->outputs(), feeds);
    const double sums[] = {5, 7, 9}, weighted[] = {9, 12, 15};
    for (int64_t i = 0; i < 3; ++i) {
      CHECK(results[0].at(i) == sums[i]);
      CHECK(results[1].at(i) == weighted[i]);
      CHECK(results[2].at(i) == sums[i]);
    }
  }
}
