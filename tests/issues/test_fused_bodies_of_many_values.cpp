// A fused body, read from a text or written by hand, that kept more values at once than a backend
// has registers for was computed beyond the end of these.
#include <memory>
#include <numeric>
#include <string>

#include <doctest/doctest.h>

#include "keel/graph/ir/text.h"
#include "keel/keel.h"

#include "support/error_of.h"

namespace keel {
namespace {

// Gives the sum of x modulo 2, 3 and so on, `count` of them. The last is the first that is added,
// so all of them are kept until then.
std::shared_ptr<Graph> body_of_remainders(int64_t count, const Shape& shape) {
  auto body = std::make_shared<Graph>();
  const Value x = body->input("x", i64, shape);
  Values rests;
  for (int64_t i = 0; i < count; ++i) rests.push_back(mod(x, i + 2));
  Value total = rests.back();
  for (int64_t i = count - 1; i-- > 0;) total = total + rests[static_cast<size_t>(i)];
  body->set_outputs({total});
  return body;
}

// Returns a graph of one fused node around that body, as its text is read.
std::unique_ptr<Graph> graph_of_remainders(int64_t count, const Shape& shape) {
  Graph g;
  const Value x = g.input("x", i64, shape);
  const auto body = body_of_remainders(count, shape);
  g.set_outputs({g.add("fused", {x}, {}, CallSite::here(), {body}).output()});
  return parse_graph(print_graph(g));
}

Tensor numbers_from_1000(const Shape& shape) {
  Tensor t(i64, shape);
  std::iota(t.data<int64_t>().begin(), t.data<int64_t>().end(), 1000);
  return t;
}

}  // namespace

TEST_SUITE_BEGIN("issues");

TEST_CASE("a fused body of many values is computed or refused") {
  const Shape shape{4, 64};
  const Tensor x = numbers_from_1000(shape);
  for (const int64_t count : {20, 60, 90}) {
    const auto graph = graph_of_remainders(count, shape);
    Session session(*graph, device("cpu"));
    const Tensor y = session.run(graph->outputs(), {{graph->inputs()[0], x}})[0];
    int64_t wrong = 0, number = 1000;
    for (const int64_t got : y.data<int64_t>()) {
      int64_t expected = 0;
      for (int64_t i = 0; i < count; ++i) expected += number % (i + 2);
      wrong += got != expected ? 1 : 0;
      ++number;
    }
    CHECK(wrong == 0);
  }
  const auto graph = graph_of_remainders(140, shape);
  const std::string error = keel_test::error_of([&] {
    Session session(*graph, device("cpu"));
    session.run(graph->outputs(), {{graph->inputs()[0], x}});
  });
  CHECK(keel_test::contains(error, "more than registers of"));
}

TEST_SUITE_END();

}  // namespace keel
