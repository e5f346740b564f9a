// A fused product of a table's rows and of the table as it is stored took both for the rows: bodies
// of such nodes come from text or from Graph::add, fuse makes none.
#include <memory>

#include <doctest/doctest.h>

#include "keel/keel.h"

namespace {
using namespace keel;

Value rows_and_table(const Value& table, const Value& rows, const Value& w) {
  return matmul(cast(gather(table, rows), f32) + cast(table, f32), w);
}

struct Operands {
  explicit Operands(Graph& g)
      : table(g.input("table", u8, {3, 2})),
        rows(g.input("rows", i32, {3})),
        w(g.input("w", f32, {2, 1})) {}
  Value table, rows, w;
};

}  // namespace

TEST_CASE("a fused product does not take a table for its gathered rows") {
  auto body = std::make_shared<Graph>();
  const Operands inner(*body);
  body->set_outputs({rows_and_table(inner.table, inner.rows, inner.w)});
  for (const char* where : {"cpu:0", "npu:0"}) {
    CAPTURE(where);
    Graph g;
    const Operands x(g);
    const Value y = g.add("fused", {x.table, x.rows, x.w}, {}, CallSite::here(), {body}).output();
    Session session(g, device(where));
    const keel::Feeds feeds{{x.table, Tensor::of<uint8_t>({3, 2}, {1, 2, 3, 4, 5, 6})},
                            {x.rows, Tensor::of<int32_t>({3}, {2, 1, 0})},
                            {x.w, Tensor::of<float>({2, 1}, {1, 10})}};
    try {
      const Tensor result = session.run(y, feeds);
      // Rows [6, 8], [6, 8], [6, 8] of the sums.
      for (int64_t i = 0; i < 3; ++i) CHECK(result.at(i) == 86.0);
    } catch (const Error& error) {
      const std::string message = error.what();
      CAPTURE(message);
      // cpu: "not made of one stored value"; npu: "made of more than one value".
      CHECK(message.find("an operand is ") != std::string::npos);
      CHECK(message.find("one") != std::string::npos);
    }
  }
}
