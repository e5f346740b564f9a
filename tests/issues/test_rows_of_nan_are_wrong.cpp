// A model of NaN was right for every item of class 0: NaN is the largest number of a row.
#include <cmath>

#include <doctest/doctest.h>

#include "keel/keel.h"

TEST_SUITE_BEGIN("nn");

TEST_CASE("rows that hold NaN are counted as wrong by accuracy and by top-k accuracy") {
  using namespace keel;
  for (const std::string& backend : backend_names()) {
    CAPTURE(backend);
    for (const DType dtype : {f32, bf16}) {
      Graph g;
      const Value logits = g.input("logits", dtype, {-1, 3}), ids = g.input("ids", i32, {-1});
      const Values metrics = {accuracy(logits, ids), top_k_accuracy(logits, ids, 2)};
      Session session(g, device(backend));
      // The rows are NaN alone, NaN at the class and beside it, and one of numbers and infinities.
      const Tensor rows =
          Tensor::of<float>({4, 3}, {NAN, NAN, NAN, 0, NAN, 1, 9, NAN, 0, -INFINITY, 2, INFINITY});
      const auto got = session.run(
          metrics, {{logits, rows.cast(dtype)}, {ids, Tensor::of<int32_t>({4}, {0, 1, 0, 2})}});
      CHECK(got[0].at(0) == 0.25);
      CHECK(got[1].at(0) == 0.25);
    }
  }
}

TEST_SUITE_END();
